#include "tenet/ops/region.hpp"

#include <catch2/catch.hpp>

#include "tenet/ops/operation.hpp"

using namespace tenet;

namespace {
// A wiring is a template argument, so it has to be a structural type, equal where every number is.
template <Wiring wiring>
struct Uses {
  static constexpr int operations = wiring.operations;
};
constexpr Wiring one{.operations = 1, .inputs = 2, .outputs = 1, .source = {{0, 1, 0, 0}}};
constexpr Wiring same{.operations = 1, .inputs = 2, .outputs = 1, .source = {{0, 1, 0, 0}}};
constexpr Wiring swapped{.operations = 1, .inputs = 2, .outputs = 1, .source = {{1, 0, 0, 0}}};
static_assert(std::is_same_v<Uses<one>, Uses<same>> && !std::is_same_v<Uses<one>, Uses<swapped>>);
static_assert(Uses<one>::operations == 1);
static_assert(max_region_inputs < 128 && max_region_operations < 128, "indices are signed chars");
static_assert(max_operands == 4, "Wiring::source has four places an operation");
}  // namespace

TEST_CASE("wirings that differ in one place are not equal") {
  CHECK(one == same);
  CHECK_FALSE(one == swapped);
  Wiring uniform = one;
  uniform.uniform[1] = true;
  CHECK_FALSE(one == uniform);
}
