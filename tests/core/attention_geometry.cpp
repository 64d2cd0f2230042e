#include "tenet/core/attention_geometry.hpp"

#include <catch2/catch.hpp>

namespace {

constexpr tenet::AttentionGeometry::Steps steps{100, 20, 4};
static_assert(steps.at(0, 0) == 0 && steps.at(2, 3) == 260);

constexpr tenet::AttentionGeometry geometry(bool causal) {
  return {2, 5, 7, 4, causal, 0.5f, steps, steps, steps, steps, steps, steps, steps};
}
static_assert(geometry(false).flops() == 4.0 * 2 * 5 * 7 * 4);

}  // namespace

TEST_CASE("queries see all keys, or those up to their own place", "[geometry]") {
  for (int end = 1; end <= 5; ++end) {
    CHECK(geometry(false).seen(end) == 7);
    CHECK(geometry(true).seen(end) == end);
  }
  CHECK(geometry(true).seen(9) == 7);
}
