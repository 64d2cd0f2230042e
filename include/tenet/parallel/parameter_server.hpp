#pragma once

// clang-format off: compilers name the way to this header in every message about a mistake; this is the shortest
#include <tenet/ops/mistake.hpp>
// clang-format on

#include <tenet/parallel/rank_passes.hpp>
#include <tenet/parallel/served_parameters.hpp>
#include <tenet/parallel/synchronisation.hpp>

/// Parameters on servers: the synchronisation `ParameterServer`, and the training step of a rank that has one. Not part
/// of tenet/tenet.hpp.
namespace tenet {

template <class Program, class Passes, class Synchronisation, long bucket_bytes, Transport T>
class ParameterServerExecution;
// On devices with memories of their own: parallel/resident_servers.hpp and …/resident_served_replicas.hpp, parts of
// tenet/cuda.hpp.
template <class Program, class Synchronisation, long bucket_bytes, Transport T, class Cut>
class ResidentServedStep;
template <class Program, class Synchronisation, class Device, int count, long bucket_bytes, class Cut>
class ResidentServedReplicas;

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
  static constexpr const char* name = "parameter server of bounded staleness";
};

namespace detail {

/// Of a bucket of so many numbers, those of the server that has most of them.
template <class Place>
constexpr double served_by_one(int workers, long floats) {
  const bool is_cut = floats >= enough_for_a_server * workers;
  return static_cast<double>(is_cut ? Place::part(floats, Place::least_replicas - 1, workers).count : floats);
}
/// Each of n workers sends all of its numbers to servers, or gets all: a server has to do with those of n - 1 others.
template <class Place>
inline constexpr Moving push_moves{"pushes", "", [](int, long floats) { return static_cast<double>(floats); },
                                   [](int workers, long floats, const LinkCost& link) {
                                     return link.seconds + (workers - 1) * served_by_one<Place>(workers, floats) *
                                                               (link.seconds_per_float + link.seconds_per_sum);
                                   }};
template <class Place>
inline constexpr Moving pull_moves{
    "pulls", "", push_moves<Place>.moved, [](int workers, long floats, const LinkCost& link) {
      return link.seconds + (workers - 1) * served_by_one<Place>(workers, floats) * link.seconds_per_float;
    }};

}  // namespace detail

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
  static constexpr Traffic traffic{.gradients = &detail::push_moves<Place>,
                                   .parameters = &detail::pull_moves<Place>,
                                   .most_ahead = Consistency::consistency.staleness,
                                   .served = detail::served_by_one<Place>};
  template <class Program, class Passes, long bucket_bytes, class T>
  using StepOfRank = ParameterServerExecution<Program, Passes, ParameterServer, bucket_bytes, T>;
  /// Where they are on the host; else a device with a memory of its own owns a part (parallel/exchanged_gradients.hpp).
  template <class Program, long bucket_bytes, class T, class Cut>
    requires detail::ServesOnHost<ParameterServer>
  using ResidentStepOfRank = ResidentServedStep<Program, ParameterServer, bucket_bytes, T, Cut>;
  template <class Program, class Device, int count, long bucket_bytes, class Cut>
    requires detail::ServesOnHost<ParameterServer>
  using ResidentStepOfReplicas = ResidentServedReplicas<Program, ParameterServer, Device, count, bucket_bytes, Cut>;
};

/// A training step of a rank with parameter servers. The same interface as `Execution`; all ranks make one together.
///
/// Bulk-synchronous, it does the same as `DistributedExecution`. Else losses are those of the rank's own samples, and
/// running statistics are its own.
template <class Program, class Passes, class Synchronisation, long bucket_bytes, Transport T>
class ParameterServerExecution : public Passes {
 public:
  ParameterServerExecution(typename Passes::Devices& devices, T transport)
      : Passes(devices, transport.rank(), transport.size()), served_(this->executor(), std::move(transport)) {
    static_assert(Passes::updates, "a training step");
    static_assert(Passes::Cut::in_all == 0, "servers add up in the order of ranks");
  }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    served_.set_scalars(scalars);
    Passes::set_scalars(scalars, seed);
  }
  void bind(Arena arena, float* memory) {
    Passes::bind(arena, memory);
    served_.use(this->memory(Arena::parameters), this->memory(Arena::gradients));
  }
  /// Where they have been changed by more than the last step, by a file that was read, those of rank 0 are the servers'
  /// from now on; but not where ranks are at different steps.
  void use_weights(std::uint64_t version) {
    if (Synchronisation::in_rounds && version != version_ + 1) served_.restart();
    version_ = version;
    Passes::use_weights(version);
  }

  /// The new parameters are still to come when it returns: the next run waits for each bucket when it needs it, all
  /// others wait in `complete`.
  void run(int batch) {
    if constexpr (Passes::is_cut) complete();
    if (!served_.has_begun()) begin(true);
    served_.begin_step();
    const auto weight = static_cast<float>(batch);
    const auto backward = [&](auto* execution, auto prepare, auto wait) {
      int pushed = 0;
      const auto push_computed = [&](int last) {  // of the rank's devices this one waits for the others at the end
        for (; pushed <= last && (last + 1 == plan.count || this->has_computed(pushed)); ++pushed) {
          prepare(pushed, plan.buckets[static_cast<std::size_t>(pushed)]);
          served_.push(pushed, weight);
        }
      };
      run_by_buckets<Program>(execution, plan, this->memory(Arena::gradients), push_computed, wait);
    };
    const auto await = [this](int device, int b) {
      this->behind_first(device, {"parameters", b, served_.step()}, [&] { served_.await(b); });
    };
    this->compute(batch, weight, plan, backward, await, [](int) {});
    complete();  // of parameters that no step reads
    // Means go before several buckets, whose answers would keep the servers' ports from these few numbers, for which
    // all ranks wait before the next pass begins. Of one bucket nothing comes while a pass runs, so that is asked for
    // at once.
    if constexpr (plan.count == 1) served_.pull_all(-1, Synchronisation::in_rounds);
    if constexpr (Synchronisation::in_rounds) served_.agree(results(), buffers(), weight);
    if constexpr (plan.count > 1) served_.pull_all();
    served_.end_step();
  }
  /// Waits for all parameters that are under way. Throws what the first of them does that fails.
  void complete() { served_.complete(); }

  /// Waits until all ranks have come here; from then on all have the same parameters.
  void synchronize() {
    complete();
    if (!served_.has_begun()) begin(false);
    served_.synchronize();
  }

 private:
  using Served = ServedParameters<Program, Synchronisation, bucket_bytes, T>;
  static constexpr const auto& plan = Served::plan;

  std::span<float> results() { return {this->numbers().data(), static_cast<std::size_t>(Program::result_count)}; }
  std::span<float> buffers() {
    return {this->memory(Arena::buffers), static_cast<std::size_t>(Program::slots.buffer_floats)};
  }

  void begin(bool in_step) {
    complete();
    if constexpr (Synchronisation::in_rounds)
      served_.begin(in_step, results(), buffers());
    else
      served_.begin(in_step);
    complete();
  }

  Served served_;
  std::uint64_t version_ = 0;
};

}  // namespace tenet
