// A norm over all gradients, of an update that has one of them at a time.
// expect: the optimizer needs all gradients before one parameter is updated, as ClipGradNorm does
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Update = UpdateInBackward;
#else
using Update = UpdateAfterBackward;
#endif

float loss(Trainer<Net, CrossEntropy, ClipGradNorm<Sgd>, Image<1, 28, 28>, Update>& trainer, const float* images,
           const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
