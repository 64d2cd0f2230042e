#pragma once

#include <bit>
#include <tenet/comm/collectives.hpp>
#include <tenet/comm/simulated_link.hpp>

/// What collectives take on many ranks: their schedules are run message by message, without the numbers and without
/// threads. The model is that of a `SimulatedNetwork` whose links are all alike and whose ranks begin at once, and so
/// are the times, to the bit.
namespace tenet {

namespace detail {

/// The clocks and ports of ranks.
class RankTimes {
 public:
  RankTimes(int ranks, const SimulatedLink& link) : latency_(link.latency), ranks_(static_cast<std::size_t>(ranks)) {}

  /// Sends a message that keeps ports busy for so many seconds; returns when its beginning comes.
  double send(int from, double busy) {
    Rank& rank = ranks_[static_cast<std::size_t>(from)];
    const double leaves = std::max(rank.clock, rank.sends_until);
    rank.sends_until = leaves + busy;
    return leaves + latency_;
  }
  /// Returns when the message is there.
  double receive(int to, double comes, double busy) {
    Rank& rank = ranks_[static_cast<std::size_t>(to)];
    const double there = rank.receiving.occupy(comes, busy) + busy;
    wait(to, there);
    return there;
  }
  void wait(int rank, double until) {
    double& clock = ranks_[static_cast<std::size_t>(rank)].clock;
    clock = std::max(clock, until);
  }
  double last() const {
    double result = 0;
    for (const Rank& rank : ranks_) result = std::max(result, rank.clock);
    return result;
  }

 private:
  struct Rank {
    double clock = 0, sends_until = 0;
    SimulatedPort receiving{};
  };
  double latency_;
  std::vector<Rank> ranks_;
};

}  // namespace detail

/// Seconds that `all_reduce_by_ring` takes. For n ranks it looks at 2n(n-1) messages: for 16,384 in about a second.
inline double seconds_by_ring(int ranks, long floats, const SimulatedLink& link) {
  const auto n = static_cast<std::size_t>(ranks);
  // Only what is received moves a rank's clock, so that it is the time until which its port receives. Few bytes a rank,
  // as each of them is seen in each of 2(n-1) rounds.
  struct Rank {
    double received = 0, sent = 0;
    double send(double busy) {
      const double leaves = received < sent ? sent : received;
      sent = leaves + busy;
      return leaves;
    }
    void receive(double comes, double busy) { received = (comes < received ? received : comes) + busy; }
  };
  const double latency = link.latency;
  std::vector<Rank> all(n);
  std::vector<double> busy(2 * n);  // for each part; twice, so that none is beyond the end
  for (int part = 0; part < 2 * ranks; ++part)
    busy[static_cast<std::size_t>(part)] = link.busy(part_of(floats, part % ranks, ranks).count);
  const auto round = [&](int step) {
    const double* const sent = &busy[static_cast<std::size_t>(ranks - step)];  // by rank
    double leaves = all[n - 1].send(sent[n - 1]), length = sent[n - 1];
    for (std::size_t rank = 0; rank + 1 < n; ++rank) {  // each sends before it receives
      const double next = all[rank].send(sent[rank]);
      all[rank].receive(leaves + latency, length);
      leaves = next;
      length = sent[rank];
    }
    all[n - 1].receive(leaves + latency, length);
  };
  for (int step = 1; step < ranks; ++step) round(step);
  for (int step = 0; step + 1 < ranks; ++step) round(step);
  double last = 0;
  for (const Rank& rank : all) last = std::max(last, rank.received);
  return last;
}

/// Seconds that `all_reduce_by_halving` takes; ranks are a power of two.
inline double seconds_by_halving(int ranks, long floats, const SimulatedLink& link) {
  if (ranks < 1 || !std::has_single_bit(static_cast<unsigned>(ranks)))
    fail("seconds_by_halving", "ranks", "a power of two", long{ranks});
  detail::RankTimes times(ranks, link);
  const auto n = static_cast<std::size_t>(ranks);
  const int rounds = std::countr_zero(static_cast<unsigned>(ranks));
  // What a rank keeps, and so receives, in each round; it gives what the other one keeps.
  std::vector<std::vector<double>> kept(static_cast<std::size_t>(rounds), std::vector<double>(n));
  std::vector<long> own(n, floats);
  for (int round = 0; round < rounds; ++round)
    for (std::size_t rank = 0; rank < n; ++rank) {
      const long lower = own[rank] >= 32 ? own[rank] / 32 * 16 : own[rank] / 2;
      own[rank] = (rank >> round & 1) == 0 ? lower : own[rank] - lower;
      kept[static_cast<std::size_t>(round)][rank] = link.busy(own[rank]);
    }
  std::vector<double> comes(n);
  const auto exchange = [&](int round, bool gives) {
    const std::vector<double>& seconds = kept[static_cast<std::size_t>(round)];
    const auto sent = [&](int rank) { return seconds[static_cast<std::size_t>(gives ? rank ^ 1 << round : rank)]; };
    for (int rank = 0; rank < ranks; ++rank) comes[static_cast<std::size_t>(rank)] = times.send(rank, sent(rank));
    for (int rank = 0; rank < ranks; ++rank) {
      const int peer = rank ^ 1 << round;
      times.receive(rank, comes[static_cast<std::size_t>(peer)], sent(peer));
    }
  };
  for (int round = 0; round < rounds; ++round) exchange(round, true);
  for (int round = rounds; round-- > 0;) exchange(round, false);
  return times.last();
}

/// Seconds that `all_reduce_by_doubling` takes.
inline double seconds_by_doubling(int ranks, long floats, const SimulatedLink& link) {
  detail::RankTimes times(ranks, link);
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  const double busy = link.busy(floats);
  std::vector<double> comes(static_cast<std::size_t>(ranks));
  for (int rank = power; rank < ranks; ++rank) times.receive(rank - power, times.send(rank, busy), busy);
  for (int bit = 1; bit < power; bit *= 2) {
    for (int rank = 0; rank < power; ++rank) comes[static_cast<std::size_t>(rank)] = times.send(rank, busy);
    for (int rank = 0; rank < power; ++rank)
      times.wait(rank ^ bit, times.receive(rank, comes[static_cast<std::size_t>(rank ^ bit)], busy));
  }
  for (int rank = power; rank < ranks; ++rank)
    times.wait(rank - power, times.receive(rank, times.send(rank - power, busy), busy));
  return times.last();
}

/// Seconds of a step by parameter servers, which are the first `servers` ranks: each rank sends server s part s of its
/// numbers, in the order of servers; a server that has all of them sends the sum to all. For n ranks it looks at
/// 2n · servers messages, half of them at a time in memory.
inline double seconds_by_servers(int ranks, int servers, long floats, const SimulatedLink& link) {
  if (servers < 1 || servers > ranks) fail("seconds_by_servers", "servers", "from 1 to the ranks", long{servers});
  detail::RankTimes times(ranks, link);
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<double> messages(n * static_cast<std::size_t>(servers));  // when they come
  // call(another rank, the time of its message, for how long that keeps ports busy)
  const auto for_each_message = [&](int server, auto call) {
    const double busy = link.busy(part_of(floats, server, servers).count);
    double* const comes = &messages[static_cast<std::size_t>(server) * n];
    for (int rank = 0; rank < ranks; ++rank)
      if (rank != server) call(rank, comes[rank], busy);
  };
  for (int server = 0; server < servers; ++server)
    for_each_message(server, [&](int rank, double& comes, double busy) { comes = times.send(rank, busy); });
  for (int server = 0; server < servers; ++server) {
    for_each_message(server, [&](int, double comes, double busy) { times.receive(server, comes, busy); });
    for_each_message(server, [&](int, double& comes, double busy) { comes = times.send(server, busy); });
  }
  for (int server = 0; server < servers; ++server)
    for_each_message(server, [&](int rank, double comes, double busy) { times.receive(rank, comes, busy); });
  return times.last();
}

}  // namespace tenet
