// A synchronisation with a training step of its own may do anything in it.
// expect: predict_step_time: there is no model of this synchronisation, whose training step is its own
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/step_time.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

struct Mine : AllReduce {
#ifdef FAULT
  template <class Program, class Passes, long bucket_bytes, class T>
  using StepOfRank = DistributedExecution<Program, Passes, AllReduce, bucket_bytes, T>;
#endif
};

double step() {
  return predict_step_time<Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Distributed<Imagined>, Mine>>().step;
}
