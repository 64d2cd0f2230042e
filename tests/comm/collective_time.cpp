#include "tenet/comm/collective_time.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <tenet/comm/simulated_transport.hpp>

#include "../support/message.hpp"

using namespace tenet;

namespace {

constexpr SimulatedLink links[]{{1e-5, 1.25e9}, {0, 1e9}, {1e-3, 1e9}, {1e-5, 1.25e9, true}};
constexpr long counts[]{1, 50, 1000, 10'007};

/// The time of reduce(transport, data, floats, label) with threads and numbers.
template <class Reduce>
double with_numbers(int ranks, long floats, const SimulatedLink& link, Reduce reduce) {
  return SimulatedNetwork(ranks, {.link = link}).run([&](SimulatedTransport& transport) {
    std::vector<float> data(static_cast<std::size_t>(floats));
    reduce(transport, data.data(), floats, MessageLabel{"sum", 0, 1});
  });
}

/// What `seconds_by_servers` describes.
void reduce_by_servers(SimulatedTransport& transport, int servers, float* data, long floats, MessageLabel label) {
  const int n = transport.size(), rank = transport.rank();
  for (int server = 0; server < servers; ++server) {
    const FloatRange part = part_of(floats, server, servers);
    if (server != rank) transport.send(server, data + part.first, part.count, label);
  }
  if (rank < servers) {
    const FloatRange part = part_of(floats, rank, servers);
    for (int other = 0; other < n; ++other)
      if (other != rank) transport.receive(other, part.count, label, [](const float*, long, long) {});
    for (int other = 0; other < n; ++other)
      if (other != rank) transport.send(other, data + part.first, part.count, label);
  }
  for (int server = 0; server < servers; ++server) {
    const FloatRange part = part_of(floats, server, servers);
    if (server != rank) transport.receive_into(server, data + part.first, part.count, label);
  }
}

/// check(ranks, floats, link) for many of them.
template <class Check>
void for_many(Check check) {
  for (const int ranks : {1, 2, 3, 4, 7, 8, 13, 16})
    for (const long floats : counts)
      for (const SimulatedLink& link : links) {
        CAPTURE(ranks, floats, link.latency, link.is_wire);
        check(ranks, floats, link);
      }
}

}  // namespace

TEST_CASE("the times are those of a simulated network, to the bit", "[collective_time]") {
  for_many([](int ranks, long floats, const SimulatedLink& link) {
    CHECK(seconds_by_ring(ranks, floats, link) ==
          with_numbers(ranks, floats, link, [](auto&&... arguments) { all_reduce_by_ring(arguments...); }));
    CHECK(seconds_by_two_rings(ranks, floats, link) ==
          with_numbers(ranks, floats, link, [](auto&&... arguments) { all_reduce_by_two_rings(arguments...); }));
    CHECK(seconds_by_doubling(ranks, floats, link) ==
          with_numbers(ranks, floats, link, [](auto&&... arguments) { all_reduce_by_doubling(arguments...); }));
    if (std::has_single_bit(static_cast<unsigned>(ranks)))
      CHECK(seconds_by_halving(ranks, floats, link) ==
            with_numbers(ranks, floats, link, [](auto&&... arguments) { all_reduce_by_halving(arguments...); }));
    for (const int servers : {1, 2, ranks})
      if (servers <= ranks)
        CHECK(seconds_by_servers(ranks, servers, floats, link) ==
              with_numbers(ranks, floats, link, [&](SimulatedTransport& transport, auto... arguments) {
                reduce_by_servers(transport, servers, arguments...);
              }));
  });
}

TEST_CASE("many ranks take what the formulas say", "[collective_time]") {
  constexpr int n = 2048;
  constexpr long m = 64L * 16 * n;
  constexpr SimulatedLink link{.latency = 1.0 / 1024, .bytes_per_second = 1 << 20};
  constexpr double alpha = link.latency, beta = sizeof(float) / link.bytes_per_second, floats = m;
  CHECK(seconds_by_ring(n, m, link) == 2 * (n - 1) * (alpha + floats / n * beta));
  CHECK(seconds_by_halving(n, m, link) == 2 * 11 * alpha + 2 * (n - 1.0) / n * floats * beta);
  CHECK(seconds_by_doubling(n, m, link) == 11 * (alpha + floats * beta));
  // One server takes from and gives to all, one after the other.
  CHECK(seconds_by_servers(n, 1, m, link) == 2 * (alpha + (n - 1) * floats * beta));
}

TEST_CASE("two rings move numbers in half the time, where ranks are wired", "[collective_time]") {
  constexpr long m = 2L * 16 * 12 * 64;
  constexpr SimulatedLink wires{.latency = 1.0 / 1024, .bytes_per_second = 1 << 20, .is_wire = true},
      ports{.latency = wires.latency, .bytes_per_second = wires.bytes_per_second};
  for (const int n : {3, 4, 12, 300}) {
    CAPTURE(n);
    const double waiting = 2 * (n - 1) * wires.latency, moving = seconds_by_ring(n, m, wires) - waiting;
    CHECK(seconds_by_ring(n, m, wires) == seconds_by_ring(n, m, ports));
    CHECK(seconds_by_two_rings(n, m, ports) == Approx(seconds_by_ring(n, m, ports)));
    CHECK(seconds_by_two_rings(n, m, wires) == Approx(waiting + moving / 2).epsilon(n < 100 ? 1e-9 : 0.1));
  }
  CHECK(seconds_by_two_rings(2, m, wires) == seconds_by_ring(2, m, wires));  // which is the same wire
}

TEST_CASE("two rings are taken by wires, but for a power of two ranks, whose order of sums is a tree",
          "[collective_time]") {
  const LinkCost wires{1e-6, 1e-9, 1e-9, false, true}, ports{1e-6, 1e-9, 1e-9};
  CHECK(AllReduceTimes(6, 1'000'000, wires).quickest() == AllReduceWay::two_rings);
  CHECK(AllReduceTimes(6, 1'000'000, wires).least() < AllReduceTimes(6, 1'000'000, ports).least());
  CHECK(AllReduceTimes(6, 1'000'000, ports).quickest() == AllReduceWay::ring);
  CHECK(AllReduceTimes(6, 10, wires).quickest() == AllReduceWay::doubling);
  CHECK(AllReduceTimes(8, 1'000'000, wires).quickest() == AllReduceWay::halving);
}

TEST_CASE("servers on all ranks take longer than a ring, as all ranks send to the first one at first",
          "[collective_time]") {
  constexpr SimulatedLink link{.latency = 0, .bytes_per_second = 1 << 20};
  constexpr long m = 16 * 64;
  constexpr double whole = m * sizeof(float) / link.bytes_per_second;
  for (const int n : {8, 64}) {
    CHECK(seconds_by_servers(n, n, m, link) == (3 - 4.0 / n) * whole);
    CHECK(seconds_by_ring(n, m, link) == (2 - 2.0 / n) * whole);
  }
}

TEST_CASE("numbers of ranks that cannot be are refused", "[collective_time]") {
  CHECK(message_of([] { seconds_by_halving(6, 10, {}); }) == "time_halving: ranks; expected a power of two, found 6");
  CHECK(message_of([] { seconds_by_servers(6, 7, 10, {}); }) ==
        "seconds_by_servers: servers; expected from 1 to the ranks, found 7");
}

TEST_CASE("a ring of 16,384 ranks is reckoned in less than a second", "[collective_time]") {
  constexpr int n = 16384;
  constexpr long m = 25'000'003;  // whose parts are not equally long
  const auto begin = std::chrono::steady_clock::now();
  const double seconds = seconds_by_ring(n, m, SimulatedLink{});
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 1);
  const double least = 2 * (n - 1) * SimulatedLink{}.latency + 2.0 * (n - 1) / n * SimulatedLink{}.busy(m);
  CHECK(seconds > least);
  CHECK(seconds < least + 2 * (n - 1) * SimulatedLink{}.busy(16));
}
