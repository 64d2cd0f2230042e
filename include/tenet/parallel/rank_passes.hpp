#pragma once

#include <tenet/core/function.hpp>
#include <tenet/exec/buckets.hpp>
#include <tenet/parallel/sharded_pass.hpp>

namespace tenet {

/// The passes of a rank of one device, over the samples that are its own. A synchronisation of ranks is written over
/// these, or over those of a rank that has replicas, `RankReplicaPasses`, which have the same interface: it asks the
/// first device's thread alone to speak with other ranks.
template <class Program, class Cut_>
class RankPasses : public ShardedPass<Program, Cut_> {
 public:
  using Cut = Cut_;
  using Pass = ShardedPass<Program, Cut>;
  using One = typename Pass::One;
  /// Where it runs.
  using Devices = typename Pass::Executor;
  /// The same for who trains by itself: run_alone(batch).
  using Alone = RankPasses;
  /// Whether the rank's results are there before its last gradients; else when all of its passes have ended.
  static constexpr bool updates = Pass::updates, is_cut = Pass::is_cut, gives_results = !is_cut;

  RankPasses(Devices& executor, int rank, int ranks)
      : Pass(executor, detail::shards_of_rank<Cut>(rank, ranks)), executor_(&executor) {}

  int size() const { return 1; }
  Devices& executor(int = 0) { return *executor_; }
  One& execution(int = 0) { return Pass::execution(); }

  /// Of a program that runs on a part of the batch: add_up(numbers, floats) makes of numbers the sum of all ranks'.
  void add_up_with(Function<void(float*, long)> add_up) {
    add_up_ = std::move(add_up);
    executor_->worker_sum = {
        [](void* of_rank, float* numbers, long floats) { static_cast<RankPasses*>(of_rank)->add_up_(numbers, floats); },
        this};
  }

  /// Runs the shards of a batch; `all` as in `ShardedPass::run`, `plan` is a `BucketPlan`. Of the last shard
  /// backward(execution, prepare, wait) runs the passes on the first device's thread, by `run_by_buckets`: prepare(b,
  /// bucket), which any thread may call before the next run, makes the rank's gradients of bucket b what the others are
  /// to get; wait(b) comes before the step that needs its parameters. It calls await(device, b), as the
  /// passes of all devices do. Then behind(device) is called on each device's thread.
  template <class Plan, class Backward, class Await, class Behind>
  void compute(int batch, float all, const Plan&, Backward backward, Await await, Behind behind) {
    has_samples_ = batch > 0;
    const auto run_last = [&](One* execution, auto add) {
      const auto prepare = [add](int, const Bucket& bucket) { add(bucket.first, bucket.floats); };
      if constexpr (std::is_same_v<Await, NothingAwaited>)
        backward(execution, prepare, await);
      else
        backward(execution, prepare, [&](int b) { await(0, b); });
    };
    Pass::run(batch, all, run_last, [](const One&, const Shard&) {});
    behind(0);
  }
  /// Within `compute`, by any thread, when bucket b is ready: the results, where they are there.
  std::array<float, 4> results_at(int) { return has_samples_ ? Pass::numbers_of(execution()) : std::array<float, 4>{}; }
  /// Within `compute`: whether `prepare` of bucket b would not wait for another device of the rank.
  static constexpr bool has_computed(int) { return true; }

  /// Calls task(device) on each device's thread.
  template <class Task>
  void for_all(Task task) {
    task(0);
  }
  /// Within a task of all devices: the first one's thread calls wait(), the others wait until it has.
  template <class Wait>
  void behind_first(int, const MessageLabel&, Wait wait) {
    wait();
  }
  /// Within a task of all devices: each goes on when all have come here.
  void meet(int, const MessageLabel&) {}
  /// The same, but only the first one waits.
  void first_behind_all(int, const MessageLabel&) {}

  /// A device's share of the update of some of the parameters, by an execution of the training step or of its update by
  /// itself, with the gradients of the rank's memory. What belongs to the range of the first state is at `states`, of
  /// the others each time `state_step` floats further.
  template <class Updating>
  void update(int, const Updating& execution, FloatRange range, float* states, long state_step) {
    float* const gradients = this->memory(Arena::gradients) + range.first;
    execution.template update_by_blocks<Program>(
        this->memory(Arena::parameters) + range.first, [=](long first, long, float*) { return gradients + first; },
        states, range.count, state_step);
  }
  /// The update of all parameters by the first device, where it is not element-wise.
  void update_all() { Pass::update(); }

 private:
  Devices* executor_;
  bool has_samples_ = false;
  Function<void(float*, long)> add_up_;
};

}  // namespace tenet
