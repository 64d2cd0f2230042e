// Replicas add up gradients, which this update does not keep.
// expect: UpdateInBackward keeps no gradients that replicas or micro-batches could add up
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Update = UpdateInBackward;
#else
using Update = UpdateAfterBackward;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, DataParallel<2>, Update>& trainer, const float* images,
           const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
