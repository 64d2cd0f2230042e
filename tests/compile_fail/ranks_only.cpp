// Replicas of a process share the parameters and the optimizer's state: there is nothing to average, or to share out.
// However often the trainer is called, there is one message.
// expect: LocalSgd, ShardedOptimizer and Hierarchical are for ranks; replicas of DataParallel share a machine, parameters
#include <tenet/comm/shared_memory.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Strategy = DataParallel<2>;
#else
using Strategy = Distributed<SharedMemory>;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Strategy, LocalSgd<8>>& trainer, const float* images,
           const int* labels) {
  trainer.step(images, labels, 32);
  trainer.save("weights.safetensors");
  trainer.optimizer().learning_rate = 0.1f;
  return trainer.step(images, labels, 32).loss;
}
