#include "tenet/core/link_cost.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

TEST_CASE("costs of links differ where those inside of machines do") {
  const LinkCost between{.seconds = 2e-5, .machine = {.count = 2, .fewest = 1, .most = 2}};
  LinkCost other = between;
  CHECK(other == between);
  other.machine.keeps_tree = true;
  CHECK_FALSE(other == between);
  other = between;
  other.is_wire = true;
  CHECK_FALSE(other == between);
}
