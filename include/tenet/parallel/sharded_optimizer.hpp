#pragma once

// clang-format off: compilers name the way to this header in every message about a mistake; this is the shortest
#include <tenet/ops/mistake.hpp>
// clang-format on

#include <tenet/parallel/distributed.hpp>

/// Ranks that share the optimizer's state among them: the synchronisation `ShardedOptimizer`. Not part of
/// tenet/tenet.hpp.
namespace tenet {

template <class Program, class Passes, long bucket_bytes, Transport T>
class ShardedOptimizerExecution;

/// Of n ranks each keeps the optimizer's state of 1/n of the parameters, and updates these. As many numbers are sent as
/// by a ring: its first half brings a rank the mean gradient of its part, its second half brings all ranks the
/// parameters instead of the gradients, while the next forward pass runs. (Rajbhandari et al., ZeRO, SC 2020, stage 1;
/// PyTorch's ZeroRedundancyOptimizer.)
struct ShardedOptimizer {
  static constexpr const char* name = "sharded optimizer";
  static constexpr bool sends_buckets = true;
  static constexpr bool scatters_gradients = true;
  static constexpr bool keeps_states = true;
  static constexpr Traffic traffic{.gradients = &detail::scatter_moves, .parameters = &detail::gather_moves};
  using Place = Sharded;
  /// Of numbers that all ranks are to have.
  template <Transport T>
  static void reduce(T& transport, float* data, long floats, MessageLabel label, float weight) {
    all_reduce(transport, data, floats, label, weight);
  }
  template <class Program, class Passes, long bucket_bytes, class T>
  using StepOfRank = ShardedOptimizerExecution<Program, Passes, bucket_bytes, T>;
};

/// A training step of a rank under `ShardedOptimizer`: of each bucket the rank has `part_of(floats, rank, ranks)`. For
/// the rest it is a `DistributedExecution`.
///
/// The same interface as `Execution`. All ranks make one and run it together.
template <class Program, class Passes, long bucket_bytes, Transport T>
class ShardedOptimizerExecution : public DistributedExecution<Program, Passes, ShardedOptimizer, bucket_bytes, T> {
 public:
  using Base = DistributedExecution<Program, Passes, ShardedOptimizer, bucket_bytes, T>;

  ShardedOptimizerExecution(typename Passes::Devices& devices, T transport) : Base(devices, std::move(transport)) {
    static_assert(Passes::Cut::in_all == 0, "a ring's order of sums depends on the number of ranks");
    static_assert(updates_by_elements<Program>(),
                  "ShardedOptimizer: the optimizer's update is not element-wise over all parameters");
    static_assert(Program::lowered.prepared_steps == 0, "what runs before the passes does not wait for parameters");
    for (int b = 0; b < plan.count; ++b) {
      state_at_[index(b)] = own_floats_;
      own_floats_ += this->exchange_.own_part(b).count;
    }
    states_.grow(Program::state_count * own_floats_);
  }

  /// The parameters that other ranks update are still to come when it returns: the next run waits for each bucket when
  /// it needs it, all others wait in `complete`.
  void run(int batch) {
    if constexpr (Passes::is_cut) complete();
    this->send_gradients(
        batch,
        [this](int device, int b) {
          this->behind_first(device, {"parameters", b, this->exchange_.step()},
                             [&] { this->exchange_.await(b, "parameters"); });
        },
        [this](int device) { this->execution(device).prepare_update(); });
    this->exchange_.end(*this);
    this->for_all([this](int device) {
      const auto update = [&](int b) { update_part(device, b); };
      if (device == 0)
        this->exchange_.begin_gather(this->memory(Arena::parameters), "parameters", update);
      else
        for (int i = 0; i < plan.count; ++i) update(plan.by_need[index(i)]);
    });
  }
  void complete() { this->exchange_.complete("parameters"); }

  /// Brings the parts of the gradient together on all ranks: all of them call it.
  void collect_gradients() {
    complete();
    this->exchange_.begin_gather(this->memory(Arena::gradients), "gradients", [](int) {});
    complete();
  }

  /// What this rank keeps of the optimizer's state, in floats.
  long state_floats() const { return states_.size(); }

 private:
  static constexpr const auto& plan = Base::Exchange::plan;
  static constexpr std::size_t index(int b) { return static_cast<std::size_t>(b); }

  /// A device's share of this rank's part of a bucket. The first one goes on when all have done theirs.
  void update_part(int device, int b) {
    this->update(device, this->execution(device), this->exchange_.own_part(b),
                 Program::state_count > 0 ? states_.data() + state_at_[index(b)] : nullptr, own_floats_);
    this->first_behind_all(device, {"update of bucket", b, this->exchange_.step()});
  }

  Buffer states_;                                                      // one behind the other, each of `own_floats_`
  long own_floats_ = 0;                                                // parameters that this rank updates
  std::array<long, static_cast<std::size_t>(plan.count)> state_at_{};  // of each bucket's part
};

}  // namespace tenet
