#pragma once

#include <tenet/device/cpu.hpp>
#include <tenet/exec/buckets.hpp>
#include <tenet/exec/execution.hpp>
#include <tenet/parallel/key_value_store.hpp>

namespace tenet {

namespace detail {

/// The kernels of a server, and its processors: it works in the host's memory, whatever device the ranks have. Where
/// this is the host's, a server takes one thread from its rank; else all, as they have nothing to compute.
template <class Kernels>
struct DeviceOfServer {
  using type = Kernels;
  using Processors = Cpu<0, 1>;
};
template <class Kernels>
  requires HasOwnMemory<typename Kernels::Executor>
struct DeviceOfServer<Kernels> {
  using type = CpuKernels;
  using Processors = Cpu<>;
};

}  // namespace detail

/// A rank's end of parameter servers: what it asks them for, and the server that it is itself. Key b of the store is
/// bucket b of the parameters. What is sent, and what comes, lies in the host's memory. `Program` is the training step;
/// the servers run its update.
template <class Program, class Synchronisation, long bucket_bytes, Transport T>
class ServedParameters {
 public:
  using Executor = typename Program::Kernels::Executor;
  static constexpr auto plan = plan_buckets(Program::lowered, Program::slots, bucket_bytes / 4);

  /// `executor`: of the device whose work is recorded, where that is.
  ServedParameters(Executor& executor, T transport)
      : executor_(&executor), store_(std::move(transport), options(*server_)) {
    static_assert(Program::lowered.prepared_steps == 0, "what runs before the passes does not wait for parameters");
    static_assert(updates_by_elements<Program>(),
                  "ParameterServer: the optimizer's update is not element-wise over all parameters, so that no server "
                  "can do a part of it");
    static_assert(setting_count <= detail::most_settings, "ParameterServer: the optimizer has more than 8 settings");
  }

  /// Where all parameters come to, and where gradients are sent from.
  void use(float* parameters, float* gradients) {
    parameters_ = parameters;
    gradients_ = gradients;
  }
  void set_scalars(const float* scalars) { std::copy_n(scalars, setting_count, settings_.begin()); }
  KeyValueStore<T>& store() { return store_; }

  /// From here on the servers have the parameters that are in rank 0's memory, for which all ranks ask. In rounds they
  /// take so many results and running statistics, too, as `agree` is to be given. `in_step`: a step follows, so that
  /// who does not begin anew, while others do, pushes to each key: others wait for what rank 0 does.
  void begin(bool in_step, std::span<const float> results = {}, std::span<const float> buffers = {}) {
    if (store_.rank() == 0) {
      if (!results.empty()) store_.assign(results_key, results).wait();
      if (!buffers.empty()) store_.assign(buffers_key, buffers).wait();
      for (int b = 0; b < plan.count; ++b) store_.assign(b, part(parameters_, b)).wait();
    }
    pull_all(in_step && Synchronisation::in_rounds ? 0 : -1);
    has_begun_ = true;
  }
  bool has_begun() const { return has_begun_; }
  /// `begin` is to be called anew.
  void restart() { has_begun_ = false; }

  void begin_step() { ++step_; }
  long step() const { return step_; }
  /// Sends the gradients of bucket b, means over `weight` samples: the last ones when the step waits.
  void push(int b, float weight) {
    pushes_[index(b)] =
        store_.push(b, part(gradients_, b), {.weight = weight, .settings = settings_, .wakes = b + 1 < plan.count});
  }
  /// Asks for the parameters of bucket b; those come first that a run needs first. `behind`, `wakes`: see
  /// `PullOptions`.
  void pull(int b, int behind = -1, bool wakes = true) {
    const auto place = std::find(plan.by_need.begin(), plan.by_need.begin() + plan.count, b) - plan.by_need.begin();
    pulled_ = step_;
    pulls_[index(b)] = store_.pull(
        b, part(parameters_, b), {.priority = plan.count - static_cast<int>(place), .behind = behind, .wakes = wakes});
  }
  /// `waits`: whether the caller is about to.
  void pull_all(int behind = -1, bool waits = false) {
    for (int i = 0; i < plan.count; ++i) pull(plan.by_need[index(i)], behind, i + 1 == plan.count && !waits);
  }
  /// In rounds: results become the means over all ranks, each of which counts `weight` times, and running statistics
  /// those of rank 0. Where parameters have been asked for while the pass was running, these few numbers overtake them,
  /// as all ranks wait for them before the next pass begins: `overtakes`.
  void agree(std::span<float> results, std::span<float> buffers, float weight, bool overtakes = false) {
    constexpr std::size_t means = Program::writes_buffers ? 2 : 1;
    static constexpr const char* names[]{"results", "running statistics"};
    const std::array numbers{results, buffers};
    const std::array weights{weight, static_cast<float>(store_.rank() == 0)};
    const int priority = overtakes ? plan.count + 1 : 0;
    std::array<PendingRequest, means> pushes, pulls;
    for (std::size_t i = 0; i < means; ++i) {
      const int key = results_key + static_cast<int>(i);
      pushes[i] = store_.push(key, numbers[i], {.priority = priority, .weight = weights[i], .wakes = false});
      // Into the same memory: the answer comes when the server has read what was pushed.
      pulls[i] = store_.pull(key, numbers[i], {.priority = priority, .wakes = false});
    }
    for (auto* requests : {&pulls, &pushes})
      for (std::size_t i = 0; i < means; ++i) finish((*requests)[i], {names[i], -1, step_});
  }
  /// Until the servers have all gradients. Where they bound how far ahead a rank may be, it is no further behind this:
  /// a server answers when the slowest rank is near enough, so whoever has one bucket is as near to it as one that has
  /// all. What is waited for is what the next run begins with.
  void end_step() {
    for (int b = 0; b < plan.count; ++b) finish(pushes_[index(b)], {"bucket", b, step_});
    if constexpr (is_bounded) await(plan.by_need[0]);
  }

  /// Waits for the parameters of bucket b.
  void await(int b) {
    PendingRequest& pull = pulls_[index(b)];
    if (pull.ready()) return finish(pull, {"parameters", b, pulled_});
    const auto span = open_span(*executor_, {.name = "parameters", .step = step_, .kind = SpanKind::wait});
    finish(pull, {"parameters", b, pulled_});
  }
  /// Waits for all parameters that are under way, in the order in which their gradients were there, and calls there(b)
  /// for each bucket that has come. Throws what the first of them does that fails.
  template <class There>
  void complete(There there) {
    std::exception_ptr failure;
    for (int b = 0; b < plan.count; ++b) {
      try {
        await(b);
        there(b);
      } catch (...) {
        if (failure == nullptr) failure = std::current_exception();
      }
    }
    if (failure != nullptr) std::rethrow_exception(failure);
  }
  void complete() {
    complete([](int) {});
  }
  /// Behind `complete`: waits until all ranks have come here. From then on all have the same parameters.
  void synchronize() {
    store_.synchronize();
    pull_all();
    complete();
    store_.synchronize();
  }

  /// Waits for a request; an error says what of which step it was.
  static void finish(PendingRequest& request, const MessageLabel& label) {
    try {
      request.wait();
    } catch (const PeerFailed& error) {
      throw PeerFailed(text(label) + ": " + error.what());
    } catch (const Error& error) {
      throw Error(text(label) + ": " + error.what());
    }
  }

 private:
  static constexpr int results_key = plan.count, buffers_key = plan.count + 1;
  /// Whether ranks wait for slow ones without meeting in every step.
  static constexpr bool is_bounded =
      !Synchronisation::in_rounds && Synchronisation::Consistency::consistency.staleness < Consistency::unbounded;
  /// Numbers of the optimizer that change from step to step.
  static constexpr std::size_t setting_count = [] {
    int count = 0;
    for (const NumberEntry& entry : Program::numbers)
      if (entry.source == Source::scalar && entry.index >= count) count = entry.index + 1;
    return static_cast<std::size_t>(count);
  }();
  static constexpr std::size_t index(auto i) { return static_cast<std::size_t>(i); }

  static std::span<float> part(float* arena, int b) {
    const Bucket& bucket = plan.buckets[index(b)];
    return {arena + bucket.first, index(bucket.floats)};
  }

  /// The optimizer of the parameters that lie on this rank, with states of its own. It runs on the store's thread.
  class Server {
   public:
    void update(const Pushed& pushed, std::span<float> value) {
      if constexpr (!Program::is_on_part)  // else they are terms of the mean
        detail::scale_floats(pushed.values.data(), 1 / pushed.weight, static_cast<long>(pushed.values.size()));
      if (pushed.key >= plan.count) {  // a mean
        std::copy(pushed.values.begin(), pushed.values.end(), value.begin());
        return;
      }
      if (optimizer_ == nullptr) {
        executor_ = make_executor<typename Device::Processors, Kernels>();
        optimizer_ = std::make_unique<Execution<Update>>(*executor_);
      }
      const auto floats = static_cast<long>(value.size());
      Buffer& states = states_[index(pushed.key)];
      states.grow(Update::state_count * floats);
      optimizer_->set_scalars(pushed.settings.data(), 0);
      optimizer_->prepare_update();
      if constexpr (HasOwnMemory<Executor>)
        optimizer_->update_by_blocks(
            value.data(), [&](long first, long, float*) { return pushed.values.data() + first; }, states.data(), floats,
            floats);
      else
        optimizer_->update(value.data(), pushed.values.data(), states.data(), floats, floats);
    }

   private:
    using Device = detail::DeviceOfServer<typename Program::Kernels>;
    using Kernels = typename Device::type;
    using Update = tenet::Program<typename Program::Definition::template UpdateFor<Kernels>>;

    std::unique_ptr<typename Kernels::Executor> executor_;
    std::unique_ptr<Execution<Update>> optimizer_;
    std::array<Buffer, static_cast<std::size_t>(plan.count)> states_;  // of what lies here of each bucket
  };

  static KeyValueOptions options(Server& server) {
    KeyValueOptions result{.consistency = Synchronisation::Consistency::consistency,
                           .servers = Synchronisation::Place::servers()};
    result.updater = [&server](const Pushed& pushed, std::span<float> value) { server.update(pushed, value); };
    return result;
  }

  Executor* executor_;
  float *parameters_ = nullptr, *gradients_ = nullptr;
  std::array<float, setting_count> settings_{};
  std::array<PendingRequest, static_cast<std::size_t>(plan.count)> pushes_, pulls_;
  long step_ = 0, pulled_ = 0;  // the second: of which step what is pulled is
  bool has_begun_ = false;
  std::unique_ptr<Server> server_ = std::make_unique<Server>();
  KeyValueStore<T> store_;  // last: its thread uses the server
};

}  // namespace tenet
