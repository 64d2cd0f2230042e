#pragma once

// clang-format off: compilers name the way to this header in every message about a mistake; this is the shortest
#include <tenet/ops/mistake.hpp>
// clang-format on

#include <tenet/comm/collectives.hpp>
#include <tenet/parallel/sharded_pass.hpp>
#include <tenet/parallel/synchronisation.hpp>

/// Ranks that train by themselves and average their parameters now and then: the synchronisation `LocalSgd`. Not part
/// of tenet/tenet.hpp.
namespace tenet {

template <class Program, int steps_alone, Transport T, class Cut>
class LocalSgdExecution;

/// Each rank takes so many steps with its own samples, its own parameters and its own optimizer state; then the
/// parameters of all ranks become their mean. (Stich, Local SGD converges fast and communicates little, ICLR 2019.)
template <int Steps>
struct LocalSgd {
  static_assert(Steps >= 1, "LocalSgd<steps>: at least one step before ranks meet");
  static constexpr const char* name = "local SGD";
  static constexpr bool sends_buckets = false;
  static constexpr int steps_alone = Steps;
  template <class Program, class Device, long, class T, class Cut>
  using StepOfRank = LocalSgdExecution<Program, Steps, T, Cut>;
};

/// A training step of a rank under `LocalSgd`. The same interface as `Execution`; all ranks make one together and take
/// the same number of steps. They begin with what rank 0 has. Losses are those of a rank's own samples; so are running
/// statistics, until ranks meet: then they are those of rank 0.
template <class Program, int steps_alone, Transport T, class Cut>
class LocalSgdExecution {
 public:
  using Kernels = typename Program::Kernels;

  LocalSgdExecution(typename Kernels::Executor& executor, T transport)
      : pass_(executor, Cut::of_worker), transport_(std::move(transport)) {
    static_assert(Pass::updates, "a training step");
    static_assert(Cut::in_all == 0, "what ranks do alone depends on their number");
  }

  void set_scalars(const float* scalars, std::uint64_t seed) { pass_.set_scalars(scalars, seed); }
  void bind(Arena arena, float* memory) {
    pass_.bind(arena, memory);
    bound_[static_cast<std::size_t>(arena)] = memory;
  }
  void give(int index, const void* input) { pass_.give(index, input); }
  void use_weights(std::uint64_t version) { pass_.use_weights(version); }

  void run(int batch) {
    if (step_ == 0) share("parameters", Arena::parameters, Program::slots.parameter_floats);
    ++step_;
    std::array<Shard, Cut::of_worker> shards;
    for (int i = 0; i < Cut::of_worker; ++i)
      shards[static_cast<std::size_t>(i)] = shard_of(batch, i, Cut::of_worker, transport_.rank() * Cut::of_worker);
    float* const gradients = bound_[static_cast<std::size_t>(Arena::gradients)];
    pass_.run(
        shards, static_cast<float>(batch), gradients,
        [&](auto* execution, auto prepare) { Pass::run_passes(execution, gradients, prepare); },
        [](const auto&, const Shard&) {});
    pass_.execution().run_steps(Program::lowered.first_update, Program::lowered.after_update);
    pass_.execution().run_steps(Pass::after_pass, Program::lowered.used.steps);
    if (step_ % steps_alone == 0) synchronize();
  }

  /// The parameters become the mean of all ranks'.
  void synchronize() {
    all_reduce(transport_, bound_[static_cast<std::size_t>(Arena::parameters)], Program::slots.parameter_floats,
               {"parameters", -1, step_}, 1.0f / static_cast<float>(transport_.size()));
    if constexpr (Program::writes_buffers) share("running statistics", Arena::buffers, Program::slots.buffer_floats);
  }

  const float* result(int index) const { return &pass_.numbers()[static_cast<std::size_t>(index)]; }
  long memory_floats() const { return pass_.memory_floats(); }

 private:
  using Pass = ShardedPass<Program, Cut>;

  /// What rank 0 has, for all.
  void share(const char* what, Arena arena, long floats) {
    if (floats > 0) broadcast(transport_, 0, bound_[static_cast<std::size_t>(arena)], floats, {what, -1, step_});
  }

  Pass pass_;
  T transport_;
  std::array<float*, 8> bound_{};
  long step_ = 0;
};

}  // namespace tenet
