#pragma once

#include <tenet/parallel/gradient_exchange.hpp>
#include <tenet/parallel/sharded_pass.hpp>

namespace tenet {

/// A training step of one rank among several that know of each other by a `Transport` only. Each has its own samples,
/// of any number, and its own parameters, which stay the same on all ranks to the bit: they begin with what rank 0 has,
/// and are updated by the same mean gradient. Results are means over the samples of all ranks; running statistics are
/// those of rank 0.
///
/// A rank may cut its samples into shards. Where that is to give the same bits for any number of ranks, what rank r has
/// is shards r · s to (r + 1) · s of all; so it is for one process if the ranks have equal parts of its batch, in
/// order.
///
/// The same interface as `Execution`. All ranks make one and run it together.
template <class Program, class Synchronisation, long bucket_bytes, Transport T, class Cut = WholeBatch>
class DistributedExecution {
 public:
  using Kernels = typename Program::Kernels;
  using Exchange = GradientExchange<Program, Synchronisation, bucket_bytes, T>;

  DistributedExecution(typename Kernels::Executor& executor, T transport)
      : pass_(executor, shards_of_rank(transport)), exchange_(std::move(transport)) {
    static_assert(Pass::updates, "a training step");
  }

  void set_scalars(const float* scalars, std::uint64_t seed) { pass_.set_scalars(scalars, seed); }
  void bind(Arena arena, float* memory) {
    pass_.bind(arena, memory);
    bound_[static_cast<std::size_t>(arena)] = memory;
  }
  void give(int index, const void* input) { pass_.give(index, input); }
  void use_weights(std::uint64_t version) { pass_.use_weights(version); }

  void run(int batch) {
    if (!has_begun_) exchange_.share_arena(bound_, Arena::parameters, Program::slots.parameter_floats, "parameters");
    has_begun_ = true;
    // To be the same bits, weights have to be those of one process: a share of all samples.
    auto all = static_cast<float>(batch);
    if constexpr (Cut::in_all > 0)
      all = exchange_.begin_and_count(batch);
    else
      exchange_.begin_with(batch);
    const int count = shards_of_rank(exchange_.transport());
    std::array<Shard, 64> shards;
    for (int i = 0; i < count; ++i)
      shards[static_cast<std::size_t>(i)] = shard_of(batch, i, count, exchange_.transport().rank() * count);
    float* const gradients = bound_[static_cast<std::size_t>(Arena::gradients)];
    pass_.run(
        std::span(shards.data(), static_cast<std::size_t>(count)), all, gradients,
        [&](auto* execution, auto prepare) { exchange_.run(execution, gradients, prepare); },
        [](const auto&, const Shard&) {});
    pass_.execution().run_steps(Program::lowered.first_update, Program::lowered.after_update);
    pass_.execution().run_steps(Pass::after_pass, Program::lowered.used.steps);
    results_ = pass_.numbers();
    exchange_.average(results_.data(), Program::result_count);
    if constexpr (Program::writes_buffers)
      exchange_.share_arena(bound_, Arena::buffers, Program::slots.buffer_floats, "running statistics");
  }

  const float* result(int index) const { return &results_[static_cast<std::size_t>(index)]; }
  long memory_floats() const { return pass_.memory_floats(); }

 private:
  using Pass = ShardedPass<Program, Cut>;

  static int shards_of_rank(const T& transport) {
    const int ranks = transport.size();
    if (Cut::in_all > 0 && Cut::in_all % ranks != 0) fail("Reproducible", "number of ranks", "1, 2, 4 or 8", ranks);
    return detail::shards_of_worker<Cut>(ranks);
  }

  Pass pass_;
  std::array<float*, 8> bound_{};
  std::array<float, 4> results_{};
  bool has_begun_ = false;
  Exchange exchange_;
};

}  // namespace tenet
