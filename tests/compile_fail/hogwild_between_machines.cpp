// Ranks that can be on several machines have no parameters in common.
// expect: Hogwild needs parameters that all read and write: between processes of one machine take
// Distributed<SharedMemory>
#include <tenet/comm/shared_memory.hpp>
#include <tenet/comm/simulated_transport.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/hogwild.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};
struct Machines {
  static SimulatedTransport connect();
};

#ifdef FAULT
using World = Machines;
#else
using World = SharedMemory;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Distributed<World>, Hogwild<8>>& trainer,
           const float* images, const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
