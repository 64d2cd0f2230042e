#include "tenet/core/bfloat16.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tenet/core/random.hpp"

using tenet::bfloat16;
using tenet::vector_width;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

float of_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
bfloat16 from_bits(std::uint32_t bits) {
  bfloat16 value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

/// The nearest of the two neighbours, the even one of two that are as near, by arithmetic.
float nearest(float value) {
  if (std::isinf(value)) return value;
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const float toward_zero = of_bits(bits & 0xffff0000), away = of_bits((bits & 0xffff0000) + 0x10000);
  // Beyond the largest number stands what the next one would be.
  const double next = std::isinf(away) ? std::copysign(std::ldexp(1.0, 128), value) : static_cast<double>(away);
  const double below = std::fabs(static_cast<double>(value) - toward_zero), above = std::fabs(next - value);
  if (below != above) return below < above ? toward_zero : away;
  return (bits & 0x10000) == 0 ? toward_zero : away;
}

/// Numbers of all sizes, ties among them.
std::vector<float> samples() {
  std::vector<float> values{0,      -0.0f,   1,    -1, infinity, -infinity, std::numeric_limits<float>::max(),
                            1e-40f, -1e-45f, 3.14f};
  for (const std::uint32_t high : {0x3f80u, 0x3f81u, 0xbf80u, 0x0001u, 0x7f7fu, 0x0080u, 0xc2f7u})
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(of_bits(high << 16 | low));
  tenet::Random random(3, 1);
  for (int i = 0; i < 3000; ++i)
    values.push_back(std::ldexp(random.uniform(-1, 1), static_cast<int>(random.uniform(-140, 127))));
  while (values.size() % vector_width != 0) values.push_back(2);
  return values;
}

static_assert(static_cast<float>(bfloat16(1.0f)) == 1 && static_cast<float>(bfloat16(-3.5f)) == -3.5f);
static_assert(bfloat16(1.00390625f).bits == 0x3f80);  // 1 + 1/256 lies halfway: the even neighbour
static_assert(bfloat16(1.01171875f).bits == 0x3f82);

}  // namespace

TEST_CASE("storing rounds to the nearest, ties to even", "[bfloat16]") {
  for (const float value : samples()) {
    CAPTURE(value);
    const float found = bfloat16(value), expected = nearest(value);
    CHECK(found == expected);
    CHECK(std::signbit(found) == std::signbit(expected));
  }
}

TEST_CASE("what has been stored once is kept", "[bfloat16]") {
  int numbers = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = from_bits(bits);
    if (std::isnan(value)) {
      CHECK(std::isnan(static_cast<float>(bfloat16(value))));
    } else {
      numbers += bfloat16(value).bits == bits;
    }
  }
  CHECK(numbers == 0x10000 - 2 * 127);
  // Numbers that are not, whose upper half is that of infinity.
  for (const std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    const float found = bfloat16(of_bits(bits));
    CHECK(std::isnan(found));
    CHECK(std::signbit(found) == (bits >> 31 != 0));
  }
}

TEST_CASE("vectors are stored and loaded as their numbers are", "[bfloat16]") {
  std::vector<float> values = samples();
  values[7] = values[100] = std::numeric_limits<float>::quiet_NaN();
  std::vector<bfloat16> stored(values.size());
  for (std::size_t i = 0; i < values.size(); i += vector_width) tenet::store(&stored[i], tenet::load(&values[i]));
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i, values[i]);
    CHECK(stored[i].bits == bfloat16(values[i]).bits);
  }
  for (std::size_t i = 0; i < values.size(); i += vector_width) {
    const tenet::Vector loaded = tenet::load(&stored[i]);
    for (std::size_t k = 0; k < vector_width; ++k) {
      const float expected = stored[i + k];
      CHECK((loaded[static_cast<int>(k)] == expected || std::isnan(expected)));
    }
  }
}

TEST_CASE("parts of vectors touch only their lanes", "[bfloat16]") {
  for (int count = 0; count <= vector_width; ++count) {
    bfloat16 from[vector_width], to[vector_width];
    for (int i = 0; i < vector_width; ++i) {
      from[i] = bfloat16(static_cast<float>(i + 1));
      to[i] = bfloat16(-1.0f);
    }
    const tenet::Vector x = tenet::load_partial(from, count);
    tenet::store_partial(to, x + 1, count);
    for (int i = 0; i < vector_width; ++i) {
      CHECK(x[i] == (i < count ? static_cast<float>(i + 1) : 0));
      CHECK(static_cast<float>(to[i]) == (i < count ? static_cast<float>(i + 2) : -1));
    }
  }
}
