// A rank that is the parts of one network on several devices.
// expect: Distributed<world, inside>: a rank is Single, or the replicas of a DataParallel
#include <tenet/comm/shared_memory.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Strategy = Distributed<SharedMemory, InterOpParallel<2>>;
#else
using Strategy = Distributed<SharedMemory, DataParallel<2>>;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Strategy>& trainer, const float* images,
           const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
