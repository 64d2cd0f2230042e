// The second convolution gives 16 channels, the third expects 8.
// expect: the layer expects another number of channels
// expect: change the layer's first template argument
// expect: Expected<8, 12, 12>
// expect: Found<16, 12, 12>
// expect(g++): Layer<.*"5"
// expect(clang): Layer<.*"5"
// expect(nvcc): Layer<.*'5'
#include <tenet/tenet.hpp>

using namespace tenet;

#ifdef FAULT
constexpr int channels = 8;
#else
constexpr int channels = 16;
#endif

struct Net : Sequential<Conv2d<1, 6, 5, Padding<2>>, ReLU, MaxPool2d<2>, Conv2d<6, 16, 3>, ReLU, Conv2d<channels, 4, 3>,
                        Flatten, Linear<400, 10>> {};

int main() {
  Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer{{.learning_rate = 0.1f}};
  trainer.fit(DataLoader{GeneratedImages::train(), {.batch_size = 64, .shuffle = true}}, {.epochs = 3});
  return trainer.evaluate(DataLoader{GeneratedImages::test(), {.batch_size = 64}}).accuracy < 0.5;
}
