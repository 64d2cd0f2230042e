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
  static constexpr bool gives_results = !Pass::is_cut;

  RankPasses(Devices& executor, int rank, int ranks)
      : Pass(executor, detail::shards_of_rank<Cut>(rank, ranks)), executor_(&executor) {}

  /// The first device's.
  Devices& executor() { return *executor_; }

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
  /// to get; wait(b) comes before the step that needs its parameters. It calls await(b), once for all devices of the
  /// rank. Then behind(device) is called on each device's thread.
  template <class Plan, class Backward, class Await, class Behind>
  void compute(int batch, float all, const Plan&, Backward backward, Await await, Behind behind) {
    Pass::run(
        batch, all,
        [&](One* execution, auto add) {
          backward(
              execution, [add](int, const Bucket& bucket) { add(bucket.first, bucket.floats); }, await);
        },
        [](const One&, const Shard&) {});
    behind(0);
  }
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
  /// Within a task of all devices: the first one goes on when all have come here.
  void first_behind_all(int, const MessageLabel&) {}

  /// What a device needs before its first `update` of a step.
  void prepare_update(int) { this->execution().prepare_update(); }
  /// A device's share of the update of some of the parameters, with the gradients of the rank's memory. What belongs to
  /// the range of the first state is at `states`, of the others each time `state_step` floats further.
  void update(int, FloatRange range, float* states, long state_step) {
    float* const gradients = this->memory(Arena::gradients) + range.first;
    this->execution().update_by_blocks(
        this->memory(Arena::parameters) + range.first, [=](long first, long, float*) { return gradients + first; },
        states, range.count, state_step);
  }
  /// The update of all parameters by the first device, where it is not element-wise.
  void update_all() { Pass::update(); }

 private:
  Devices* executor_;
  Function<void(float*, long)> add_up_;
};

}  // namespace tenet
