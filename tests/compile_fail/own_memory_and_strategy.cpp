// A device with a memory of its own among several replicas.
// expect: a device with a memory of its own, as Cuda<i>, trains alone: leave this policy out, or take Cpu<>
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

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, DataParallel<2>, Device>& trainer, const float* images,
           const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
