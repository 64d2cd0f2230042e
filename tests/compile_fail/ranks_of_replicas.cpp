// Servers, and averages, are for ranks of one device each.
// expect: ParameterServer, LocalSgd, ShardedOptimizer and Hogwild are for ranks of one device each: leave DataParallel
// out of Distributed
#include <tenet/comm/shared_memory.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Strategy = Distributed<SharedMemory, DataParallel<2>>;
#else
using Strategy = Distributed<SharedMemory>;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Strategy, LocalSgd<8>>& trainer, const float* images,
           const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
