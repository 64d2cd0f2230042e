// A hierarchy of what adds up in no collective.
// sound: nvcc
// expect: Hierarchical<Inner, Outer> says how ranks of one machine add up gradients, and how machines do
#include <tenet/comm/thread_transport.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/hierarchical.hpp>
#include <tenet/parallel/hogwild.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};
struct World {
  static ThreadTransport connect();
};

#ifdef FAULT
using Inner = Hogwild<1>;
#else
using Inner = AllReduce;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Distributed<World>, Hierarchical<Inner, Ring>>& trainer,
           const float* images, const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
