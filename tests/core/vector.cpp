#include "tenet/core/vector.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using tenet::Vector;
using tenet::vector_width;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN(),
                infinity = std::numeric_limits<float>::infinity();

/// What users write: one template for both types.
template <class T>
T leaky(T x) {
  using namespace tenet;
  return select(x > 0, x, 0.1f * x) + maximum(x, broadcast<T>(2)) * minimum(x, broadcast<T>(-1)) + tenet::abs(x) +
         tenet::sqrt(tenet::abs(x)) - 3 / (x + 2);
}

void same(float a, float b) {
  if (std::isnan(a) && std::isnan(b)) return;
  CHECK(a == b);
  CHECK(std::signbit(a) == std::signbit(b));
}

static_assert(tenet::select(true, 1.0f, 2.0f) == 1 && tenet::maximum(1.0f, 2.0f) == 2 &&
              tenet::minimum(1.0f, 2.0f) == 1 && tenet::abs(-3.0f) == 3 && tenet::broadcast<float>(4) == 4);
static_assert(sizeof(Vector) == 4 * vector_width);

}  // namespace

TEST_CASE("one template gives the same lanes as floats and as vectors", "[vector]") {
  const float values[] = {0,      -0.0f,  1,        -1,        0.5f,         3, -7, 1e20f,
                          -1e20f, 1e-40f, infinity, -infinity, not_a_number, 2, 5,  -0.25f};
  for (int shift = 0; shift < 16; ++shift) {
    float x[vector_width], y[vector_width];
    for (int i = 0; i < vector_width; ++i) x[i] = values[(i + shift) % 16];
    tenet::store(y, leaky(tenet::load(x)));
    for (int i = 0; i < vector_width; ++i) {
      const float expected = leaky(x[i]);
      CAPTURE(x[i], y[i], expected);
      // Multiplications and additions may be contracted differently.
      CHECK((y[i] == Approx(expected) || (std::isnan(y[i]) && std::isnan(expected)) || y[i] == expected));
    }
  }
}

TEST_CASE("maximum and minimum pass NaN on from either side", "[vector]") {
  for (float a : {1.0f, not_a_number}) {
    for (float b : {2.0f, not_a_number}) {
      const Vector u = tenet::broadcast<Vector>(a), v = tenet::broadcast<Vector>(b);
      same(tenet::maximum(u, v)[0], tenet::maximum(a, b));
      same(tenet::minimum(u, v)[vector_width - 1], tenet::minimum(a, b));
      CHECK(std::isnan(tenet::maximum(a, b)) == (std::isnan(a) || std::isnan(b)));
      CHECK(std::isnan(tenet::minimum(a, b)) == (std::isnan(a) || std::isnan(b)));
    }
  }
}

TEST_CASE("broadcast keeps the sign of zero", "[vector]") {
  CHECK(std::signbit(tenet::broadcast<Vector>(-0.0f)[0]));
  CHECK_FALSE(std::signbit(tenet::broadcast<Vector>(0.0f)[0]));
}

TEST_CASE("partial loads and stores touch only their lanes", "[vector]") {
  float from[vector_width], to[vector_width];
  for (int count = 0; count <= vector_width; ++count) {
    for (int i = 0; i < vector_width; ++i) {
      from[i] = static_cast<float>(i + 1);
      to[i] = -1;
    }
    const Vector x = tenet::load_partial(from, count);
    tenet::store_partial(to, x + 1, count);
    const tenet::VectorMask mask = tenet::first_lanes(count);
    for (int i = 0; i < vector_width; ++i) {
      CHECK(x[i] == (i < count ? from[i] : 0));
      CHECK(to[i] == (i < count ? from[i] + 1 : -1));
      CHECK((mask[i] != 0) == (i < count));
    }
  }
}

TEST_CASE("horizontal operations see every lane", "[vector]") {
  for (int i = 0; i < vector_width; ++i) {
    Vector x = tenet::broadcast<Vector>(1);
    x[i] = 5;
    CHECK(tenet::horizontal_sum(x) == static_cast<float>(vector_width + 4));
    CHECK(tenet::horizontal_max(x) == 5);
    x[i] = not_a_number;
    CHECK(std::isnan(tenet::horizontal_max(x)));
  }
}
