#include "tenet/core/host_device.hpp"

#include <catch2/catch.hpp>

namespace {
TENET_HOST_DEVICE constexpr int twice(int x) { return 2 * x; }
}  // namespace

TEST_CASE("functions of host and device are plain functions to a compiler of the host", "[core][host_device]") {
  static_assert(twice(4) == 8);
  CHECK(twice(3) == 6);
}
