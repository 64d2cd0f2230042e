#pragma once

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
class HierarchicalExecution {
 public:
  using Kernels = typename Program::Kernels;
  using Passes = ReplicaPasses<Program, Device, Cut>;
  using Group = typename Passes::Group;
  using Exchange = GradientExchange<Program, Synchronisation, bucket_bytes, T>;

  HierarchicalExecution(Group& replicas, T transport)
      : replicas_(&replicas),
        shards_(shards_of_replica(transport, replicas.size())),
        passes_(replicas, shards_),
        buckets_done_(static_cast<std::size_t>(replicas.size())),
        exchange_(std::move(transport)) {
    static_assert(Passes::Pass::updates, "a training step");
  }

  void set_scalars(const float* scalars, std::uint64_t seed) { passes_.set_scalars(scalars, seed); }
  void bind(Arena arena, float* memory) {
    passes_.bind(arena, memory);
    bound_[static_cast<std::size_t>(arena)] = memory;
  }
  void give(int index, const void* input) { passes_.give(index, input); }
  void use_weights(std::uint64_t version) { passes_.use_weights(version); }

  void run(int batch) {
    if (!has_begun_) exchange_.share_arena(bound_, Arena::parameters, Program::slots.parameter_floats, "parameters");
    has_begun_ = true;
    passes_.begin(batch);
    auto all = static_cast<float>(batch);
    if constexpr (Cut::in_all > 0)
      all = exchange_.begin_and_count(batch);
    else
      exchange_.begin_with(batch);
    for (auto& done : buckets_done_) done.count = 0;
    has_failed_ = false;
    const int first = exchange_.transport().rank() * replicas_->size() * shards_;
    replicas_->run([&](int r) {
      try {
        passes_.run(
            r, first, all, [&](One* execution, auto prepare) { run_last(r, execution, prepare); },
            [](const One&, const Shard&) {});
        passes_.pass(r).execution().prepare_update();
        replicas_->meet(r, "gradients of all ranks");
        float *const own = passes_.gradients(r), *const sum = passes_.gradients(0);
        passes_.update(r, part_of(Program::slots.parameter_floats, r, replicas_->size()), [&](long from, long to) {
          if (r != 0) std::copy(sum + from, sum + to, own + from);
        });
      } catch (...) {
        has_failed_ = true;
        throw;
      }
    });
    results_ = passes_.numbers();
    exchange_.average(results_.data(), Program::result_count);
    if constexpr (Program::writes_buffers)
      exchange_.share_arena(bound_, Arena::buffers, Program::slots.buffer_floats, "running statistics");
  }

  void collect_gradients() {}  // the first replica has all sums
  const float* result(int index) const { return &results_[static_cast<std::size_t>(index)]; }
  long memory_floats() const { return passes_.memory_floats(); }

 private:
  using One = typename Passes::One;
  struct alignas(64) Done {
    std::atomic<int> count{0};  // buckets
  };

  static int shards_of_replica(const T& transport, int replicas) {
    const int workers = transport.size() * replicas;
    if (Cut::in_all > 0 && Cut::in_all % workers != 0)
      fail("Reproducible", "number of ranks times replicas", "1, 2, 4 or 8", workers);
    return detail::shards_of_worker<Cut>(workers);
  }

  template <class Prepare>
  void run_last(int r, One* execution, Prepare prepare) {
    float* const gradients = passes_.gradients(r);
    if (r != 0) {
      run_by_buckets<Program>(execution, Exchange::plan, gradients, [&](int b) {
        const Bucket& bucket = Exchange::plan.buckets[static_cast<std::size_t>(b)];
        prepare(bucket.first, bucket.floats);
        buckets_done_[static_cast<std::size_t>(r)].count.store(b + 1, std::memory_order_release);
      });
      return;
    }
    int taken = 0;
    exchange_.run(execution, gradients, [&](long first_float, long floats) {
      prepare(first_float, floats);
      ++taken;
      for (int other = 1; other < replicas_->size(); ++other) {
        const auto& done = buckets_done_[static_cast<std::size_t>(other)].count;
        wait_until([&] { return done.load(std::memory_order_acquire) >= taken || has_failed_; },
                   exchange_.transport().limit());
        if (done.load(std::memory_order_acquire) < taken) throw PeerFailed("a bucket: another replica has failed");
      }
      passes_.add_up_gradients(gradients, first_float, first_float + floats);
    });
  }

  Group* replicas_;
  int shards_;
  Passes passes_;
  std::vector<Done> buckets_done_;  // of each replica
  std::atomic<bool> has_failed_{false};
  std::array<float*, 8> bound_{};
  std::array<float, 4> results_{};
  bool has_begun_ = false;
  Exchange exchange_;
};

}  // namespace tenet
