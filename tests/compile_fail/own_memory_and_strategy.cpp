// A device with a memory of its own among several that run parts of one graph.
// expect: devices with memories of their own, as Cuda<i>, go with DataParallel<k> or Distributed<World>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct FarExecutor : cpu::Workers {
  static constexpr bool has_own_memory = true;
};
struct FarKernels : CpuKernels {
  using Executor = FarExecutor;
};
struct Far : Cpu<> {
  using Kernels = FarKernels;
};

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Device = Far;
#else
using Device = Cpu<>;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, InterOpParallel<2>, Device>& trainer, const float* images,
           const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
