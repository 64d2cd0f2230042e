#pragma once

#include <tenet/exec/execution.hpp>
#include <tenet/parallel/gradient_exchange.hpp>

namespace tenet {

/// A training step of one rank among several that know of each other by a `Transport` only. Each has its own samples,
/// of any number, and its own parameters, which stay the same on all ranks to the bit: they begin with what rank 0 has,
/// and are updated by the same mean gradient. Results are means over the samples of all ranks; running statistics are
/// those of rank 0.
///
/// The same interface as `Execution`. All ranks make one and run it together.
template <class Program, class Synchronisation, long bucket_bytes, Transport T>
class DistributedExecution {
 public:
  using Kernels = typename Program::Kernels;
  using Exchange = GradientExchange<Program, Synchronisation, bucket_bytes, T>;

  DistributedExecution(typename Kernels::Executor& executor, T transport)
      : execution_(executor), exchange_(std::move(transport)) {
    static_assert(Program::lowered.after_update > Program::lowered.first_update, "a training step");
  }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    execution_.set_scalars(scalars,
                           seed + static_cast<std::uint64_t>(exchange_.transport().rank()) * 0xd1342543de82ef95u);
  }
  void bind(Arena arena, float* memory) {
    execution_.bind(arena, memory);
    bound_[static_cast<std::size_t>(arena)] = memory;
  }
  void give(int index, const void* input) { execution_.give(index, input); }
  void use_weights(std::uint64_t version) { execution_.use_weights(version); }

  void run(int batch) {
    const auto share = [&](Arena arena, long floats, const char* what) {
      if (floats > 0)
        exchange_.share(bound_[static_cast<std::size_t>(arena)], floats, what, -3 - static_cast<int>(arena));
    };
    if (!has_begun_) share(Arena::parameters, Program::slots.parameter_floats, "parameters");
    has_begun_ = true;
    exchange_.begin_with(batch);
    execution_.begin(batch);
    exchange_.run(&execution_, bound_[static_cast<std::size_t>(Arena::gradients)]);
    execution_.run_steps(Program::lowered.first_update, Program::lowered.used.steps);
    for (int i = 0; i < Program::result_count; ++i) results_[static_cast<std::size_t>(i)] = *execution_.result(i);
    exchange_.average(results_.data(), Program::result_count);
    if constexpr (Program::writes_buffers) share(Arena::buffers, Program::slots.buffer_floats, "running statistics");
  }

  const float* result(int index) const { return &results_[static_cast<std::size_t>(index)]; }
  long memory_floats() const { return execution_.memory_floats(); }

 private:
  Execution<Program, OneSampleNever> execution_;
  std::array<float*, 8> bound_{};
  std::array<float, 4> results_{};
  bool has_begun_ = false;
  Exchange exchange_;
};

}  // namespace tenet
