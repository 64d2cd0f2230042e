#include "tenet/comm/rank_times.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

namespace {

constexpr double latency = 1e-3, busy_seconds = 4e-2;
constexpr SimulatedLink ethernet{latency, 1e8};
constexpr SimulatedLink wire{latency, 1e8, true};
constexpr SimulatedLink memory{1e-6, 1e9};
constexpr long floats = 1'000'000;  // which take 4e-2 s between machines, and 4e-3 inside

}  // namespace

TEST_CASE("a rank's messages leave one after the other, and each comes a latency later", "[rank_times]") {
  RankTimes times(3, ethernet);
  const BusySeconds busy = times.busy(floats);
  CHECK(busy.between == Approx(busy_seconds));
  times.compute(0, 1);
  CHECK(times.send(0, 1, busy) == Approx(1 + latency));
  CHECK(times.send(0, 2, busy) == Approx(1 + busy_seconds + latency));
  CHECK(times.clock(0) == 1);  // it does not wait for what it has sent
  times.receive(0, 2, 1 + busy_seconds + latency, busy);
  CHECK(times.clock(2) == Approx(1 + 2 * busy_seconds + latency));
  CHECK(times.clock(1) == 0);
  CHECK(times.last() == times.clock(2));
  times.finish(0);
  CHECK(times.clock(0) == times.clock(2));
  times.wait(0, 1);  // that is over
  CHECK(times.clock(0) == times.clock(2));
}

TEST_CASE("a port receives one message at a time, and wires all at once", "[rank_times]") {
  for (const SimulatedLink& link : {ethernet, wire}) {
    CAPTURE(link.is_wire);
    RankTimes times(3, link);
    const BusySeconds busy = times.busy(floats);
    for (const int from : {0, 1}) times.receive(from, 2, times.send(from, 2, busy), busy);
    CHECK(times.clock(2) == Approx(latency + (link.is_wire ? 1 : 2) * busy_seconds));
    // Wires are one for each two ranks: what goes to others leaves at once.
    CHECK(times.send(0, 1, busy) == Approx(link.is_wire ? latency : latency + busy_seconds));
  }
}

TEST_CASE("two ranks exchange messages at once", "[rank_times]") {
  RankTimes times(2, ethernet);
  times.compute(1, 0.5);
  times.exchange(0, 1, times.busy(floats), times.busy(2 * floats));
  CHECK(times.clock(0) == Approx(0.5 + latency + 2 * busy_seconds));  // what rank 1 has sent
  CHECK(times.clock(1) == Approx(0.5));                               // what has come meanwhile
}

TEST_CASE("messages inside of a machine take its links, beside those to others", "[rank_times]") {
  RankTimes times({7, 7, 3}, ethernet, memory);
  CHECK(times.machines()->count() == 2);
  CHECK(times.cost().machine.count == 2);
  const BusySeconds busy = times.busy(floats);
  times.receive(0, 1, times.send(0, 1, busy), busy);
  CHECK(times.clock(1) == Approx(memory.latency + busy.inside));
  CHECK(busy.inside == Approx(busy_seconds / 10));
  times.receive(1, 2, times.send(1, 2, busy), busy);
  CHECK(times.clock(2) == Approx(times.clock(1) + latency + busy_seconds));
  CHECK(&times.link_between(0, 1) == &times.link_inside());
  CHECK(&times.link_between(1, 2) == &times.link());
  // One machine: all links are its own.
  RankTimes one({7, 7}, ethernet, memory);
  CHECK(one.machines() == nullptr);
  CHECK(one.link().latency == memory.latency);
}

TEST_CASE("a group's ranks have numbers of their own, and the clocks of all", "[rank_times]") {
  RankTimes times(4, ethernet);
  const std::vector<int> ranks{3, 1};
  RankTimesOfGroup group(times, ranks, times.link());
  const BusySeconds busy = group.busy(floats);
  CHECK(group.size() == 2);
  times.compute(0, 5);
  group.wait(0, 1);
  group.receive(0, 1, group.send(0, 1, busy), busy);
  CHECK(times.clock(3) == 1);
  CHECK(times.clock(1) == Approx(1 + latency + busy_seconds));
  CHECK(group.last() == times.clock(1));  // rank 0 is none of them
  group.finish();
  CHECK(times.clock(3) == times.clock(1));
  CHECK(times.clock(2) == 0);
}
