// A size of buckets where no buckets are sent.
// expect: BucketBytes, but this synchronisation sends no buckets of gradients: take AllReduce or Ring
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Synchronisation = Direct;
#else
using Synchronisation = AllReduce;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, DataParallel<2>, Synchronisation, BucketBytes<4096>>& it,
           const float* images, const int* labels) {
  return it.step(images, labels, 32).loss;
}
