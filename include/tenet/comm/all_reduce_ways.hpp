#pragma once

#include <tenet/comm/rings.hpp>
#include <tenet/comm/transport.hpp>
#include <tenet/comm/trees.hpp>

/// Which way of a collective takes least time: see comm/collectives.hpp.
namespace tenet {

namespace detail {

constexpr int rounds_of_doubling(int n) {
  int rounds = 0;
  while (1 << rounds < n) ++rounds;
  return rounds;
}

}  // namespace detail

/// Whether `reduce_scatter` and `all_gather` go by halving and doubling, which wait less often: for a power of two
/// ranks. Not on several machines, between which a ring sends less.
constexpr bool halves_parts(int n, const LinkCost& link) { return (n & (n - 1)) == 0 && link.machine.most == 1; }
namespace detail {

/// What links of a machine cost, and those between ranks of one place.
constexpr LinkCost inside_machine(const LinkCost& link) {
  return {link.machine.seconds, link.machine.seconds_per_float, link.seconds_per_sum, link.machine.shares};
}
constexpr LinkCost between_machines(LinkCost link) {
  link.machine = {};
  link.shares = false;
  return link;
}
constexpr double seconds_of_broadcast(int n, long floats, const LinkCost& link, bool in_parts) {
  const double rounds = rounds_of_doubling(n), moved = static_cast<double>(floats) * link.seconds_per_float;
  if (!in_parts) return rounds * (link.seconds + moved);
  return (rounds + (halves_parts(n, link) ? rounds : n - 1)) * link.seconds + 2 * (n - 1.0) / n * moved;
}

}  // namespace detail

/// Whether `broadcast` among ranks that are alike goes by parts, of many numbers: each is sent twice then, rather than
/// by every rank of a chain.
constexpr bool broadcasts_parts(int n, long floats, const LinkCost& link) {
  return has_lines_for(n, floats) &&
         detail::seconds_of_broadcast(n, floats, link, true) < detail::seconds_of_broadcast(n, floats, link, false);
}

namespace detail {

constexpr double seconds_of_broadcast(int n, long floats, const LinkCost& link) {
  return seconds_of_broadcast(n, floats, link, broadcasts_parts(n, floats, link));
}
/// From one machine to the others, then inside of each.
constexpr double seconds_of_broadcast_by_machines(long floats, const LinkCost& link) {
  return seconds_of_broadcast(link.machine.count, floats, between_machines(link)) +
         seconds_of_broadcast(link.machine.most, floats, inside_machine(link));
}

}  // namespace detail

/// Whether `broadcast` goes from machine to machine first.
constexpr bool broadcasts_by_machines(int n, long floats, const LinkCost& link) {
  return link.machine.most > 1 &&
         detail::seconds_of_broadcast_by_machines(floats, link) < detail::seconds_of_broadcast(n, floats, link);
}
/// What `broadcast` is expected to take.
constexpr double broadcast_seconds(int n, long floats, const LinkCost& link) {
  return broadcasts_by_machines(n, floats, link) ? detail::seconds_of_broadcast_by_machines(floats, link)
                                                 : detail::seconds_of_broadcast(n, floats, link);
}
/// Whether a `barrier` is one of each machine, one between them, and once more one of each.
constexpr bool meets_by_machines(int n, const LinkCost& link) {
  using detail::rounds_of_doubling;
  return link.machine.most > 1 && 2 * rounds_of_doubling(link.machine.most) * link.machine.seconds +
                                          rounds_of_doubling(link.machine.count) * link.seconds <
                                      rounds_of_doubling(n) * link.seconds;
}

enum class AllReduceWay { ring, two_rings, halving, doubling, machines };

namespace detail {

/// What the ranks of a machine take to add up parts, one for each of those of the smallest machine, and to bring them
/// together.
constexpr double seconds_inside(long floats, const LinkCost& link, bool by_rings) {
  const LinkCost inside = inside_machine(link);
  const int n = link.machine.most, owners = link.machine.fewest;
  int rounds = 1;
  if (n == owners && by_rings)
    rounds = n - 1;
  else if (n == owners && !inside.shares && (n & (n - 1)) == 0)
    rounds = rounds_of_doubling(n);
  return 2 * rounds * inside.seconds +
         static_cast<double>(floats) * (n - 1) / owners * (2 * inside.seconds_per_float + inside.seconds_per_sum);
}

}  // namespace detail

/// What the ways of `all_reduce` are expected to take between n ranks.
struct AllReduceTimes {
  double by_ring = 0;        ///< seconds; by two rings where these gain something
  double by_parts = 0;       ///< seconds; by halving for a power of two ranks, else by a ring
  double by_doubling = 0;    ///< seconds
  bool halves = false;       ///< a power of two ranks
  bool two_rings = false;    ///< there is something to be gained by them
  double by_sharing = 0;     ///< seconds
  bool shares = false;       ///< that is possible, and the quickest of all
  double by_machines = 0;    ///< seconds, where there are several
  bool on_machines = false;  ///< that is the quickest of all
  bool in_parts = false;     ///< by machines: each rank of one has a part, else all numbers

  constexpr AllReduceTimes(int n, long floats, const LinkCost& link) {
    const int rounds = detail::rounds_of_doubling(n);
    halves = 1 << rounds == n;
    const double m = static_cast<double>(floats), share = (n - 1.0) / n;
    const double moved = share * m * (2 * link.seconds_per_float + link.seconds_per_sum);
    two_rings = link.is_wire && n > 2;
    by_ring = moved + 2 * (n - 1) * link.seconds;
    if (two_rings) by_ring -= share * m * link.seconds_per_float;
    by_parts = halves ? moved + 2 * rounds * link.seconds : by_ring;
    by_sharing = moved + 2 * link.seconds;
    by_doubling = (halves ? rounds : rounds + 1) * (link.seconds + m * (link.seconds_per_float + link.seconds_per_sum));
    shares = link.shares && by_sharing < by_doubling;
    // A power of two ranks has the order of the tree, whatever the way.
    if (link.machine.most > 1 && (link.machine.keeps_tree || !halves)) look_at_machines(floats, link);
  }
  constexpr double least() const {
    if (on_machines) return by_machines;
    return shares ? by_sharing : by_doubling < by_parts ? by_doubling : by_parts;
  }
  /// By messages.
  constexpr AllReduceWay quickest() const {
    if (on_machines) return AllReduceWay::machines;
    if (by_doubling <= by_parts) return AllReduceWay::doubling;
    return halves ? AllReduceWay::halving : two_rings ? AllReduceWay::two_rings : AllReduceWay::ring;
  }

 private:
  constexpr void look_at_machines(long floats, const LinkCost& link) {
    const MachineCost& machine = link.machine;
    const LinkCost between = detail::between_machines(link);
    const double parts = detail::seconds_inside(floats, link, false) +
                         AllReduceTimes(machine.count, (floats + machine.fewest - 1) / machine.fewest, between).least();
    in_parts = true;
    by_machines = parts;
    if (machine.fewest == machine.most) {
      const double whole = AllReduceTimes(machine.most, floats, detail::inside_machine(link)).least() +
                           AllReduceTimes(machine.count, floats, between).least();
      in_parts = parts < whole;
      by_machines = in_parts ? parts : whole;
    }
    if (!(by_machines < least())) return;
    on_machines = true;
    shares = false;
  }
};

namespace detail {

/// In the way that takes least time between ranks that are alike.
template <Transport T>
void all_reduce_among_equals(const AllReduceTimes& times, T& transport, float* data, long floats, MessageLabel label,
                             float weight) {
  if constexpr (MayShareMemory<T>)
    if (times.shares && all_reduce_by_sharing(transport, data, floats, label, weight)) return;
  switch (times.quickest()) {
    case AllReduceWay::doubling:
      return all_reduce_by_doubling(transport, data, floats, label, weight);
    case AllReduceWay::halving:
      return all_reduce_by_halving(transport, data, floats, label, weight);
    case AllReduceWay::two_rings:
      return all_reduce_by_two_rings(transport, data, floats, label, weight);
    case AllReduceWay::ring:
    case AllReduceWay::machines:
      return all_reduce_by_ring(transport, data, floats, label, weight);
  }
}

}  // namespace detail

}  // namespace tenet
