#include "tenet/optim/schedule.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

TEST_CASE("a constant factor stays") {
  CHECK(ConstantLR{}({7, 10, 2}) == 1.0f);
  CHECK(ConstantLR{0.25f}({7, 10, 2}) == 0.25f);
}

TEST_CASE("steps go down every step_size epochs") {
  const StepLR schedule{.step_size = 3, .gamma = 0.5f};
  const float expected[] = {1, 1, 1, 0.5f, 0.5f, 0.5f, 0.25f, 0.25f, 0.25f, 0.125f};
  for (int epoch = 0; epoch < 10; ++epoch) CHECK(schedule({epoch * 100 + 99, 1000, epoch}) == Approx(expected[epoch]));
}

TEST_CASE("half a cosine goes from 1 to its end") {
  const CosineAnnealingLR schedule{.final = 0.2f};
  CHECK(schedule({0, 80, 0}) == Approx(1));
  CHECK(schedule({20, 80, 0}) == Approx(0.6 + 0.4 * std::sqrt(0.5)));
  CHECK(schedule({40, 80, 0}) == Approx(0.6));
  CHECK(schedule({80, 80, 0}) == Approx(0.2));
}

TEST_CASE("warm-up rises along a line to 1 before the cosine begins") {
  const CosineAnnealingLR schedule{.final = 0, .warmup_steps = 4};
  const double expected[] = {0.25, 0.5, 0.75, 1, 1};
  for (long step = 0; step < 5; ++step) CHECK(schedule({step, 24, 0}) == Approx(expected[step]));
  CHECK(schedule({14, 24, 0}) == Approx(0.5));
  CHECK(schedule({24, 24, 0}) == Approx(0).margin(1e-6));
  // A training that is shorter than the warm-up never divides by zero.
  CHECK(CosineAnnealingLR{0, 4}({3, 4, 0}) == Approx(1));
  CHECK(CosineAnnealingLR{0, 4}({4, 4, 0}) == Approx(1));
}

TEST_CASE("a line goes from start to end and stays there") {
  const LinearLR schedule{.start = 0.5f, .end = 2, .steps = 6};
  CHECK(schedule({0, 100, 0}) == Approx(0.5));
  CHECK(schedule({2, 100, 0}) == Approx(1));
  CHECK(schedule({5, 100, 0}) == Approx(1.75));
  CHECK(schedule({6, 100, 0}) == 2.0f);
  CHECK(schedule({99, 100, 0}) == 2.0f);
}
