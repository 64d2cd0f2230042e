// The network ends with an image where the loss wants one row of scores.
// expect: the loss does not fit the network's output: CrossEntropy takes one row of scores
// expect: end the network with Flatten and Linear
// expect: CrossEntropy
// expect: Found<4, 28, 28>
#include <tenet/tenet.hpp>

using namespace tenet;

#ifdef FAULT
struct Net : Sequential<Conv2d<1, 4, 3, Padding<1>>, ReLU> {};
#else
struct Net : Sequential<Conv2d<1, 4, 3, Padding<1>>, ReLU, Flatten, Linear<3136, 10>> {};
#endif

int main() {
  Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer{{.learning_rate = 0.1f}};
  trainer.fit(DataLoader{GeneratedImages::train(), {.batch_size = 32}}, {.epochs = 2});
}
