#include "tenet/comm/simulated_link.hpp"

#include <catch2/catch.hpp>
#include <tenet/core/random.hpp>

using namespace tenet;

TEST_CASE("a link keeps ports busy by its bandwidth, and says what a message costs", "[simulated_link]") {
  constexpr SimulatedLink link{.latency = 0.5, .bytes_per_second = 16};
  static_assert(link.busy(8) == 2);
  static_assert(link.cost().seconds == 0.5);
  static_assert(link.cost().seconds_per_float == 0.25);
}

TEST_CASE("a port takes one message after the other, each in the first gap that is long enough", "[simulated_link]") {
  detail::SimulatedPort port;
  CHECK(port.occupy(10, 2) == 10);
  CHECK(port.occupy(10, 1) == 12);  // behind it
  CHECK(port.occupy(20, 5) == 20);
  CHECK(port.occupy(11, 8) == 25);  // 13 to 20 is too short
  CHECK(port.occupy(11, 3) == 13);
  CHECK(port.occupy(0, 10) == 0);  // what was asked for last came first
  CHECK(port.occupy(0, 4) == 16);
  CHECK(port.occupy(3, 1) == 33);
  CHECK(port.occupy(50, 0) == 50);  // nothing takes no room
  CHECK(port.occupy(50, 1) == 50);
}

TEST_CASE("a port finds the same gaps whatever it has forgotten of the past", "[simulated_link]") {
  struct Message {
    double begin, end;
  };
  Random random(5);
  for (int round = 0; round < 50; ++round) {
    detail::SimulatedPort port;
    std::vector<Message> all;  // in their order
    double past = 0;
    for (int i = 0; i < 200; ++i) {
      const double earliest = past + 0.25 * random.below(80), seconds = 0.125 * (1 + random.below(6));
      double begin = earliest;
      for (const Message& other : all)
        if (other.end > earliest && other.begin < begin + seconds) begin = std::max(begin, other.end);
      CAPTURE(round, i, earliest, seconds);
      REQUIRE(port.occupy(earliest, seconds, past) == begin);
      all.push_back({begin, begin + seconds});
      std::sort(all.begin(), all.end(), [](const Message& a, const Message& b) { return a.begin < b.begin; });
      if (random.below(3) == 0) past += random.below(5);
      if (random.below(20) == 0) port.forget(past);
    }
  }
}
