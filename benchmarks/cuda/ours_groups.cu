// The fused element-wise groups of training steps in bf16, each as bytes that it reads and writes, and seconds.
#include <tenet/exec/step_work.hpp>

#include "../../examples/models/resnet18.hpp"
#include "gpu.hpp"

using namespace tenet;

/// Of steps of `batch` samples: bytes and seconds of each group, in turns.
template <class Net, class Input, class Optimizer>
std::vector<double> groups(int batch) {
  using Program = typename Trainer<Net, CrossEntropy, Optimizer, Input, Gpu, BFloat16>::Training;
  const std::vector<StepWork> work = work_of_steps<Program>();
  const std::vector<double> seconds = measured_seconds_of_steps<Gpu, Program>(batch);
  std::vector<double> result;
  for (std::size_t s = 0; s < work.size(); ++s)
    if (Program::lowered.steps[s].kind == Kind::element)
      result.insert(result.end(), {static_cast<double>(work[s].bytes.at(batch)), seconds[s]});
  return result;
}

#if defined(TENET_BENCH_ON_HOST)
constexpr int images = 2;
#else
constexpr int images = 256;
#endif

int main() {
  const auto no_time = [](long) { return 0.0; };
  return serve({{"ResNet-18", [] { return groups<ResNet18<>, Image<1, 28, 28>, Sgd>(images); }, no_time}});
}
