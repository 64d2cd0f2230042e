#pragma once

#include <tenet/comm/collectives.hpp>
#include <tenet/parallel/synchronisation.hpp>
#include <type_traits>

/// Gradients that are added up inside of machines, then between them: the synchronisation `Hierarchical`. Not part of
/// tenet/tenet.hpp.
namespace tenet {

/// Ranks of one machine add up parts of each bucket, as `Inner` says; ranks of all machines that have the same part add
/// up that, as `Outer` says; then each machine's ranks bring the parts together. Both are `AllReduce` or `Ring`. Where
/// machines have different numbers of ranks, as many of each have parts as the smallest one has ranks, and `Inner` is
/// the same for both. On one machine it is `Inner`; where each rank has a machine to itself, `Outer`.
///
/// What is too little to be cut into parts, results say, goes in the quickest way.
template <class Inner_, class Outer_>
struct Hierarchical {
  using Inner = Inner_;
  using Outer = Outer_;
  using Place = Sharded;
  static constexpr bool sends_buckets = true;
  static constexpr bool rings_inside = std::is_same_v<Inner, Ring>, rings_between = std::is_same_v<Outer, Ring>;
  static constexpr const char* name = rings_inside && rings_between ? "rings inside of machines and between them"
                                      : rings_inside  ? "rings inside of machines, all-reduce between them"
                                      : rings_between ? "all-reduce inside of machines, rings between them"
                                                      : "all-reduce inside of machines and between them";

  /// What all of it takes.
  static double seconds(int workers, long floats, const LinkCost& link) {
    const MachineCost& machine = link.machine;
    if (!has_lines_for(workers, floats)) return AllReduceTimes(workers, floats, link).least();
    if (machine.count == 1) return Inner::traffic.gradients->seconds(workers, floats, link);
    if (machine.most == 1) return Outer::traffic.gradients->seconds(workers, floats, link);
    return detail::seconds_inside(floats, link, rings_inside) +
           Outer::traffic.gradients->seconds(machine.count, (floats + machine.fewest - 1) / machine.fewest,
                                             detail::between_machines(link));
  }

  /// Of machines with equal numbers of ranks; with k of them, 2 (k - 1)/k m are sent inside.
  static constexpr Moving moving{"sends", detail::ring_moves.share, detail::ring_moves.moved, &Hierarchical::seconds};
  static constexpr Traffic traffic{.gradients = &moving};

  template <class T>
  static void reduce(T& transport, float* data, long floats, MessageLabel label, float weight) {
    if (!has_lines_for(transport.size(), floats)) return all_reduce(transport, data, floats, label, weight);
    if constexpr (KnowsMachines<T>)
      if (const MachineTopology* const machines = transport.machines(); machines != nullptr) {
        if (machines->most() == 1) return Outer::reduce(transport, data, floats, label, weight);
        const auto outer = [](auto& group, float* part, long count, MessageLabel about, float own_weight) {
          Outer::reduce(group, part, count, about, own_weight);
        };
        return all_reduce_by_parts_of_machines(transport, *machines, data, floats, label, weight, rings_inside, outer);
      }
    Inner::reduce(transport, data, floats, label, weight);
  }
};

}  // namespace tenet
