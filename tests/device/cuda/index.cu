#include <catch2/catch.hpp>
#include <initializer_list>

#include "tenet/device/cuda/index.hpp"

using tenet::gpu::detail::Divided, tenet::gpu::detail::divided, tenet::gpu::detail::Divisor;

TEST_CASE("indices are divided above and below 2^31 alike", "[cuda][index]") {
  for (const long i : {0L, 1L, 6L, 7L, 0x7fffffffL, 0x80000000L, 0xffffffffL, 0x100000000L, 123456789012345L})
    for (const long by : {1L, 2L, 7L, 0x7fffffffL, 0x80000000L, 0x100000001L}) {
      const Divided result = divided(i, by);
      CAPTURE(i, by);
      CHECK(result.quotient == i / by);
      CHECK(result.rest == i % by);
    }
}

namespace {

/// How many of these indices a divisor divides wrongly.
long wrong(long by, std::initializer_list<long> indices) {
  const Divisor divisor(by);
  long count = 0;
  for (const long i : indices) {
    const Divided found = divided(i, divisor);
    count += found.quotient != i / by || found.rest != i % by;
  }
  return count;
}
/// Around multiples of the number, small ones and the largest.
long wrong(long by) {
  constexpr long last = (1l << 62) - 1;
  const long multiple = last / by * by;
  return wrong(by, {0, 1, by - 1, by, by + 1, 7 * by - 1, 7 * by, multiple - 1, multiple, last - 1, last, 1l << 31,
                    123456789012345});
}

}  // namespace

TEST_CASE("a divisor divides as a division does", "[cuda][index]") {
  long count = 0;
  for (long by = 1; by < 70'000; ++by) count += wrong(by);
  for (int power = 16; power < 61; ++power)
    for (long near = -3; near <= 3; ++near) count += wrong((1l << power) + near);
  for (long by = 70'001; by < 1l << 55; by = by / 100 * 101) count += wrong(by);
  CHECK(count == 0);
  CHECK(Divisor().by == 0);
}
