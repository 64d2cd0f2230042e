#include "tenet/parallel/simulated_training.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

TEST_CASE("steps a second are counted while all ranks run", "[simulated_training]") {
  SimulatedSteps steps(2, 10);
  for (int step = 0; step < 10; ++step) {
    steps.end(0, step) = 1.0 * (step + 1);
    steps.end(1, step) = 4.0 * (step + 1);
  }
  CHECK(steps.rate_while_all_run(2) == Approx(1 + 0.25));
  CHECK(steps.rate(2) == Approx(1 + 0.25));
}

TEST_CASE("of a rank's devices the slowest one counts", "[simulated_training]") {
  SimulatedTraining training;
  training.replicas = 2;
  CHECK(training.slowest(1, 5) == 1);
  training.slowness = [](int device, long step) { return device == 3 && step == 5 ? 4.0 : 1.5; };
  CHECK(training.slowest(1, 5) == 4);
  CHECK(training.slowest(0, 5) == 1.5);
  CHECK(training.slowest(1, 4) == 1.5);
}

TEST_CASE("ranks in turn share a machine", "[simulated_training]") {
  SimulatedTraining training;
  training.ranks = 5;
  CHECK(training.times().machines() == nullptr);
  training.ranks_of_machine = 2;
  const RankTimes times = training.times();
  REQUIRE(times.machines() != nullptr);
  CHECK(times.machines()->count() == 3);
  CHECK(times.machines()->fewest() == 1);
  CHECK(times.machines()->machine_of(3) == 1);
  training.ranks_of_machine = 8;  // all are on one
  CHECK(training.times().machines() == nullptr);
}
