#include "tenet/parallel/simulated_updates.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

TEST_CASE("whoever is free takes the next update, and a step ends with the last one", "[simulated_updates]") {
  // Five updates of 2 s on two devices, the last of 1 s: one device has three of them.
  SimulatedUpdates given{.replicas = 2, .updates = 5, .seconds = 2, .last = 1, .meeting = 0.25, .behind = 0.5};
  const SimulatedSteps steps = simulate(given, 2);
  CHECK(steps.end(0, 0) == Approx(2 + 2 + 1 + 0.25 + 0.5));
  CHECK(steps.end(0, 1) == Approx(2 * steps.end(0, 0)));
  CHECK(steps.computing == Approx(2 * (4 * 2 + 1 + 0.5) / 2));
  CHECK(steps.communicating == 0);
  // One that takes three times as long takes fewer of them: at 2 and 4 the other one is free.
  given.slowness = [](int device, long) { return device == 1 ? 3.0 : 1.0; };
  CHECK(simulate(given, 1).end(0, 0) == Approx(7 + 0.75));  // 2, 4, 6 and 7 there, 6 here
  // Each device's first one in each step takes longer: 2.25, 4.25, 6.25 and 7.25 there, 6.75 here.
  given.first = 0.25;
  CHECK(simulate(given, 1).end(0, 0) == Approx(7.25 + 0.75));
  CHECK(simulate(given, 2).end(0, 1) == Approx(2 * 8.0));
  CHECK(simulate(given, 2).computing == Approx(2 * (7 + 6 + 0.25 + 0.75 + 0.5) / 2));
}

TEST_CASE("ranks that update without waiting do not wait for a slow one", "[simulated_updates]") {
  SimulatedUpdates given{.ranks = 3, .updates = 4, .seconds = 1, .last = 1};
  given.slowness = [](int device, long) { return device == 1 ? 5.0 : 1.0; };
  const SimulatedSteps steps = simulate(given, 10);
  CHECK(steps.end(0, 9) == Approx(40));
  CHECK(steps.end(1, 9) == Approx(200));
  CHECK(steps.end(2, 9) == Approx(40));
  CHECK(steps.rate_while_all_run(2) == Approx(2 / 4.0 + 1 / 20.0));
}
