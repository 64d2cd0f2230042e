// Training steps of two processes whose gradients lie in the memory that they share, and of the same whose gradients
// are copied into it, in turns; rank 0 prints {"case": [shared, copied], …} in microseconds of the quickest step. Both
// are checked to train the same parameters, to the bit.
#include <cstdio>
#include <cstdlib>
#include <tenet/comm/shared_memory.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/sharded_optimizer.hpp>
#include <tenet/tenet.hpp>

#include "../../examples/models/resnet18.hpp"

using namespace tenet;
using Clock = std::chrono::steady_clock;

namespace {

struct Mlp : Sequential<Linear<784, 256>, ReLU, Linear<256, 10>> {};
/// Ten million parameters, of which a few samples are soon through.
struct Wide : Sequential<Linear<784, 2048>, ReLU, Linear<2048, 2048>, ReLU, Linear<2048, 2048>, ReLU,  //
                         Linear<2048, 10>> {};

/// Without memory for numbers that are not to be copied.
struct CopyingTransport : SharedMemoryTransport {
  explicit CopyingTransport(SharedMemoryTransport transport) : SharedMemoryTransport(std::move(transport)) {}
  float* memory(long) = delete;
};
struct Copying {
  static CopyingTransport connect() { return CopyingTransport(SharedMemory::connect()); }
};

template <class Net, class Input, class... Policies>
void report(const char* name, int batch, int rounds, bool is_last = false) {
  constexpr int steps = 4;  // one after the other, of each
  constexpr auto floats = static_cast<std::size_t>(Weights<Net>::table.parameter_floats);
  Trainer<Net, CrossEntropy, PlainSgd, Input, Cpu<0, 1>, Distributed<SharedMemory>, Policies...> shared{
      {.learning_rate = 1e-4f}};
  Trainer<Net, CrossEntropy, PlainSgd, Input, Cpu<0, 1>, Distributed<Copying>, Policies...> copied{
      {.learning_rate = 1e-4f}};
  const std::vector<float> inputs(static_cast<std::size_t>(batch * Input::size), 0.1f);
  std::vector<std::int32_t> targets(static_cast<std::size_t>(batch));
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<std::int32_t>(i % 10);
  double least[]{1e30, 1e30};
  const auto run = [&](auto& trainer, double& best, int round) {
    for (int step = 0; step < steps; ++step) {
      const auto begin = Clock::now();
      trainer.step(inputs.data(), targets.data(), batch);
      if (round > 0) best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    }
  };
  for (int round = 0; round < rounds; ++round) {
    run(shared, least[0], round);
    run(copied, least[1], round);
  }
  if (std::memcmp(shared.weights().parameters(), copied.weights().parameters(), sizeof(float) * floats) != 0)
    std::abort();
  if (SharedMemory::rank() == 0)
    std::printf("\"%s\": [%.1f, %.1f]%s", name, least[0] * 1e6, least[1] * 1e6, is_last ? "}\n" : ", ");
}

}  // namespace

int main() {
  if (SharedMemory::rank() == 0) std::printf("{");
  report<Mlp, Features<784>>("784-256-10, batch 128", 128, 200);
  report<Wide, Features<784>>("784-2048-2048-2048-10, batch 32", 32, 30);
  report<Wide, Features<784>, ShardedOptimizer>("784-2048-2048-2048-10, batch 32, ShardedOptimizer", 32, 30);
  report<ResNet18<>, Image<1, 28, 28>>("ResNet-18, batch 8", 8, 6, true);
}
