#pragma once

#include <tenet/comm/timed_collectives.hpp>

/// What collectives take on many ranks which begin at once. Times are those of a `SimulatedNetwork`, to the bit.
namespace tenet {

/// Seconds that `all_reduce_by_ring` takes. It looks at 2(n-1) rounds, for any number of ranks in less than a second.
inline double seconds_by_ring(int ranks, long floats, const SimulatedLink& link) {
  return detail::ring_ends(0, 2 * (ranks - 1), ranks, floats, link);
}

/// Seconds that `all_reduce_by_two_rings` takes; between more than 256 ranks without wires those of a ring.
inline double seconds_by_two_rings(int ranks, long floats, const SimulatedLink& link) {
  RankTimes times(ranks, link);
  time_two_rings(times, floats);
  return times.last();
}

/// Seconds that `all_reduce_by_halving` takes; ranks are a power of two.
inline double seconds_by_halving(int ranks, long floats, const SimulatedLink& link) {
  RankTimes times(ranks, link);
  time_halving(times, floats);
  return times.last();
}

/// Seconds that `all_reduce_by_doubling` takes.
inline double seconds_by_doubling(int ranks, long floats, const SimulatedLink& link) {
  RankTimes times(ranks, link);
  time_doubling(times, floats);
  return times.last();
}

/// Seconds of a step by parameter servers, which are the first `servers` ranks: each rank sends server s part s of its
/// numbers, in the order of servers; a server that has all of them sends the sum to all. For n ranks it looks at
/// 2n · servers messages, half of them at a time in memory.
inline double seconds_by_servers(int ranks, int servers, long floats, const SimulatedLink& link) {
  if (servers < 1 || servers > ranks) fail("seconds_by_servers", "servers", "from 1 to the ranks", long{servers});
  RankTimes times(ranks, link);
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<double> messages(n * static_cast<std::size_t>(servers));  // when they come
  // call(another rank, the time of its message, for how long that keeps ports busy)
  const auto for_each_message = [&](int server, auto call) {
    const BusySeconds busy = times.busy(part_of(floats, server, servers).count);
    double* const comes = &messages[static_cast<std::size_t>(server) * n];
    for (int rank = 0; rank < ranks; ++rank)
      if (rank != server) call(rank, comes[rank], busy);
  };
  for (int server = 0; server < servers; ++server)
    for_each_message(server,
                     [&](int rank, double& comes, const BusySeconds& busy) { comes = times.send(rank, server, busy); });
  for (int server = 0; server < servers; ++server) {
    for_each_message(
        server, [&](int rank, double comes, const BusySeconds& busy) { times.receive(rank, server, comes, busy); });
    for_each_message(server,
                     [&](int rank, double& comes, const BusySeconds& busy) { comes = times.send(server, rank, busy); });
  }
  for (int server = 0; server < servers; ++server)
    for_each_message(
        server, [&](int rank, double comes, const BusySeconds& busy) { times.receive(server, rank, comes, busy); });
  return times.last();
}

}  // namespace tenet
