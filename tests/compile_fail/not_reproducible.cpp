// The same bits for any number of replicas: three do not divide the eight parts of a batch.
// expect: Reproducible goes with DataParallel of 1, 2, 4 or 8 replicas or with Distributed
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Strategy = DataParallel<3>;
#else
using Strategy = DataParallel<4>;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Reproducible, Strategy>& trainer, const float* images,
           const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
