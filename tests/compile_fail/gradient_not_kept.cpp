// The gradient of a trainer that keeps none.
// expect: UpdateInBackward keeps no gradients: leave that policy out
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Policy = UpdateInBackward;
#else
using Policy = UpdateAfterBackward;
#endif

float largest(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Policy>& trainer) {
  return trainer.gradient("1.weight").front();
}
