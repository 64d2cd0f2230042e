// A network that has members, but does not say what it computes.
// expect: the network has no forward: give it one
// expect: constexpr auto forward\(auto x\) const
// expect: \bNet\b
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net {
  Linear<784, 100> fc1;
  Linear<100, 10> fc2;
#ifndef FAULT
  constexpr auto forward(auto x) const { return fc2(relu(fc1(flatten(x)))); }
#endif
};

int main() {
  Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer{{.learning_rate = 0.1f}};
  return trainer.evaluate(DataLoader{GeneratedImages::test(), {.batch_size = 32}}).accuracy < 0.5;
}
