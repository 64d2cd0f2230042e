#pragma once

#include <tenet/core/wait_until.hpp>
#include <tenet/exec/buckets.hpp>
#include <tenet/parallel/replica_passes.hpp>

namespace tenet {

template <class Program, class Device, class Synchronisation, long bucket_bytes, class Cut>
class ReplicatedExecution;
struct Direct;

/// The passes of a rank that has replicas: what `RankPasses` are of one device, with the same interface. Gradients are
/// added up in the first replica's memory, bucket by bucket, when all replicas have computed one; they go on meanwhile.
/// Whoever updates parameters of the rank shares that among the replicas.
///
/// The first replica's thread waits for what comes from other ranks, and tells the others when it is there.
template <class Program, class Device, class Cut_>
class RankReplicaPasses : public ReplicaPasses<Program, Device, Cut_> {
 public:
  using Cut = Cut_;
  using Passes = ReplicaPasses<Program, Device, Cut>;
  using One = typename Passes::One;
  using Devices = typename Passes::Group;
  using Alone = ReplicatedExecution<Program, Device, Direct, 1 << 20, Cut>;
  static constexpr bool updates = Passes::Pass::updates, is_cut = Passes::Pass::is_cut, gives_results = !is_cut;

  RankReplicaPasses(Devices& replicas, int rank, int ranks)
      : Passes(replicas, detail::shards_of_rank<Cut>(rank, ranks, replicas.size())),
        rank_(rank),
        progress_(static_cast<std::size_t>(replicas.size())) {}

  auto& executor(int device = 0) { return this->replicas().executor(device); }
  One& execution(int device = 0) { return this->pass(device).execution(); }
  void add_up_with(Function<void(float*, long)> add_up) { this->sums().go_on_with(std::move(add_up)); }

  template <class Plan, class Backward, class Await, class Behind>
  void compute(int batch, float all, const Plan& plan, Backward backward, Await await, Behind behind) {
    this->begin(batch);
    for_all([&](int r) {
      const auto run_last = [&](One* execution, auto add) {
        const auto run = [&](auto wait) {
          if (r == 0)
            backward(
                execution, [this, step = this->step()](int b, const Bucket& bucket) { add_up_bucket(step, b, bucket); },
                wait);
          else
            run_by_buckets<Program>(
                execution, plan, this->gradients(r),
                [&](int b) {
                  const Bucket& bucket = plan.buckets[static_cast<std::size_t>(b)];
                  add(bucket.first, bucket.floats);
                  of(r).buckets.store(buckets_until(this->step(), b), std::memory_order_release);
                },
                wait);
        };
        if constexpr (std::is_same_v<Await, NothingAwaited>)
          run(await);
        else
          run([&](int b) { await(r, b); });
      };
      Passes::run(r, all, run_last, [](const One&, const Shard&) {});
      for (int b = 0; r == 0 && b < plan.count; ++b) await_bucket(this->step(), b, "bucket");
      behind(r);
    });
    this->add_up_numbers();
  }
  bool has_computed(int b) const {
    for (std::size_t r = 1; r < progress_.size(); ++r)
      if (progress_[r].buckets.load(std::memory_order_acquire) < buckets_until(this->step(), b)) return false;
    return true;
  }
  std::array<float, 4> results_at(int b) {
    await_bucket(this->step(), b, "results");
    return this->sum_of_numbers([this](int r) { return Passes::Pass::numbers_of(execution(r)); });
  }

  template <class Task>
  void for_all(Task task) {
    for (Progress& of_replica : progress_) of_replica.met = 0;
    has_failed_ = false;
    this->replicas().run([&](int r) {
      try {
        task(r);
      } catch (...) {
        has_failed_ = true;
        this->abandon();
        throw;
      }
    });
  }
  template <class Wait>
  void behind_first(int r, const MessageLabel& label, Wait wait) {
    if (r == 0) {
      wait();
      advance(of(0).met);
    } else {
      const long met = of(r).met.load(std::memory_order_relaxed) + 1;
      await(of(0).met, met, r, 0, label);
      advance(of(r).met);
    }
  }
  void meet(int r, const MessageLabel& label) { this->replicas().meet(r, label); }
  void first_behind_all(int r, const MessageLabel& label) {
    advance(of(r).met);
    for (int other = 1; r == 0 && other < this->size(); ++other)
      await(of(other).met, of(0).met.load(std::memory_order_relaxed), 0, other, label);
  }

  template <class Updating>
  void update(int r, const Updating& execution, FloatRange range, float* states, long state_step) {
    const FloatRange part = part_of(range.count, r, this->size());
    float* const gradients = this->gradients(0) + range.first + part.first;
    execution.template update_by_blocks<Program>(
        this->memory(Arena::parameters) + range.first + part.first,
        [=](long first, long, float*) { return gradients + first; }, states != nullptr ? states + part.first : nullptr,
        part.count, state_step);
  }
  void update_all() { this->pass(0).update(); }

  void collect_gradients() {}  // the first replica has all sums

 private:
  using Count = std::atomic<long>;
  struct alignas(64) Progress {
    Count buckets{0};  // whose gradients this replica has computed, of all runs: see `buckets_until`
    Count met{0};      // where this replica has met the first one in a task
  };
  Progress& of(int replica) { return progress_[static_cast<std::size_t>(replica)]; }
  static void advance(Count& count) {
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  /// When all replicas have computed bucket b: the rank's gradients.
  void add_up_bucket(long step, int b, const Bucket& bucket) {
    this->pass(0).add_gradients(bucket.first, bucket.floats);
    await_bucket(step, b, "bucket");
    this->add_up_gradients(step, this->gradients(0) + bucket.first, bucket.first, bucket.floats);
  }
  /// The first replica may do so when the next run has begun: buckets are counted on.
  static long buckets_until(long step, int b) { return (step << 20) + b + 1; }
  void await_bucket(long step, int b, const char* what) {
    for (int other = 1; other < this->size(); ++other)
      await(of(other).buckets, buckets_until(step, b), 0, other, {what, b, step});
  }

  /// Replica `waiting` waits until another one has come so far.
  void await(const Count& count, long least, int waiting, int other, const MessageLabel& label) {
    const auto has_come = [&] { return count.load(std::memory_order_acquire) >= least; };
    const bool ended = wait_until([&] { return has_come() || has_failed_; }, this->replicas().limit());
    if (!has_come()) fail_without(waiting, other, label, ended);
  }
  /// `ended`: as some replica has failed.
  [[noreturn, gnu::cold]] void fail_without(int waiting, int other, const MessageLabel& label, bool ended) {
    const std::string rank = detail::with_number("rank", rank_), replica = detail::with_number("replica", other);
    if (ended) detail::fail_abandoned(rank, "replica", label);
    detail::fail_waiting(rank,
                         waiting == 0 ? "waits for its " + replica
                                      : "its " + detail::with_number("replica", waiting) + " waits for its " + replica,
                         label, std::chrono::duration<double>(this->replicas().limit()).count());
  }

  int rank_;
  std::vector<Progress> progress_;  // of each replica
  std::atomic<bool> has_failed_{false};
};

}  // namespace tenet
