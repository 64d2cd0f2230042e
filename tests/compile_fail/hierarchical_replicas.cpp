// Replicas of one process are on one machine.
// expect: LocalSgd, ShardedOptimizer and Hierarchical are for ranks; replicas of DataParallel share a machine
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/hierarchical.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Synchronisation = Hierarchical<AllReduce, Ring>;
#else
using Synchronisation = Ring;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, DataParallel<2>, Synchronisation>& trainer,
           const float* images, const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
