#pragma once

#include <tenet/comm/timed_collectives.hpp>

/// The schedules of collectives that go inside of machines, then between them: see comm/timed_collectives.hpp.
namespace tenet {

namespace detail {

/// The messages of `all_reduce_by_owners`, before and behind the sums between machines.
class OwnerTimes {
 public:
  OwnerTimes(RankTimesOfGroup& times, int owners, long floats)
      : times_(times), owners_(owners), floats_(floats), comes_(square(times.size())) {
    for (int owner = 0; owner < owners; ++owner) busy_.push_back(times.busy(part(owner)));
  }

  void scatter() {
    for_turns([this](int rank, int peer) {
      if (peer < owners_) comes(rank, peer) = times_.send(rank, peer, busy(peer));
    });
    for_turns_back([this](int rank, int peer) {
      if (rank < owners_) times_.receive(peer, rank, comes(peer, rank), busy(rank));
    });
  }
  void gather() {
    for_turns([this](int rank, int peer) {
      if (rank < owners_) comes(rank, peer) = times_.send(rank, peer, busy(rank));
    });
    for_turns_back([this](int rank, int peer) {
      if (peer < owners_) times_.receive(peer, rank, comes(peer, rank), busy(peer));
    });
  }
  long part(int owner) const { return part_of(floats_, owner, owners_).count; }

 private:
  static std::size_t square(int n) { return static_cast<std::size_t>(n) * static_cast<std::size_t>(n); }
  const BusySeconds& busy(int owner) const { return busy_[static_cast<std::size_t>(owner)]; }
  double& comes(int from, int to) { return comes_[static_cast<std::size_t>(from * times_.size() + to)]; }
  template <class Call>
  void for_turns(Call call) {
    const int n = times_.size();
    for (int rank = 0; rank < n; ++rank)
      for (int turn = 1; turn < n; ++turn) call(rank, (rank + turn) % n);
  }
  template <class Call>
  void for_turns_back(Call call) {
    const int n = times_.size();
    for (int rank = 0; rank < n; ++rank)
      for (int turn = 1; turn < n; ++turn) call(rank, (rank + n - turn) % n);
  }

  RankTimesOfGroup& times_;
  int owners_;
  long floats_;
  std::vector<BusySeconds> busy_;  // of each part
  std::vector<double> comes_;
};

}  // namespace detail

/// What `all_reduce_by_parts_of_machines` does to the clocks, where ranks of a machine exchange messages. outer(times,
/// floats) is called for each part, for those that have it on all machines.
template <class Outer>
void time_parts_of_machines(RankTimes& times, long floats, bool by_rings, Outer outer) {
  const MachineTopology& machines = *times.machines();
  const int owners = machines.fewest(), n = machines.most();
  times.forget_past();
  std::vector<RankTimesOfGroup> insides;
  for (int machine = 0; machine < machines.count(); ++machine)
    insides.emplace_back(times, machines.ranks(machine), times.link_inside());
  const auto between = [&](auto part) {
    for (int place = 0; place < owners; ++place) {
      RankTimesOfGroup group(times, machines.ranks_at(place), times.link());
      outer(group, part(place));
    }
  };
  // On each machine, then between them, then on each machine.
  const auto go = [&](auto& all, auto part) {
    for (auto& one : all) one.scatter();
    between(part);
    for (auto& one : all) one.gather();
    times.finish();
  };
  if (n == owners && by_rings) {
    for (RankTimesOfGroup& inside : insides) detail::time_rounds(inside, floats, true, false);
    between([=](int place) { return part_of(floats, place, n).count; });
    for (RankTimesOfGroup& inside : insides) detail::time_rounds(inside, floats, false, true);
    times.finish();
  } else if (n == owners && std::has_single_bit(static_cast<unsigned>(n))) {
    std::vector<detail::HalvingTimes<RankTimesOfGroup>> halves;
    for (RankTimesOfGroup& inside : insides) halves.emplace_back(inside, floats);
    go(halves, [&](int place) { return halves[0].own(place); });
  } else {
    std::vector<detail::OwnerTimes> all;
    for (RankTimesOfGroup& inside : insides) all.emplace_back(inside, owners, floats);
    go(all, [&](int place) { return all[0].part(place); });
  }
}

/// What `all_reduce_by_machines` does to the clocks.
inline void time_machines(RankTimes& times, long floats, bool in_parts) {
  const MachineTopology& machines = *times.machines();
  const auto reduce = [](RankTimesOfGroup& group, long count) { time_all_reduce_among_equals(group, count); };
  if (in_parts || machines.most() != machines.fewest()) return time_parts_of_machines(times, floats, false, reduce);
  times.forget_past();
  for (int machine = 0; machine < machines.count(); ++machine) {
    RankTimesOfGroup inside(times, machines.ranks(machine), times.link_inside());
    reduce(inside, floats);
  }
  for (int place = 0; place < machines.fewest(); ++place) {
    RankTimesOfGroup group(times, machines.ranks_at(place), times.link());
    reduce(group, floats);
  }
}

/// What `broadcast` from rank 0, the first one of its machine, does to the clocks.
inline void time_broadcast(RankTimes& times, long floats) {
  if (!broadcasts_by_machines(times.size(), floats, times.cost())) return time_broadcast_among_equals(times, floats);
  const MachineTopology& machines = *times.machines();
  times.forget_past();
  RankTimesOfGroup between(times, machines.ranks_at(0), times.link());
  time_broadcast_among_equals(between, floats);
  for (int machine = 0; machine < machines.count(); ++machine) {
    RankTimesOfGroup inside(times, machines.ranks(machine), times.link_inside());
    time_broadcast_among_equals(inside, floats);
  }
}

/// What `all_reduce` does to the clocks.
inline void time_all_reduce(RankTimes& times, long floats) {
  const AllReduceTimes ways(times.size(), floats, times.cost());
  if (ways.on_machines) return time_machines(times, floats, ways.in_parts);
  time_all_reduce_among_equals(times, floats);
}

// The same among some ranks.
inline void time_all_reduce(RankTimesOfGroup& times, long floats) { time_all_reduce_among_equals(times, floats); }
inline void time_broadcast(RankTimesOfGroup& times, long floats) { time_broadcast_among_equals(times, floats); }

}  // namespace tenet
