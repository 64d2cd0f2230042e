#pragma once

#include <bit>
#include <tenet/comm/collectives.hpp>
#include <tenet/comm/rank_times.hpp>

/// The schedules of collectives without their numbers: what `comm/collectives.hpp` does, message by message, to the
/// clocks of many ranks. `Times` are `RankTimes`, or those of a group.
namespace tenet {

namespace detail {

/// The most numbers that a part has of `part_of`: as many lines as there are for all, one more where some are left
/// over, of which the last part has one, but perhaps not all of it.
inline long longest_part(long floats, int parts) {
  if (parts == 1) return floats;
  const long unit = has_lines_for(parts, floats) ? 16 : 1, units = (floats + unit - 1) / unit;
  const long others = units / parts + (units % parts > 1 ? 1 : 0);
  return std::max(others * unit, part_of(floats, parts - 1, parts).count);
}

/// When so many rounds of a ring of so many ranks end that all begin at `begin`.
///
/// A rank receives one part in each round and sends it in the next one. Part p meets ahead of it only part
/// p + 1, p + 2 and so on, which have been sent by the same ranks before. What comes later or lasts longer makes no
/// time earlier, in rounded numbers either. So no part is later than it were if all of them were as long as the
/// longest; but then all do the same, each comes a latency and its length after the one before, and the longest part
/// itself is never earlier than that.
inline double ring_ends(double begin, int rounds, int ranks, long floats, const SimulatedLink& link) {
  const double longest = link.busy(longest_part(floats, ranks));
  for (int round = 0; round < rounds; ++round) begin = begin + link.latency + longest;
  return begin;
}

}  // namespace detail

/// More ranks than this go around a ring as if all began with the last of them, and all parts were as long as the
/// longest. The last one ends late by at most 2(n-1) times what 16 floats take; where parts are equally long, or all
/// begin at once, exactly then. Where links are of two kinds, as if all were those between machines.
inline constexpr int most_in_exact_ring = 256;

namespace detail {

/// One of the rings of a collective: a message a rank and round, in which rank r of the ring sends its part r - round.
template <class Times>
class RingTimes {
 public:
  RingTimes(Times& times, long floats, bool goes_down = false) : times_(times), goes_down_(goes_down) {
    const int n = times.size();
    comes_.resize(static_cast<std::size_t>(n));
    for (int part = 0; part < n; ++part) busy_.push_back(times.busy(part_of(floats, part, n).count));
  }
  void send(int round) {
    for (int place = 0; place < size(); ++place)
      comes(place) = times_.send(rank_at(place), rank_at((place + 1) % size()), sent(place, round));
  }
  void receive(int round) {
    for (int place = 0; place < size(); ++place) {
      const int previous = (place + size() - 1) % size();
      times_.receive(rank_at(previous), rank_at(place), comes(previous), sent(previous, round));
    }
  }

 private:
  int size() const { return times_.size(); }
  int rank_at(int place) const { return goes_down_ ? size() - 1 - place : place; }
  double& comes(int place) { return comes_[static_cast<std::size_t>(place)]; }
  const BusySeconds& sent(int place, int round) const {
    return busy_[static_cast<std::size_t>((place + 2 * size() - round) % size())];
  }

  Times& times_;
  bool goes_down_;
  std::vector<BusySeconds> busy_;
  std::vector<double> comes_;
};

/// The rounds of `reduce_scatter`, of `all_gather`, or one after the other.
template <class Times>
void time_rounds(Times& times, long floats, bool scatters, bool gathers) {
  const int n = times.size();
  times.forget_past();
  if (n > most_in_exact_ring) {
    const double end = ring_ends(times.last(), (scatters + gathers) * (n - 1), n, floats, times.link());
    for (int rank = 0; rank < n; ++rank) times.wait(rank, end);
    return;
  }
  RingTimes<Times> ring(times, floats);
  const auto round = [&](int number) {
    ring.send(number);
    ring.receive(number);
  };
  for (int number = 1; scatters && number < n; ++number) round(number);
  for (int number = 0; gathers && number + 1 < n; ++number) round(number);
}

/// An exchange of parts between ranks that differ in a bit: of the sender's, or of the receiver's.
template <class Times>
void time_exchange_of_parts(Times& times, long floats, int bit, bool of_receiver) {
  const int n = times.size();
  std::vector<double> comes(static_cast<std::size_t>(n));
  const auto sent = [&](int rank) {
    return times.busy(parts_of(floats, (of_receiver ? rank ^ bit : rank) / bit * bit, bit, n).count);
  };
  for (int rank = 0; rank < n; ++rank) comes[static_cast<std::size_t>(rank)] = times.send(rank, rank ^ bit, sent(rank));
  for (int rank = 0; rank < n; ++rank)
    times.receive(rank ^ bit, rank, comes[static_cast<std::size_t>(rank ^ bit)], sent(rank ^ bit));
}

}  // namespace detail

/// What `reduce_scatter` and `all_gather` do to the clocks; what has been sent may still be under way.
template <class Times>
void time_reduce_scatter(Times& times, long floats) {
  if (!halves_parts(times.size(), times.cost())) return detail::time_rounds(times, floats, true, false);
  times.forget_past();
  for (int bit = times.size() / 2; bit > 0; bit /= 2) detail::time_exchange_of_parts(times, floats, bit, true);
}
template <class Times>
void time_all_gather(Times& times, long floats) {
  if (!halves_parts(times.size(), times.cost())) return detail::time_rounds(times, floats, false, true);
  times.forget_past();
  for (int bit = 1; bit < times.size(); bit *= 2) detail::time_exchange_of_parts(times, floats, bit, false);
}

/// What `all_reduce_by_ring` does to the clocks.
template <class Times>
void time_ring(Times& times, long floats) {
  detail::time_rounds(times, floats, true, true);
  times.finish();
}

/// What `all_reduce_by_two_rings` does to the clocks. Each ring uses one direction of the wires, so that of many ranks
/// it takes as long as a ring of the longer half.
template <class Times>
void time_two_rings(Times& times, long floats) {
  const int n = times.size();
  const long upper = part_of(floats, 0, 2).count, lower = part_of(floats, 1, 2).count;
  if (n > most_in_exact_ring && times.link().is_wire) return time_ring(times, std::max(upper, lower));
  if (n > most_in_exact_ring) return time_ring(times, floats);  // through one port one half comes behind the other
  times.forget_past();
  detail::RingTimes<Times> up(times, upper), down(times, lower, true);
  const auto round = [&](int number) {
    up.send(number);
    down.send(number);
    up.receive(number);
    down.receive(number);
  };
  for (int number = 1; number < n; ++number) round(number);
  for (int number = 0; number + 1 < n; ++number) round(number);
  times.finish();
}

namespace detail {

/// Both halves of `all_reduce_by_halving`: a message a rank and round.
template <class Times>
class HalvingTimes {
 public:
  HalvingTimes(Times& times, long floats) : times_(times), own_{floats} {
    const int ranks = times.size();
    if (ranks < 1 || !std::has_single_bit(static_cast<unsigned>(ranks)))
      fail("time_halving", "ranks", "a power of two", long{ranks});
    kept_.resize(static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(ranks))));
    for (std::vector<BusySeconds>& seconds : kept_) {
      const std::size_t known = own_.size();
      own_.resize(2 * known);
      for (std::size_t low = 0; low < known; ++low) {
        const long lower = own_[low] >= 32 ? own_[low] / 32 * 16 : own_[low] / 2;
        own_[low + known] = own_[low] - lower;
        own_[low] = lower;
      }
      for (const long count : own_) seconds.push_back(times.busy(count));
    }
  }
  void scatter() {
    for (int round = 0; round < rounds(); ++round) exchange(round, true);
  }
  void gather() {
    for (int round = rounds(); round-- > 0;) exchange(round, false);
  }
  /// Of how many numbers a rank has the sum in between.
  long own(int rank) const { return own_[static_cast<std::size_t>(rank)]; }

 private:
  int rounds() const { return static_cast<int>(kept_.size()); }
  /// Pairs differ in the round's bit, which is the last one that tells how much they keep.
  void exchange(int round, bool gives) {
    const std::vector<BusySeconds>& seconds = kept_[static_cast<std::size_t>(round)];
    const int bit = 1 << round;
    times_.forget_past();
    for (int base = 0; base < times_.size(); base += 2 * bit)
      for (int low = 0; low < bit; ++low) {
        const BusySeconds &lower = seconds[static_cast<std::size_t>(low)],
                          &upper = seconds[static_cast<std::size_t>(low + bit)];
        times_.exchange(base + low, base + low + bit, gives ? upper : lower, gives ? lower : upper);
      }
  }

  Times& times_;
  // How long it takes to send what a rank keeps in each round. That depends on the rank's last bits: with those of the
  // round it keeps the upper part, else the lower one.
  std::vector<std::vector<BusySeconds>> kept_;
  std::vector<long> own_;
};

}  // namespace detail

/// What `all_reduce_by_halving` does to the clocks; ranks are a power of two.
template <class Times>
void time_halving(Times& times, long floats) {
  detail::HalvingTimes<Times> halves(times, floats);
  halves.scatter();
  halves.gather();
  times.finish();
}

/// What `all_reduce_by_doubling` does to the clocks.
template <class Times>
void time_doubling(Times& times, long floats) {
  const int ranks = times.size();
  times.forget_past();
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  const BusySeconds busy = times.busy(floats);
  for (int rank = power; rank < ranks; ++rank)
    times.receive(rank, rank - power, times.send(rank, rank - power, busy), busy);
  for (int bit = 1; bit < power; bit *= 2) {
    times.forget_past();
    for (int base = 0; base < power; base += 2 * bit)
      for (int rank = base; rank < base + bit; ++rank) {
        times.exchange(rank, rank + bit, busy, busy);
        times.finish(rank);
        times.finish(rank + bit);
      }
  }
  for (int rank = power; rank < ranks; ++rank) {
    times.receive(rank - power, rank, times.send(rank - power, rank, busy), busy);
    times.finish(rank - power);
  }
}

/// What `all_reduce` does to the clocks where it goes by messages among ranks that are alike, in the quickest way.
template <class Times>
void time_all_reduce_among_equals(Times& times, long floats) {
  LinkCost cost = times.cost();
  cost.machine = {};
  switch (AllReduceTimes(times.size(), floats, cost).quickest()) {
    case AllReduceWay::doubling:
      return time_doubling(times, floats);
    case AllReduceWay::halving:
      return time_halving(times, floats);
    case AllReduceWay::two_rings:
      return time_two_rings(times, floats);
    case AllReduceWay::ring:
    case AllReduceWay::machines:
      return time_ring(times, floats);
  }
}

/// What `broadcast` from rank 0 does to the clocks among ranks that are alike.
template <class Times>
void time_broadcast_among_equals(Times& times, long floats) {
  const int n = times.size();
  const bool in_parts = broadcasts_parts(n, floats, times.cost());
  const auto sent = [&](int to, int bit) {
    return times.busy(in_parts ? parts_of(floats, to, to + bit < n ? bit : n - to, n).count : floats);
  };
  times.forget_past();
  std::vector<double> comes(static_cast<std::size_t>(n));
  for (int rank = 0; rank < n; ++rank) {  // whoever sends to a rank stands before it
    int bit = 1;
    while (bit < n && (rank & bit) == 0) bit *= 2;
    if (rank != 0) times.receive(rank - bit, rank, comes[static_cast<std::size_t>(rank)], sent(rank, bit));
    for (bit /= 2; bit > 0; bit /= 2)
      if (rank + bit < n)
        comes[static_cast<std::size_t>(rank + bit)] = times.send(rank, rank + bit, sent(rank + bit, bit));
  }
  if (in_parts) time_all_gather(times, floats);
  times.finish();
}

}  // namespace tenet
