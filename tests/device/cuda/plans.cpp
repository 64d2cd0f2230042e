#include "tenet/device/cuda/plans.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <stdexcept>

TEST_CASE("a plan is made once a key, and again if that has failed", "[cuda][plans]") {
  struct Plan {
    int number = 0;
  };
  tenet::gpu::Plans<std::array<int, 2>, Plan> plans;
  int made = 0;
  const auto make = [&](Plan& plan) { plan.number = ++made; };
  CHECK(plans.get({1, 2}, make).number == 1);
  CHECK(plans.get({2, 1}, make).number == 2);
  const Plan& again = plans.get({1, 2}, make);
  CHECK(again.number == 1);
  CHECK_THROWS_AS(plans.get({3, 3}, [](Plan&) { throw std::runtime_error("no algorithm"); }), std::runtime_error);
  CHECK(plans.get({3, 3}, make).number == 3);
  CHECK(&plans.get({1, 2}, make) == &again);  // plans stay where they are
  plans.clear();
  CHECK(plans.get({1, 2}, make).number == 4);
}
