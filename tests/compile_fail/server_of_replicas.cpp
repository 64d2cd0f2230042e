// Replicas share the parameters, so that none can be steps ahead of another.
// expect: replicas of DataParallel meet after each step, and one of them is the server: take
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Consistency_ = Asynchronous;
#else
using Consistency_ = BulkSynchronous;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, DataParallel<2>, ParameterServer<OnRank<1>, Consistency_>>&
               trainer,
           const float* images, const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
