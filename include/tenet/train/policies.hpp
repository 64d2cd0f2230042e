#pragma once

#include <tenet/core/tensor_type.hpp>
#include <tenet/device/cpu.hpp>
#include <tenet/exec/one_sample.hpp>
#include <tenet/ops/mistake.hpp>
#include <tenet/parallel/shards.hpp>
#include <tenet/parallel/single.hpp>
#include <tenet/parallel/synchronisation.hpp>
#include <tenet/train/step_policies.hpp>
#include <type_traits>

/// The unordered list of tags behind Trainer<Net, Loss, Optimizer, …>: the input's shape, and a policy for each axis.
namespace tenet {

namespace detail {

template <class T>
concept DevicePolicy = requires {
  typename T::Kernels;
  T::threads();
};
template <class T>
concept UpdatePolicy = requires { T::keeps_gradients; };
template <class T>
concept OneSamplePolicy = requires { T::most_flops; };
template <class T>
concept PrecisionPolicy = requires { typename T::template KernelsOf<CpuKernels>; };
template <class T>
concept ConvolutionPolicy = requires { typename T::template ConvolvingKernels<CpuKernels>; };
template <class T>
concept MeasurementPolicy = requires { typename T::template MeasuringKernels<CpuKernels>; };
template <class T>
concept MemoryPolicy = requires { T::memory_bound; };
template <class T>
concept StrategyPolicy = requires { T::replicas; };
template <class T>
concept SynchronisationPolicy = requires { T::sends_buckets; };
template <class T>
concept ShardsPolicy = requires { T::of_worker; };
template <class T>
concept BucketPolicy = requires { T::bucket_bytes; };
template <class T>
concept BatchNormPolicy = requires { T::shares_batch; };
template <class T>
concept TimelinePolicy = requires { T::spans_of_row; };

/// What a tag is about.
enum class Axis {
  input,
  device,
  update,
  one_sample,
  precision,
  convolution,
  measurement,
  memory,
  strategy,
  synchronisation,
  shards,
  buckets,
  batch_norm,
  timeline,
  unknown
};
template <class T>
inline constexpr Axis axis_of = is_tensor_type<T>          ? Axis::input
                                : DevicePolicy<T>          ? Axis::device
                                : UpdatePolicy<T>          ? Axis::update
                                : OneSamplePolicy<T>       ? Axis::one_sample
                                : PrecisionPolicy<T>       ? Axis::precision
                                : ConvolutionPolicy<T>     ? Axis::convolution
                                : MeasurementPolicy<T>     ? Axis::measurement
                                : MemoryPolicy<T>          ? Axis::memory
                                : StrategyPolicy<T>        ? Axis::strategy
                                : SynchronisationPolicy<T> ? Axis::synchronisation
                                : ShardsPolicy<T>          ? Axis::shards
                                : BucketPolicy<T>          ? Axis::buckets
                                : BatchNormPolicy<T>       ? Axis::batch_norm
                                : TimelinePolicy<T>        ? Axis::timeline
                                                           : Axis::unknown;

/// The first of the tags on an axis, or what is to be otherwise.
template <Axis axis, class Otherwise, class... Tags>
struct Find {
  using type = Otherwise;
};
template <Axis axis, class Otherwise, class First, class... Rest>
struct Find<axis, Otherwise, First, Rest...>
    : std::conditional_t<axis_of<First> == axis, std::type_identity<First>, Find<axis, Otherwise, Rest...>> {};

/// Where the parts of a training run. Who cuts batches says where on one device.
template <class Named, class Shards>
struct StrategyFor {
  using type = Named;
};
template <class Shards>
  requires requires { typename Shards::OnOneDevice; }
struct StrategyFor<Single, Shards> {
  using type = typename Shards::OnOneDevice;
};

/// The first of the tags whose axis another one is on, too, or void.
template <class... Tags>
struct FindTwice {
  using type = void;
};
template <class First, class... Rest>
struct FindTwice<First, Rest...> : std::conditional_t<(false || ... || (axis_of<First> == axis_of<Rest>)),
                                                      std::type_identity<First>, FindTwice<Rest...>> {};

}  // namespace detail

/// What a list of tags says: `Input`, `Device`, `Update`, `OneSample`, `Precision`, `Convolution`, `Measurement`,
/// `Memory`, `Strategy`, `Synchronisation`, `Shards`, `Buckets`, `BatchNorm` and `Timeline`; every tag has to be one of
/// them, none may be given twice. `Kernels` are the device's in that precision. `explanation` has the struct that
/// explains what is wrong with the tags, or void.
template <class... Tags>
struct Policies {
  template <detail::Axis axis, class Otherwise>
  using On = typename detail::Find<axis, Otherwise, Tags...>::type;

  using Input = On<detail::Axis::input, void>;
  using Device = On<detail::Axis::device, Cpu<>>;
  using Update = On<detail::Axis::update, UpdateAfterBackward>;
  using Timeline = On<detail::Axis::timeline, NoTimeline>;
  /// Whether what runs is recorded: step by step, where a program for a batch of one is a single function.
  static constexpr bool records = !std::is_same_v<Timeline, NoTimeline>;
  using OneSample = On<detail::Axis::one_sample, std::conditional_t<records, OneSampleNever, OneSampleIfSmall>>;
  using Precision = On<detail::Axis::precision, Float32>;
  using Convolution = On<detail::Axis::convolution, WinogradConvolution>;
  using Measurement = On<detail::Axis::measurement, NoMeasurement>;
  using Memory = On<detail::Axis::memory, MemoryUnbounded>;
  using Shards = On<detail::Axis::shards, WholeBatch>;
  using NamedStrategy = On<detail::Axis::strategy, Single>;
  using Strategy = typename detail::StrategyFor<NamedStrategy, Shards>::type;
  using Buckets = On<detail::Axis::buckets, BucketBytes<1 << 20>>;
  using BatchNorm = On<detail::Axis::batch_norm, BatchNormOfWorker>;
  using Kernels = typename Timeline::template RecordedKernels<
      typename Precision::template KernelsOf<typename Convolution::template ConvolvingKernels<
          typename Measurement::template MeasuringKernels<typename Device::Kernels>>>>;
  static constexpr bool has_own_memory = HasOwnMemory<typename Kernels::Executor>;
  /// Where none is named: devices with memories of their own do not read each other's gradients.
  using UsualSynchronisation =
      std::conditional_t<has_own_memory && std::is_same_v<typename Strategy::Synchronisation, Direct>, AllReduce,
                         typename Strategy::Synchronisation>;
  using Synchronisation = On<detail::Axis::synchronisation, UsualSynchronisation>;
  using Devices = typename Strategy::template Devices<Device, Kernels>;
  template <class Definition>
  using ProgramOf = Program<typename Strategy::template DefinitionOf<Definition>>;
  /// Of the training step's definition.
  template <class Definition>
  using TrainingOf = ProgramOf<std::conditional_t<BatchNorm::shares_batch, OnPartOfBatch<Definition>, Definition>>;
  template <class Program>
  using ExecutionOf = typename Strategy::template ExecutionOf<Program, Policies>;

  template <class Instead>
  static constexpr auto explanation() {
    using Unknown = On<detail::Axis::unknown, void>;
    using Twice = typename detail::FindTwice<Tags...>::type;
    if constexpr (!std::is_void_v<Unknown>)
      return std::type_identity<mistake::ArgumentUnknown<Unknown, Instead>>{};
    else if constexpr (std::is_void_v<Input>)
      return std::type_identity<mistake::InputMissing<Instead>>{};
    else if constexpr (!std::is_void_v<Twice>)
      return std::type_identity<mistake::ArgumentGivenTwice<Twice, Instead>>{};
    else
      return composition<Instead>();
  }

  static constexpr bool has_ranks = requires { typename Strategy::World; };
  /// Ranks of one process wait for each other: their steps have no common queue, though their devices have one name.
  static constexpr bool ranks_are_threads = requires { requires Strategy::World::ranks_are_threads; };
  /// Whether ranks, or devices with memories of their own, ask servers for parameters. Such devices own parts of them
  /// instead where the servers are not on the host; replicas of a host share them.
  static constexpr bool asks_servers =
      (has_ranks || has_own_memory) &&
      (has_own_memory ? detail::ServesOnHost<Synchronisation> : detail::HasServers<Synchronisation>);
  /// Whether ranks may have different parameters between two calls of `synchronize`.
  static constexpr bool ranks_differ =
      (has_ranks && asks_servers) || (has_ranks && (detail::AveragesParameters<Synchronisation> ||
                                                    (!has_own_memory && detail::SharesWithoutLocks<Synchronisation>)));
  /// Whether the trainer has the optimizer's state; else the synchronisation does, each rank its part.
  static constexpr bool has_states = !(has_ranks || has_own_memory) || !detail::KeepsStates<Synchronisation>;
  /// Whether a rank, or replica, has a part of the gradient after a step, so that parts have to be brought together.
  static constexpr bool has_part_of_gradient = Strategy::replicas > 1 ||
                                               (has_ranks && detail::ScattersGradients<Synchronisation>);
  /// Whether an update has all gradients at once, as an optimizer may need.
  static constexpr bool updates_all_at_once = [] {
    const bool scattered = has_ranks && detail::ScattersGradients<Synchronisation>,
               owned = has_own_memory && detail::UpdatesParts<Synchronisation>;
    return Update::keeps_gradients && !asks_servers && !detail::SharesWithoutLocks<Synchronisation> && !scattered &&
           !owned;
  }();
  /// Whether sparse tables can be trained: by whoever updates rows of them.
  static constexpr bool updates_rows =
      Update::keeps_gradients && !has_own_memory &&
      (std::is_same_v<Strategy, Single> || detail::SharesWithoutLocks<Synchronisation>);
  /// The policy that keeps them from it where they cannot.
  using AgainstRows =
      std::conditional_t<has_own_memory, Device, std::conditional_t<Update::keeps_gradients, Strategy, Update>>;
  /// Whether gradients leave in buckets.
  static constexpr bool sends_buckets() {
    if constexpr (std::is_void_v<Synchronisation>)
      return false;
    else
      return Synchronisation::sends_buckets && (has_ranks || has_own_memory || !detail::HasServers<Synchronisation>);
  }
  /// What workers bring each other in a step. Replicas that share the parameters read what they have not sent, and all
  /// replicas meet in every step.
  static constexpr Traffic traffic() {
    if constexpr (std::is_void_v<Synchronisation>) {
      return {};
    } else if constexpr (requires { Synchronisation::traffic; }) {
      if constexpr (has_ranks) return Synchronisation::traffic;
      return has_own_memory || sends_buckets() ? Traffic{Synchronisation::traffic} : Traffic{};
    } else {
      return {.is_known = false};
    }
  }
  /// Whether each rank has devices of a host and gets the sum of every bucket: it updates these as they come.
  static constexpr bool updates_by_buckets() {
    if constexpr (has_ranks && !has_own_memory && sends_buckets())
      return !detail::HasServers<Synchronisation> && !detail::ScattersGradients<Synchronisation>;
    else
      return false;
  }
  /// Whether parameters come, or are updated, while the next step runs: whatever else reads them waits for them.
  static constexpr bool has_late_parameters() {
    return asks_servers || updates_by_buckets() ||
           (has_ranks && !has_own_memory && detail::ScattersGradients<Synchronisation>);
  }

 private:
  /// Each gradient is computed once: there is nothing to bring together.
  static constexpr bool computes_alone = std::is_void_v<typename Strategy::Synchronisation>;

  /// The first of some policies that does not go with devices that have memories of their own, or void.
  static constexpr auto against_own_memory() {
    constexpr bool alone = std::is_same_v<Strategy, Single>, replicates = requires { requires Strategy::replicates; },
                   in_rounds = requires { requires Synchronisation::in_rounds; },
                   adds_up = detail::adds_up<Synchronisation>,
                   updates_parts = detail::UpdatesParts<Synchronisation> &&
                                   (has_ranks ? in_rounds || detail::ScattersGradients<Synchronisation>
                                              : detail::HasServers<Synchronisation>),
                   has_replicas = requires { requires Strategy::has_replicas; },
                   averages = has_ranks && detail::AveragesParameters<Synchronisation>,
                   differ = averages || (ranks_differ && !has_replicas),
                   has_levels = detail::HasLevels<Synchronisation> && has_ranks && !has_replicas;
    if constexpr (!alone && !replicates && !has_ranks)
      return std::type_identity<Strategy>{};
    else if constexpr (!alone && !adds_up && !differ && !has_levels &&
                       (!updates_parts || (has_replicas && detail::ServesOnHost<Synchronisation>)))
      return std::type_identity<Synchronisation>{};
    else if constexpr (Shards::in_all > 0)
      return std::type_identity<Shards>{};
    else
      return std::type_identity<void>{};
  }

  /// Which policies do not go together.
  template <class Instead>
  static constexpr auto composition() {
    constexpr bool single = std::is_same_v<NamedStrategy, Single>;  // whether it cuts batches or not
    using NamedOneSample = On<detail::Axis::one_sample, OneSampleNever>;
    using Named = On<detail::Axis::synchronisation, void>;
    using NamedBuckets = On<detail::Axis::buckets, void>;
    constexpr bool shares_batch = BatchNorm::shares_batch;
    if constexpr (!has_known_levels())
      return std::type_identity<mistake::LevelUnknown<Synchronisation, Instead>>{};
    else if constexpr (requires { requires !Strategy::is_known_inside; })
      return std::type_identity<mistake::InsideOfRank<Strategy, Instead>>{};
    else if constexpr (has_own_memory && !std::is_void_v<typename decltype(against_own_memory())::type>)
      return std::type_identity<mistake::OwnMemoryWith<typename decltype(against_own_memory())::type, Instead>>{};
    else if constexpr (records && NamedOneSample::most_flops >= 0)
      return std::type_identity<mistake::TimelineOfOneSample<NamedOneSample, Instead>>{};
    else if constexpr (!computes_alone && !Update::keeps_gradients)
      return std::type_identity<mistake::StrategyWithoutGradients<Strategy, Instead>>{};
    else if constexpr (single && !std::is_void_v<Named>)
      return std::type_identity<mistake::SynchronisationOfOne<Named, Instead>>{};
    else if constexpr (single && !std::is_void_v<NamedBuckets>)
      return std::type_identity<mistake::SynchronisationOfOne<NamedBuckets, Instead>>{};
    else if constexpr (single && shares_batch && !detail::is_cut<Shards>)
      return std::type_identity<mistake::SynchronisationOfOne<BatchNorm, Instead>>{};
    else if constexpr (computes_alone && shares_batch)
      return std::type_identity<mistake::SynchronisationOfParts<BatchNorm, Strategy, Instead>>{};
    else if constexpr (computes_alone && !std::is_void_v<Named>)
      return std::type_identity<mistake::SynchronisationOfParts<Named, Strategy, Instead>>{};
    else if constexpr (computes_alone && !std::is_void_v<NamedBuckets>)
      return std::type_identity<mistake::SynchronisationOfParts<NamedBuckets, Strategy, Instead>>{};
    else if constexpr (computes_alone && detail::is_cut<Shards>)
      return std::type_identity<mistake::ShardsOfParts<Shards, Strategy, Instead>>{};
    else if constexpr (!sends_buckets() && !std::is_void_v<NamedBuckets>)
      return std::type_identity<mistake::BucketsAreNotSent<NamedBuckets, Instead>>{};
    else if constexpr (!serves_replicas())
      return std::type_identity<mistake::ServerOfReplicas<Synchronisation, Strategy, Instead>>{};
    else if constexpr (!has_ranks && (detail::AveragesParameters<Synchronisation> ||
                                      detail::ScattersGradients<Synchronisation> || detail::HasLevels<Synchronisation>))
      return std::type_identity<mistake::RanksOnly<Synchronisation, Instead>>{};
    else if constexpr (has_ranks && !sends_buckets() && !ranks_differ)
      return std::type_identity<mistake::DirectBetweenRanks<Strategy, Instead>>{};
    else if constexpr (!ranks_share_memory())
      return std::type_identity<mistake::NoCommonMemory<Strategy, Instead>>{};
    else if constexpr (shares_batch && ((ranks_differ && !detail::HasLevels<Synchronisation>) ||
                                        detail::SharesWithoutLocks<Synchronisation>))
      return std::type_identity<mistake::SyncBatchNormWith<Synchronisation, Instead>>{};
    else if constexpr (shares_batch && detail::is_cut<Shards>)
      return std::type_identity<mistake::ShardsOfSyncBatchNorm<Shards, Instead>>{};
    else if constexpr (detail::SharesWithoutLocks<Synchronisation> && detail::is_cut<Shards>)
      return std::type_identity<mistake::ShardsOfHogwild<Shards, Instead>>{};
    else if constexpr (Shards::in_all > 0 && !can_be_reproduced())
      return std::type_identity<mistake::NotReproducible<Strategy, Instead>>{};
    else
      return std::type_identity<void>{};
  }

  static constexpr bool has_known_levels() {
    if constexpr (detail::HasLevels<Synchronisation>)
      return detail::adds_up<typename Synchronisation::Inner> &&
             (detail::adds_up<typename Synchronisation::Outer> || detail::TrainsAlone<typename Synchronisation::Outer>);
    else
      return true;
  }

  /// Replicas share the parameters: they meet after every step, and the server has to be one of them.
  static constexpr bool serves_replicas() {
    if constexpr (detail::HasServers<Synchronisation> && !has_ranks)
      return Synchronisation::in_rounds && Synchronisation::Place::least_replicas <= Strategy::replicas;
    else
      return true;
  }

  /// Whether the ranks' transport has what the synchronisation needs.
  static constexpr bool ranks_share_memory() {
    if constexpr (has_ranks && detail::SharesWithoutLocks<Synchronisation>)
      return Synchronisation::template works_between<decltype(Strategy::World::connect())>;
    else
      return true;
  }

  static constexpr bool can_be_reproduced() {
    return Shards::in_all % Strategy::replicas == 0 && !std::is_same_v<Synchronisation, Ring> && !ranks_differ &&
           !detail::ScattersGradients<Synchronisation> && !detail::HasLevels<Synchronisation>;
  }
};

}  // namespace tenet
