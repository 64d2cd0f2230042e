// Ranks do not see each other's memory.
// sound: nvcc
// expect: Direct uses the memory of other replicas, which ranks cannot: take AllReduce, Ring or
#include <tenet/comm/thread_transport.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};
struct World {
  static ThreadTransport connect();
};

#ifdef FAULT
using Synchronisation = Direct;
#else
using Synchronisation = Ring;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Distributed<World>, Synchronisation>& trainer,
           const float* images, const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
