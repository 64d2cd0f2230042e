#include "tenet/core/random.hpp"

#include <catch2/catch.hpp>
#include <cmath>

using tenet::philox;
using tenet::Random;

namespace {

// Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
using Words = std::array<std::uint32_t, 4>;
static_assert(philox(0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox(~std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0}) ==
              Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox(0x85a308d3243f6a88, 0x299f31d0a4093822, 0x0370734413198a2e) ==
              Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

static_assert(Random(0).next() == 0x6627e8d5);

}  // namespace

TEST_CASE("a seed and a stream determine the numbers", "[random]") {
  Random a(7), b(7), c(8), d(7, 1);
  int equal_seed = 0, equal_stream = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto x = a.next();
    CHECK(x == b.next());
    equal_seed += x == c.next();
    equal_stream += x == d.next();
  }
  CHECK(equal_seed < 3);
  CHECK(equal_stream < 3);
}

TEST_CASE("uniform numbers fill their interval evenly", "[random]") {
  Random random(1);
  const int count = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) {
    const float x = random.uniform();
    if (!(x >= 0 && x < 1)) FAIL(x);
    sum += x;
    squares += static_cast<double>(x) * x;
  }
  CHECK(sum / count == Approx(0.5).margin(0.005));
  CHECK(squares / count == Approx(1.0 / 3).margin(0.005));
  for (int i = 0; i < 1000; ++i) {
    const float x = random.uniform(1, std::nextafter(1.0f, 2.0f));
    if (x != 1) FAIL(x);  // the upper end is never reached, even by rounding
  }
  CHECK(tenet::unit_float(0xffffffff) < 1);
  CHECK(tenet::unit_float(0) == 0);
}

TEST_CASE("normal numbers have mean 0, variance 1 and normal tails", "[random]") {
  Random random(2);
  const int count = 200000;
  double sum = 0, squares = 0, fourth = 0;
  int beyond_two = 0;
  for (int i = 0; i < count; ++i) {
    const double x = random.normal();
    if (!std::isfinite(x)) FAIL(x);
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    beyond_two += std::fabs(x) > 2;
  }
  CHECK(sum / count == Approx(0).margin(0.01));
  CHECK(squares / count == Approx(1).margin(0.015));
  CHECK(fourth / count == Approx(3).margin(0.1));
  CHECK(static_cast<double>(beyond_two) / count == Approx(0.0455).margin(0.002));
}

TEST_CASE("integers below a bound are even over it", "[random]") {
  Random random(3);
  int counts[7] = {};
  for (int i = 0; i < 70000; ++i) {
    const auto x = random.below(7);
    if (x >= 7) FAIL(x);
    ++counts[x];
  }
  for (int count : counts) CHECK(count == Approx(10000).margin(400));
  CHECK(random.below(1) == 0);
  CHECK(random.below(0) == 0);
  // For a bound of 3 * 2^30 taking the remainder of a word would make the first 2^30 values twice as frequent.
  int low = 0;
  for (int i = 0; i < 30000; ++i) low += random.below(3u << 30) < (1u << 30);
  CHECK(low == Approx(10000).margin(400));
}
