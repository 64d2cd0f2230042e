// Workers of an asynchronous server do not take their steps together.
// expect: SyncBatchNorm needs workers that take each step together, which ranks with ParameterServer, LocalSgd or
// Hogwild do not: take AllReduce, Ring or ShardedOptimizer, or leave it out
#include <tenet/comm/thread_transport.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Conv2d<1, 4, 3>, BatchNorm2d<4>, Flatten, Linear<2704, 10>> {};
struct World {
  static ThreadTransport connect();
};

#ifdef FAULT
using BatchNorm = SyncBatchNorm;
#else
using BatchNorm = BatchNormOfWorker;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Distributed<World>, ParameterServer<Sharded, Asynchronous>,
                   BatchNorm>& trainer,
           const float* images, const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
