// Data in a device's memory for a trainer that works in the host's.
// expect: OnDevice: this trainer's device works in the host's memory: give it a pointer
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>>& trainer, const float* images, const int* labels) {
#ifdef FAULT
  return trainer.step(OnDevice{images}, labels, 32).loss;
#else
  return trainer.step(images, labels, 32).loss;
#endif
}
