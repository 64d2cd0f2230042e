// A trainer that is not told what the network's input looks like.
// expect: the input's shape is missing: add Image<channels, height, width>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

int main() {
#ifdef FAULT
  Trainer<Net, CrossEntropy, Sgd> trainer{{.learning_rate = 0.1f}};
#else
  Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer{{.learning_rate = 0.1f}};
#endif
  trainer.load("net.safetensors");
}
