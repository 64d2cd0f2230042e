// A setting of the optimizer that does not exist.
// expect: learning_rat\b
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

int main() {
#ifdef FAULT
  Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer{{.learning_rat = 0.1f}};
#else
  Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer{{.learning_rate = 0.1f}};
#endif
}
