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
/// bucket as soon as they are there; a server's copy of the optimizer updates its parameters; ranks pull them while
/// their next forward pass runs.
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
        executor_(&executor),
        store_(std::move(transport), options(*server_)) {
    static_assert(Pass::updates, "a training step");
    static_assert(Program::lowered.prepared_steps == 0, "what runs before the passes does not wait for parameters");
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

  /// The new parameters are still to come when it returns: the next run waits for each bucket when it needs it, all
  /// others wait in `complete`.
  void run(int batch) {
    if constexpr (Pass::is_cut) complete();
    if (!has_begun_) begin();
    ++step_;
    const auto weight = static_cast<float>(batch);
    Pass::run(
        batch, weight,
        [&](auto* execution, auto prepare) {
          run_by_buckets<Program>(
              execution, plan, this->memory(Arena::gradients),
              [&](int b) {
                prepare(plan.buckets[index(b)].first, plan.buckets[index(b)].floats);
                pushes_[index(b)] =
                    store_.push(b, part(Arena::gradients, b), {.weight = weight, .settings = settings_});
              },
              [this](int b) { await(b); });
        },
        [](const auto&, const Shard&) {});
    complete();  // of parameters that no step reads
    // Means go before several buckets, whose answers would keep the servers' ports from these few numbers, for which
    // all ranks wait before the next pass begins. Of one bucket nothing comes while a pass runs, so that is asked for
    // at once.
    if constexpr (plan.count == 1) pull_all();
    if constexpr (Synchronisation::in_rounds) agree(weight);
    if constexpr (plan.count > 1) pull_all();
    for (int b = 0; b < plan.count; ++b) finish(pushes_[index(b)], {"bucket", b, step_});
    // The server answers when the slowest rank is near enough: so whoever has ended a step is as near to it as one that
    // has waited for everything. What is waited for is what the next run begins with.
    if constexpr (is_bounded) await(plan.by_need[0]);
  }
  /// Waits for all parameters that are under way. Throws what the first of them does that fails.
  void complete() {
    std::exception_ptr failure;
    for (int i = 0; i < plan.count; ++i) {
      try {
        await(plan.by_need[index(i)]);
      } catch (...) {
        if (failure == nullptr) failure = std::current_exception();
      }
    }
    if (failure != nullptr) std::rethrow_exception(failure);
  }

  /// Waits until all ranks have come here; from then on all have the same parameters.
  void synchronize() {
    complete();
    if (!has_begun_) begin();
    store_.synchronize();
    pull_all();
    complete();
    store_.synchronize();
  }

  KeyValueStore<T>& store() { return store_; }

 private:
  using One = typename Pass::One;
  static constexpr int results_key = plan.count, buffers_key = plan.count + 1;
  static constexpr const char* names_of_means[]{"results", "running statistics"};
  /// Whether ranks wait for slow ones without meeting in every step.
  static constexpr bool is_bounded =
      !Synchronisation::in_rounds && Synchronisation::Consistency::consistency.staleness < Consistency::unbounded;
  static constexpr std::size_t index(auto i) { return static_cast<std::size_t>(i); }

  std::span<float> part(Arena arena, int b) {
    const Bucket& bucket = plan.buckets[index(b)];
    return {this->memory(arena) + bucket.first, index(bucket.floats)};
  }

  std::span<float> results() { return {this->numbers().data(), index(Program::result_count)}; }
  std::span<float> buffers() { return {this->memory(Arena::buffers), index(Program::slots.buffer_floats)}; }

  void begin() {
    complete();
    if (store_.rank() == 0) {
      for (int b = 0; b < plan.count; ++b) store_.assign(b, part(Arena::parameters, b)).wait();
      store_.assign(results_key, results()).wait();
      if (Program::slots.buffer_floats > 0) store_.assign(buffers_key, buffers()).wait();
    }
    pull_all();
    complete();
    has_begun_ = true;
  }
  /// Asks for all parameters, with those first that the next pass needs first. None may be under way.
  void pull_all() {
    pulled_ = step_;
    for (int i = 0; i < plan.count; ++i) {
      const int b = plan.by_need[index(i)];
      pulls_[index(b)] = store_.pull(b, part(Arena::parameters, b), {.priority = plan.count - i});
    }
  }
  /// Results become the weighted means over all ranks, running statistics those of rank 0.
  void agree(float weight) {
    constexpr int means = Program::writes_buffers ? 2 : 1;
    const std::array numbers{results(), buffers()};
    const std::array weights{weight, static_cast<float>(store_.rank() == 0)};
    std::array<PendingRequest, means> requests;
    const auto finish_all = [&] {
      for (std::size_t i = 0; i < means; ++i) finish(requests[i], {names_of_means[i], -1, step_});
    };
    for (int i = 0; i < means; ++i)
      requests[index(i)] = store_.push(results_key + i, numbers[index(i)], {.weight = weights[index(i)]});
    finish_all();
    for (int i = 0; i < means; ++i) requests[index(i)] = store_.pull(results_key + i, numbers[index(i)]);
    finish_all();
  }

  /// Waits for the parameters of bucket b.
  void await(int b) {
    PendingRequest& pull = pulls_[index(b)];
    if (pull.ready()) return finish(pull, {"parameters", b, pulled_});
    const auto span = open_span(*executor_, {.name = "parameters", .step = step_, .kind = SpanKind::wait});
    finish(pull, {"parameters", b, pulled_});
  }
  /// Waits for a request; an error says what of which step it was.
  static void finish(PendingRequest& request, const MessageLabel& label) {
    try {
      request.wait();
    } catch (const Error& error) {
      throw Error(text(label) + ": " + error.what());
    }
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
  typename Kernels::Executor* executor_;
  std::array<PendingRequest, static_cast<std::size_t>(plan.count)> pushes_, pulls_;
  long step_ = 0, pulled_ = 0;  // the second: of which step what is pulled is
  std::uint64_t version_ = 0;
  bool has_begun_ = false;
  std::unique_ptr<Server> server_ = std::make_unique<Server>();
  KeyValueStore<T> store_;  // last: its thread uses the server
};

}  // namespace tenet
