// After Flatten there are 16 x 5 x 5 features, the first linear layer expects 256.
// expect: the layer expects another number of features
// expect: after Flatten: channels x height x width
// expect: Expected<256>
// expect: Found<400>
// expect(g++): "head"
// expect(clang): "head"
// expect(nvcc): .h., .e., .a., .d.
#include <tenet/tenet.hpp>

using namespace tenet;

#ifdef FAULT
constexpr int features = 256;
#else
constexpr int features = 400;
#endif

struct Net : Sequential<Conv2d<1, 6, 5, Padding<2>>, ReLU, AvgPool2d<2>, Conv2d<6, 16, 5>, ReLU, AvgPool2d<2>, Flatten,
                        Named<"head", Linear<features, 10>>> {};

int main() {
  Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer;
  trainer.save("net.safetensors");
}
