#pragma once

// clang-format off: compilers name the way to this header in every message about a mistake; this is the shortest
#include <tenet/ops/mistake.hpp>
// clang-format on

#include <tenet/comm/collectives.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/synchronisation.hpp>
#include <type_traits>

/// Ranks of a machine do together what is quick there, machines what is left: the synchronisation `Hierarchical`. Not
/// part of tenet/tenet.hpp.
namespace tenet {

namespace detail {
template <class Program, class Passes, class Inner, long bucket_bytes, Transport T>
class MachineByItself;
template <class Program, class Inner, long bucket_bytes, Transport T, class Cut>
class ResidentMachineByItself;
}  // namespace detail

/// Ranks of one machine add up parts of each bucket, as `Inner` says; ranks of all machines that have the same part add
/// up that, as `Outer` says; then each machine's ranks bring the parts together. Both are `AllReduce` or `Ring`. Where
/// machines have different numbers of ranks, as many of each have parts as the smallest one has ranks, and `Inner` is
/// the same for both. On one machine it is `Inner`; where each rank has a machine to itself, `Outer`.
///
/// What is too little to be cut into parts, results say, goes in the quickest way.
///
/// With a `LocalSgd` for `Outer` machines train by themselves: see below.
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

/// Machines take so many steps by themselves, in each of which their ranks add up gradients as `Inner` says, and have
/// the same parameters; then the parameters become the mean of all ranks', in which a machine counts by its number of
/// ranks, as its samples do. (Ranks of a machine add up what is the same: that goes by its memory, and the parts
/// between machines are those of any sum.) So there is next to nothing to wait for between machines, and nobody trains
/// with the few samples of one rank. On one machine it is `Inner`; where each rank has a machine to itself, `Outer`.
/// (Lin et al., Don't Use Large Mini-Batches, Use Local SGD, ICLR 2020: hierarchical local SGD; PyTorch's
/// HierarchicalModelAverager averages inside of machines, too, after some steps.)
template <class Inner_, detail::AveragesParameters Outer_>
struct Hierarchical<Inner_, Outer_> {
  using Inner = Inner_;
  using Outer = Outer_;
  static constexpr bool sends_buckets = true;
  static constexpr int steps_alone = Outer::steps_alone;
  static constexpr bool rings_inside = std::is_same_v<Inner, Ring>, rings_between = false;
  static constexpr const char* name = rings_inside ? "rings inside of machines, local SGD between them"
                                                   : "all-reduce inside of machines, local SGD between them";
  static constexpr Traffic traffic{.gradients = Inner::traffic.gradients,
                                   .parameters = Outer::traffic.parameters,
                                   .steps = steps_alone,
                                   .most_ahead = Outer::traffic.most_ahead,
                                   .inside = true};
  template <class Program, class Passes, long bucket_bytes, class T>
  using StepOfRank =
      LocalSgdExecution<Program, detail::MachineByItself<Program, Passes, Inner, bucket_bytes, T>, steps_alone>;
  template <class Program, long bucket_bytes, class T, class Cut>
  using ResidentStepOfRank =
      ResidentLocalSgdStep<Program, detail::ResidentMachineByItself<Program, Inner, bucket_bytes, T, Cut>, steps_alone>;
  template <class Program, class Device, int count, long bucket_bytes, class T, class Cut>
  using ResidentStepOfReplicas = ResidentLocalSgdStep<
      Program, detail::ResidentReplicasByThemselves<Program, Device, count, Inner, true, bucket_bytes, Cut, T>,
      steps_alone>;
};

namespace detail {

/// A rank among those of its machine, which are a training of their own between two meetings of all.
template <class Program, class Passes, class Inner, long bucket_bytes, Transport T>
class MachineByItself : public OwnTransport<T>,
                        public DistributedExecution<Program, Passes, Inner, bucket_bytes, Subgroup<T>> {
  using Machine = DistributedExecution<Program, Passes, Inner, bucket_bytes, Subgroup<T>>;

 public:
  MachineByItself(typename Passes::Devices& devices, T all)
      : OwnTransport<T>(std::move(all)),
        Machine(devices, Subgroup<T>::of_machine(transport()), transport().rank(), transport().size()) {
    static_assert(Passes::Cut::in_all == 0, "what machines do by themselves depends on their number");
  }

  using OwnTransport<T>::transport;
  void run_alone(int batch) { Machine::run(batch); }
  bool is_only() { return this->exchange_.transport().size() == transport().size(); }
};

}  // namespace detail

}  // namespace tenet
