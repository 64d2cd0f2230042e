// Statistics of the whole batch cannot be had where it is run in pieces.
// expect: SyncBatchNorm takes statistics of the whole batch, which MicroBatches and Reproducible run in pieces one
// after the other: leave one of the two out
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Conv2d<1, 4, 3>, BatchNorm2d<4>, Flatten, Linear<2704, 10>> {};

#ifdef FAULT
using Shards = MicroBatches<4>;
#else
using Shards = WholeBatch;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, DataParallel<2>, SyncBatchNorm, Shards>& trainer,
           const float* images, const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
