#include "tenet/parallel/simulated_turns.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

namespace {

/// Two devices: step 0 on the first one, steps 1 and 2 on the second one, of which 2 waits for 0.
SimulatedTurns two_devices() {
  return {.of = {{{{0, 0, 0}}, {}}, {{{1, 0, 0}, {2, 0, 1}}, {{0, 0}}}},
          .seconds = {{5, 0, 0}, {0, 1, 2}},
          .waiting = 0.25,
          .meeting = 0.5};
}

}  // namespace

TEST_CASE("devices that share a program take as long as the last of them", "[simulated_turns]") {
  const SimulatedSteps steps = simulate(two_devices(), 3);
  CHECK(steps.ranks() == 1);
  for (int step = 0; step < 3; ++step) CHECK(steps.end(0, step) == Approx((step + 1) * (5 + 0.25 + 2 + 0.5)));
  CHECK(steps.computing == Approx(3 * (5 + 1 + 2) / 2.0));
  CHECK(steps.communicating == 0);
}

TEST_CASE("a slow device holds up the others where they wait for it", "[simulated_turns]") {
  SimulatedTurns turns = two_devices();
  turns.slowness = [](int device, long step) { return step == 1 && device == 1 ? 10.0 : 1.0; };
  const SimulatedSteps steps = simulate(turns, 3);
  const double usual = 5 + 0.25 + 2 + 0.5;
  CHECK(steps.end(0, 0) == Approx(usual));
  CHECK(steps.end(0, 1) - steps.end(0, 0) == Approx(10 + 20 + 0.5));  // its own steps are the longer ones now
  CHECK(steps.end(0, 2) - steps.end(0, 1) == Approx(usual));
}
