#include <catch2/catch.hpp>
#include <initializer_list>

#include "tenet/device/cuda/index.hpp"

TEST_CASE("indices are divided above and below 2^31 alike", "[cuda][index]") {
  for (const long i : {0L, 1L, 6L, 7L, 0x7fffffffL, 0x80000000L, 0xffffffffL, 0x100000000L, 123456789012345L})
    for (const long by : {1L, 2L, 7L, 0x7fffffffL, 0x80000000L, 0x100000001L}) {
      const tenet::gpu::detail::Divided result = tenet::gpu::detail::divided(i, by);
      CAPTURE(i, by);
      CHECK(result.quotient == i / by);
      CHECK(result.rest == i % by);
    }
}
