#include "tenet/comm/timed_collectives.hpp"

#include <catch2/catch.hpp>
#include <tenet/comm/machine_times.hpp>
#include <tenet/comm/simulated_transport.hpp>
#include <tenet/core/random.hpp>

#include "../support/message.hpp"

using namespace tenet;

namespace {

enum class Call { ring, halving, doubling, quickest, broadcast, scatter, gather };

/// What ranks do one after the other: each computes for a time of its own, then all of them do the same.
struct Act {
  Call call;
  long floats;
  std::vector<double> computes;
};

std::vector<Act> random_acts(int ranks, int count, std::uint64_t seed) {
  Random random(seed);
  std::vector<Act> acts;
  for (int i = 0; i < count; ++i) {
    Act act{static_cast<Call>(random.below(7)), 1 + static_cast<long>(random.below(i % 2 == 0 ? 60 : 20'000)), {}};
    if (act.call == Call::halving && !std::has_single_bit(static_cast<unsigned>(ranks))) act.call = Call::ring;
    // Some are late by much more than a collective takes.
    for (int rank = 0; rank < ranks; ++rank)
      act.computes.push_back(random.below(4) == 0 ? static_cast<double>(random.uniform(0, 1e-3f)) : 0.0);
    acts.push_back(act);
  }
  return acts;
}

/// The ranks' clocks behind all of it, with threads and numbers.
std::vector<double> with_numbers(int ranks, const SimulatedLink& link, const std::vector<Act>& acts) {
  SimulatedNetwork network(ranks, {.link = link});
  network.run([&](SimulatedTransport& transport) {
    for (const Act& act : acts) {
      transport.compute(act.computes[static_cast<std::size_t>(transport.rank())]);
      std::vector<float> data(static_cast<std::size_t>(act.floats));
      const MessageLabel label{"sum", 0, 1};
      switch (act.call) {
        case Call::ring:
          all_reduce_by_ring(transport, data.data(), act.floats, label);
          break;
        case Call::halving:
          all_reduce_by_halving(transport, data.data(), act.floats, label);
          break;
        case Call::doubling:
          all_reduce_by_doubling(transport, data.data(), act.floats, label);
          break;
        case Call::quickest:
          all_reduce(transport, data.data(), act.floats, label);
          break;
        case Call::broadcast:
          broadcast(transport, 0, data.data(), act.floats, label);
          break;
        case Call::scatter:
          reduce_scatter(transport, data.data(), act.floats, label);
          transport.finish();  // its memory ends here
          break;
        case Call::gather:
          all_gather(transport, data.data(), act.floats, label);
          transport.finish();
          break;
      }
    }
  });
  std::vector<double> clocks;
  for (int rank = 0; rank < ranks; ++rank) clocks.push_back(network.ended(rank));
  return clocks;
}

void time(RankTimes& times, const Act& act) {
  for (int rank = 0; rank < times.size(); ++rank) times.compute(rank, act.computes[static_cast<std::size_t>(rank)]);
  switch (act.call) {
    case Call::ring:
      return time_ring(times, act.floats);
    case Call::halving:
      return time_halving(times, act.floats);
    case Call::doubling:
      return time_doubling(times, act.floats);
    case Call::quickest:
      return time_all_reduce(times, act.floats);
    case Call::broadcast:
      return time_broadcast(times, act.floats);
    case Call::scatter:
      time_reduce_scatter(times, act.floats);
      return times.finish();
    case Call::gather:
      time_all_gather(times, act.floats);
      return times.finish();
  }
}

}  // namespace

TEST_CASE("after many collectives each rank's clock is that of a simulated network, to the bit",
          "[timed_collectives]") {
  for (const int ranks : {1, 2, 3, 4, 6, 8, 13})
    for (const SimulatedLink link : {SimulatedLink{1e-5, 1.25e9}, SimulatedLink{0, 1e9}, SimulatedLink{1e-4, 1e8}})
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        CAPTURE(ranks, link.latency, seed);
        const std::vector<Act> acts = random_acts(ranks, 12, seed);
        RankTimes times(ranks, link);
        for (const Act& act : acts) time(times, act);
        std::vector<double> clocks;
        for (int rank = 0; rank < ranks; ++rank) clocks.push_back(times.clock(rank));
        CHECK(clocks == with_numbers(ranks, link, acts));
      }
}

TEST_CASE("the longest part is the longest of all", "[timed_collectives]") {
  for (int parts = 1; parts <= 40; ++parts)
    for (long floats = 0; floats < 1500; floats += floats < 100 ? 1 : 7) {
      long longest = 0;
      for (int part = 0; part < parts; ++part) longest = std::max(longest, part_of(floats, part, parts).count);
      if (detail::longest_part(floats, parts) != longest) FAIL_CHECK(floats << " numbers, " << parts << " parts");
    }
}

TEST_CASE("a ring ends when its longest parts do, to the bit", "[timed_collectives]") {
  Random random(7);
  for (const int ranks : {2, 5, 16, 100, 255})
    for (int i = 0; i < 20; ++i) {
      const long floats = 1 + static_cast<long>(random.below(i % 2 == 0 ? 300 : 100'000));
      const SimulatedLink link{i % 3 == 0 ? 0.0 : 1e-6 * static_cast<double>(random.below(20)), 1e9};
      CAPTURE(ranks, floats, link.latency);
      RankTimes times(ranks, link);
      time_ring(times, floats);
      CHECK(times.last() == detail::ring_ends(0, 2 * (ranks - 1), ranks, floats, link));
    }
}

TEST_CASE("ranks that begin at different times end a ring between the bounds of its longest and shortest parts",
          "[timed_collectives]") {
  constexpr int ranks = 200;
  const SimulatedLink link{1e-6, 1e9};
  Random random(3);
  for (const long floats : {1L, 3000L, 100'000L}) {
    RankTimes times(ranks, link);
    for (int rank = 0; rank < ranks; ++rank) times.compute(rank, static_cast<double>(random.uniform(0, 1e-2f)));
    const double begin = times.last(), bound = detail::ring_ends(begin, 2 * (ranks - 1), ranks, floats, link);
    time_ring(times, floats);
    CHECK(times.last() <= bound);
    CHECK(times.last() >= bound - 2 * (ranks - 1) * link.busy(16));
  }
}

TEST_CASE("rings of more ranks take as long as their bound says", "[timed_collectives]") {
  constexpr int ranks = most_in_exact_ring + 1;
  constexpr SimulatedLink link{};
  RankTimes times(ranks, link);
  times.compute(5, 1e-3);
  time_ring(times, 1'000'000);
  for (int rank = 0; rank < ranks; ++rank)
    CHECK(times.clock(rank) == detail::ring_ends(1e-3, 2 * (ranks - 1), ranks, 1'000'000, link));
}
