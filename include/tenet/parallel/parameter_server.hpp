#pragma once

// clang-format off: compilers name the way to this header in every message about a mistake; this is the shortest
#include <tenet/ops/mistake.hpp>
// clang-format on

#include <tenet/exec/buckets.hpp>
#include <tenet/parallel/key_value_store.hpp>
#include <tenet/parallel/sharded_pass.hpp>
#include <tenet/parallel/synchronisation.hpp>

/// Parameters on servers: the synchronisation `ParameterServer`, and the training step of a rank that has one. Not part
/// of tenet/tenet.hpp.
namespace tenet {

template <class Program, class Device, class Synchronisation, long bucket_bytes, Transport T, class Cut>
class ParameterServerExecution;

/// A step takes the gradients of all ranks, and all ranks wait for it: as one device with all samples.
struct BulkSynchronous {
  static constexpr Consistency consistency = Consistency::bulk_synchronous();
  static constexpr const char* name = "bulk-synchronous parameter server";
};
/// Nobody waits: a rank's gradient changes the parameters when it comes, whatever the others have done since it was
/// computed.
struct Asynchronous {
  static constexpr Consistency consistency = Consistency::asynchronous();
  static constexpr const char* name = "asynchronous parameter server";
};
/// The same, but a rank waits where it would be more than `Steps` ahead of the slowest one.
template <long Steps>
struct BoundedStaleness {
  static_assert(Steps >= 0, "BoundedStaleness<steps>: not negative");
  static constexpr Consistency consistency = Consistency::bounded_staleness(Steps);
  static constexpr long most_ahead = Steps;
  static constexpr const char* name = "parameter server of bounded staleness";
};

/// The servers keep the parameters and the optimizer's state. Ranks push the gradients of their samples, bucket by
/// bucket as soon as they are there; a server's copy of the optimizer updates its parameters; ranks pull them.
template <class Where = Sharded, class Consistency_ = BulkSynchronous>
struct ParameterServer {
  using Place = Where;
  using Consistency = Consistency_;
  static constexpr const char* name = Consistency::name;
  static constexpr bool sends_buckets = true;
  static constexpr bool in_rounds = Consistency::consistency.in_rounds;
  static constexpr bool keeps_states = true;
  template <class Program, class Device, long bucket_bytes, class T, class Cut>
  using StepOfRank = ParameterServerExecution<Program, Device, ParameterServer, bucket_bytes, T, Cut>;
};

/// A training step of a rank with parameter servers. The same interface as `Execution`; all ranks make one together.
///
/// Bulk-synchronous, it does the same as `DistributedExecution`. Else losses are those of the rank's own samples, and
/// running statistics are its own.
template <class Program, class Device, class Synchronisation, long bucket_bytes, Transport T, class Cut>
class ParameterServerExecution : public ShardedPass<Program, Cut> {
 public:
  using Pass = ShardedPass<Program, Cut>;
  using Kernels = typename Program::Kernels;
  static constexpr auto plan = plan_buckets(Program::lowered, Program::slots, bucket_bytes / 4);

  ParameterServerExecution(typename Kernels::Executor& executor, T transport)
      : Pass(executor, detail::shards_of_rank<Cut>(transport.rank(), transport.size())),
        store_(std::move(transport), options(*server_)) {
    static_assert(Pass::updates, "a training step");
    static_assert(Cut::in_all == 0, "servers add up in the order of ranks");
    static_assert(setting_count <= 8, "ParameterServer: the optimizer has more than 8 settings");
  }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    std::copy_n(scalars, setting_count, settings_.begin());
    Pass::set_scalars(scalars, seed);
  }
  /// Where they have been changed by more than the last step, by a file that was read, those of rank 0 are the servers'
  /// from now on; but not where ranks are at different steps.
  void use_weights(std::uint64_t version) {
    if (Synchronisation::in_rounds && version != version_ + 1) has_begun_ = false;
    version_ = version;
    Pass::use_weights(version);
  }

  void run(int batch) {
    if (!has_begun_) begin();
    const auto weight = static_cast<float>(batch);
    Pass::run(
        batch, weight,
        [&](auto* execution, auto prepare) {
          run_by_buckets<Program>(execution, plan, this->memory(Arena::gradients), [&](int b) {
            prepare(plan.buckets[index(b)].first, plan.buckets[index(b)].floats);
            pushes_[index(b)] = store_.push(b, part(Arena::gradients, b), {.weight = weight, .settings = settings_});
          });
        },
        [](const auto&, const Shard&) {});
    // The last pushes are of the parameters that come first in the network.
    for (int b = plan.count; b-- > 0;) pulls_[index(b)] = store_.pull(b, part(Arena::parameters, b), {.priority = b});
    if constexpr (Synchronisation::in_rounds) {
      agree_on(results_key, results(), weight);
      if constexpr (Program::writes_buffers)  // rank 0's
        agree_on(buffers_key, buffers(), store_.rank() == 0);
    }
    for (PendingRequest& request : pushes_) request.wait();
    for (PendingRequest& request : pulls_) request.wait();
  }

  /// Waits until all ranks have come here; from then on all have the same parameters.
  void synchronize() {
    if (!has_begun_) begin();
    store_.synchronize();
    pull_all();
    store_.synchronize();
  }

  KeyValueStore<T>& store() { return store_; }

 private:
  using One = typename Pass::One;
  static constexpr int results_key = plan.count, buffers_key = plan.count + 1;
  static constexpr std::size_t index(auto i) { return static_cast<std::size_t>(i); }

  std::span<float> part(Arena arena, int b) {
    const Bucket& bucket = plan.buckets[index(b)];
    return {this->memory(arena) + bucket.first, index(bucket.floats)};
  }

  std::span<float> results() { return {this->numbers().data(), index(Program::result_count)}; }
  std::span<float> buffers() { return {this->memory(Arena::buffers), index(Program::slots.buffer_floats)}; }

  void begin() {
    if (store_.rank() == 0) {
      for (int b = 0; b < plan.count; ++b) store_.assign(b, part(Arena::parameters, b)).wait();
      store_.assign(results_key, results()).wait();
      if (Program::slots.buffer_floats > 0) store_.assign(buffers_key, buffers()).wait();
    }
    pull_all();
    has_begun_ = true;
  }
  void pull_all() {
    for (int b = 0; b < plan.count; ++b) pulls_[index(b)] = store_.pull(b, part(Arena::parameters, b));
    for (PendingRequest& request : pulls_) request.wait();
  }

  /// The weighted mean over all ranks.
  void agree_on(int key, std::span<float> numbers, float weight) {
    store_.push(key, numbers, {.weight = weight}).wait();
    store_.pull(key, numbers).wait();
  }

  /// The optimizer of the parameters that lie on this rank: the program's update, with memory of its own. It runs on
  /// the store's thread.
  class Server {
   public:
    void update(const Pushed& pushed, std::span<float> value) {
      detail::scale_floats(pushed.values.data(), 1 / pushed.weight, static_cast<long>(pushed.values.size()));
      if (pushed.key >= plan.count) {  // a mean
        std::copy(pushed.values.begin(), pushed.values.end(), value.begin());
        return;
      }
      if (optimizer_ == nullptr) {
        executor_ = make_executor<Device, Kernels>(1);
        optimizer_ = std::make_unique<One>(*executor_);
      }
      const auto floats = static_cast<long>(value.size());
      Buffer& states = states_[index(pushed.key)];
      states.grow(Program::state_count * floats);
      optimizer_->set_scalars(pushed.settings.data(), 0);
      optimizer_->prepare_update();
      optimizer_->update(value.data(), pushed.values.data(), states.data(), floats, floats);
    }

   private:
    std::unique_ptr<typename Kernels::Executor> executor_;
    std::unique_ptr<One> optimizer_;
    std::array<Buffer, static_cast<std::size_t>(plan.count)> states_;  // of what lies here of each bucket
  };

  static KeyValueOptions options(Server& server) {
    KeyValueOptions result{.consistency = Synchronisation::Consistency::consistency,
                           .servers = Synchronisation::Place::servers()};
    result.updater = [&server](const Pushed& pushed, std::span<float> value) { server.update(pushed, value); };
    return result;
  }

  /// Numbers of the optimizer that change from step to step.
  static constexpr int setting_count = [] {
    int count = 0;
    for (const NumberEntry& entry : Program::numbers)
      if (entry.source == Source::scalar && entry.index >= count) count = entry.index + 1;
    return count;
  }();
  std::array<float, setting_count> settings_{};
  std::array<PendingRequest, static_cast<std::size_t>(plan.count)> pushes_, pulls_;
  std::uint64_t version_ = 0;
  bool has_begun_ = false;
  std::unique_ptr<Server> server_ = std::make_unique<Server>();
  KeyValueStore<T> store_;  // last: its thread uses the server
};

}  // namespace tenet
