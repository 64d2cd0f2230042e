#pragma once

#include <tenet/comm/collectives.hpp>
#include <tenet/parallel/traffic.hpp>
#include <vector>

/// How the gradients of replicas become one: the policies of the axis `synchronisation`.
namespace tenet {

/// All parameters on one rank or device.
template <int rank>
struct OnRank {
  static_assert(rank >= 0, "OnRank<rank>: not a rank");
  static std::vector<int> servers() { return {rank}; }
  /// The part of so many parameters that replica `replica` of `replicas` updates.
  static constexpr FloatRange part(long floats, int replica, int) { return {0, replica == rank ? floats : 0}; }
  static constexpr int least_replicas = rank + 1;
};
/// A part of them on each: n servers hold 1/n of the parameters, and have 1/n of the traffic. The servers of
/// `ParameterServer` do so of buckets that have 4096 numbers and more for each; one that is smaller lies on one server
/// whole, and bucket by bucket in turn.
struct Sharded {
  static std::vector<int> servers() { return {}; }
  static constexpr FloatRange part(long floats, int replica, int replicas) {
    return part_of(floats, replica, replicas);
  }
  static constexpr int least_replicas = 1;
};
/// In the memory of the host, or of each rank's host, and updated by its processors; which host has what, as `Sharded`
/// says. Devices with memories of their own, as GPUs, keep neither the optimizer's state nor the time for an update. Of
/// devices that work in the host's memory it is `Sharded`.
struct OnCpu : Sharded {
  static constexpr const char* name = "on the CPU";
};

/// Replicas of one process read each other's gradients when all of them are done: each adds up a part of the numbers
/// and goes on with the update of that part while they are in its cache.
struct Direct {
  static constexpr const char* name = "direct";
  static constexpr bool sends_buckets = false;
  static constexpr Traffic traffic{};
  using Place = Sharded;
};

/// Gradients leave in buckets as soon as they are ready, while backward goes on, and are added up by the collective
/// that takes least time for the bucket's size and the number of ranks.
struct AllReduce {
  static constexpr const char* name = "all-reduce";
  using Place = Sharded;  ///< of the update, between replicas that share the parameters
  static constexpr bool sends_buckets = true;
  static constexpr Traffic traffic{.gradients = &detail::all_reduce_moves};
  /// By a `Transport`, or a `DeviceGroup`.
  template <class T>
  static void reduce(T& transport, float* data, long floats, MessageLabel label, float weight) {
    all_reduce(transport, data, floats, label, weight);
  }
};

/// The same, by a ring: time and traffic of a rank do not grow with the number of ranks. By two, in opposite
/// directions, where each two ranks have a wire. But for numbers that are too few to be cut into parts, results say,
/// for which a ring waits 2(n - 1) times.
struct Ring {
  static constexpr const char* name = "ring";
  using Place = Sharded;  ///< of the update, between replicas that share the parameters
  static constexpr bool sends_buckets = true;
  static constexpr Traffic traffic{.gradients = &detail::ring_moves};
  template <class T>
  static void reduce(T& transport, float* data, long floats, MessageLabel label, float weight) {
    if (!has_lines_for(transport.size(), floats)) return all_reduce(transport, data, floats, label, weight);
    if constexpr (Transport<T>)
      if (transport.link().is_wire && transport.size() > 2)
        return all_reduce_by_two_rings(transport, data, floats, label, weight);
    all_reduce_by_ring(transport, data, floats, label, weight);
  }
};

/// How many bytes of gradients are sent together, at least: small buckets leave early, large ones wait less often.
template <long Bytes>
struct BucketBytes {
  static_assert(Bytes > 0, "BucketBytes<bytes>: a positive number");
  static constexpr long bucket_bytes = Bytes;
};

namespace detail {
template <class Synchronisation>
concept HasServers = requires { typename Synchronisation::Consistency; };
/// Whether the servers are in the hosts' memory, whatever memory the devices have: where somebody wants them there, and
/// where nobody waits for them.
template <class Synchronisation>
concept ServesOnHost = HasServers<Synchronisation> &&
                       (std::is_base_of_v<OnCpu, typename Synchronisation::Place> || !Synchronisation::in_rounds);
template <class Synchronisation>
concept AveragesParameters = requires { Synchronisation::steps_alone; };
template <class Synchronisation>
concept SharesWithoutLocks = requires { Synchronisation::samples_of_update; };
template <class Synchronisation>
concept ScattersGradients = requires { requires Synchronisation::scatters_gradients; };
/// Whether it says how ranks of a machine add up, and how machines do.
template <class Synchronisation>
concept HasLevels = requires {
  typename Synchronisation::Inner;
  typename Synchronisation::Outer;
};
/// Whether a rank exchanges nothing but parameters now and then.
template <class Synchronisation>
concept TrainsAlone = AveragesParameters<Synchronisation> && !HasLevels<Synchronisation>;
template <class Synchronisation>
inline constexpr bool adds_up = std::is_same_v<Synchronisation, AllReduce> || std::is_same_v<Synchronisation, Ring>;
/// Whether the optimizer's state lies where the synchronisation wants it, and the trainer has none.
template <class Synchronisation>
concept KeepsStates = requires { requires Synchronisation::keeps_states; };
/// Whether a part of the parameters has an owner, who updates it for all.
template <class Synchronisation>
concept UpdatesParts = KeepsStates<Synchronisation> && requires { typename Synchronisation::Place; };
/// Whether a rank's training step is of its own kind.
template <template <class, class, long, class> class>
struct NamesStep {};
template <class Synchronisation>
concept HasStepOfRank = requires { typename NamesStep<Synchronisation::template StepOfRank>; };
}  // namespace detail

}  // namespace tenet
