// Hogwild cuts a batch by itself, and updates after each part.
// expect: Hogwild<samples> cuts a batch by itself, and updates after each part: leave MicroBatches or Reproducible out
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/hogwild.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Shards = MicroBatches<4>;
#else
using Shards = MicroBatches<1>;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, DataParallel<2>, Hogwild<8>, Shards>& trainer,
           const float* images, const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
