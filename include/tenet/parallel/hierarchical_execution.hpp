#pragma once

#include <tenet/core/wait_until.hpp>
#include <tenet/parallel/gradient_exchange.hpp>
#include <tenet/parallel/replica_passes.hpp>

namespace tenet {

/// A training step of one rank, among several, that has replicas of its own: gradients are added up in its memory
/// first, and then between ranks.
///
/// The first replica's communication thread takes bucket by bucket. When all replicas have computed one, it adds them
/// up and sends the sum, while they go on. Then each replica updates its part of the rank's parameters. For the rest it
/// is a `DistributedExecution`.
///
/// The same interface as `Execution`. All ranks make one and run it together.
template <class Program, class Device, class Synchronisation, long bucket_bytes, Transport T, class Cut = WholeBatch>
class HierarchicalExecution : public ReplicaPasses<Program, Device, Cut> {
 public:
  using Passes = ReplicaPasses<Program, Device, Cut>;
  using Group = typename Passes::Group;
  using Exchange = GradientExchange<Program, Synchronisation, bucket_bytes, T>;

  HierarchicalExecution(Group& replicas, T transport)
      : Passes(replicas, detail::shards_of_rank<Cut>(transport.rank(), transport.size(), replicas.size())),
        buckets_done_(static_cast<std::size_t>(replicas.size())),
        exchange_(std::move(transport)) {
    static_assert(Passes::Pass::updates, "a training step");
    if constexpr (Program::is_on_part)
      this->sums().go_on_with([this](float* numbers, long floats) { exchange_.add_up_in_pass(numbers, floats); });
  }

  void run(int batch) {
    this->begin(batch);
    const float all = exchange_.template begin<Cut>(*this, batch, false);
    for (auto& done : buckets_done_) done.count = 0;
    has_failed_ = false;
    this->replicas().run([&](int r) {
      try {
        Passes::run(
            r, all, [&](One* execution, auto prepare) { run_last(r, execution, prepare); },
            [](const One&, const Shard&) {});
        if constexpr (Passes::shares_update) this->pass(r).execution().prepare_update();
        this->replicas().meet(r, {"gradients of all ranks", -1, this->step()});
        if constexpr (Passes::shares_update)
          this->update(r, part_of(Program::slots.parameter_floats, r, this->size()),
                       [sum = this->gradients(0)](long first, long, float*) { return sum + first; });
        else if (r == 0)
          this->pass(r).update();
      } catch (...) {
        has_failed_ = true;
        this->abandon();
        throw;
      }
    });
    this->add_up_numbers();
    exchange_.end(*this);
  }

  void collect_gradients() {}  // the first replica has all sums

 private:
  using One = typename Passes::One;
  struct alignas(64) Done {
    std::atomic<int> count{0};  // buckets
  };

  template <class Prepare>
  void run_last(int r, One* execution, Prepare prepare) {
    float* const gradients = this->gradients(r);
    if (r != 0) {
      run_by_buckets<Program>(execution, Exchange::plan, gradients, [&](int b) {
        const Bucket& bucket = Exchange::plan.buckets[static_cast<std::size_t>(b)];
        prepare(bucket.first, bucket.floats);
        buckets_done_[static_cast<std::size_t>(r)].count.store(b + 1, std::memory_order_release);
      });
      return;
    }
    int taken = 0;
    const auto add_up = [&](long first_float, long floats) {
      prepare(first_float, floats);
      ++taken;
      for (int other = 1; other < this->size(); ++other) {
        const auto& done = buckets_done_[static_cast<std::size_t>(other)].count;
        const auto has_come = [&] { return done.load(std::memory_order_acquire) >= taken; };
        const bool ended = wait_until([&] { return has_come() || has_failed_; }, this->replicas().limit());
        if (!has_come()) fail_without(other, {"bucket", taken - 1, this->step()}, ended);
      }
      this->add_up_gradients(gradients + first_float, first_float, floats);
    };
    exchange_.run(execution, gradients, [&](long first, long floats) { add_up(first, floats); });
    exchange_.complete();
  }

  /// The first replica has waited for another one's part of a bucket in vain; `ended`: as some replica has failed.
  [[noreturn, gnu::cold]] void fail_without(int replica, const MessageLabel& bucket, bool ended) {
    const std::string rank = detail::with_number("rank", exchange_.transport().rank());
    if (ended) detail::fail_abandoned(rank, "replica", bucket);
    detail::fail_waiting(rank, "waits for its " + detail::with_number("replica", replica), bucket,
                         std::chrono::duration<double>(this->replicas().limit()).count());
  }

  std::vector<Done> buckets_done_;  // of each replica
  std::atomic<bool> has_failed_{false};
  Exchange exchange_;
};

}  // namespace tenet
