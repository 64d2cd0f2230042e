#include "tenet/core/vector_math.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

using tenet::Vector;
using tenet::vector_width;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN(),
                infinity = std::numeric_limits<float>::infinity();

/// The largest error in units in the last place over floats in [low, high], every `step`-th of all bit patterns.
template <class Function, class Exact>
double largest_error(float low, float high, std::uint64_t step, Function function, Exact exact) {
  double worst = 0;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += step * vector_width) {
    float x[vector_width], y[vector_width];
    for (int i = 0; i < vector_width; ++i) {
      const auto pattern = static_cast<std::uint32_t>(bits + step * static_cast<std::uint64_t>(i));
      std::memcpy(&x[i], &pattern, 4);
    }
    tenet::store(y, function(tenet::load(x)));
    for (int i = 0; i < vector_width; ++i) {
      if (!(x[i] >= low && x[i] <= high)) continue;
      const double expected = exact(static_cast<double>(x[i]));
      if (std::fabs(expected) > std::numeric_limits<float>::max()) {
        if (!std::isinf(y[i])) worst = infinity;
        continue;
      }
      int exponent = 0;
      std::frexp(static_cast<float>(expected), &exponent);
      const double unit = std::ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
      const double error = std::fabs(y[i] - expected) / unit;
      if (!(error <= worst)) worst = error;  // NaN counts
    }
  }
  return worst;
}

/// The largest difference over `count` floats that divide [low, high].
template <class Function, class Exact>
double largest_difference(float low, float high, int count, Function function, Exact exact) {
  double worst = 0;
  for (int i = 0; i < count; ++i) {
    const float x = low + (high - low) * static_cast<float>(i) / static_cast<float>(count);
    worst = std::fmax(worst, std::fabs(function(tenet::broadcast<Vector>(x))[0] - exact(static_cast<double>(x))));
  }
  return worst;
}

template <class Function>
float at(Function function, float x) {
  const Vector y = function(tenet::broadcast<Vector>(x));
  for (int i = 1; i < vector_width; ++i) CHECK((y[i] == y[0] || (std::isnan(y[i]) && std::isnan(y[0]))));
  return y[0];
}

auto vector_exp = [](Vector x) { return tenet::exp(x); };
auto vector_log = [](Vector x) { return tenet::log(x); };
auto vector_tanh = [](Vector x) { return tenet::tanh(x); };
auto vector_erf = [](Vector x) { return tenet::erf(x); };
auto vector_normal = [](Vector x) { return tenet::normal_probability(x); };
auto vector_slope = [](Vector x) { return tenet::gelu_slope(x); };
auto vector_sigmoid = [](Vector x) { return tenet::sigmoid(x); };

}  // namespace

TEST_CASE("elementary functions keep their stated errors", "[vector_math]") {
  const std::uint64_t step = 1009;  // a prime; with 1 (minutes) the errors are those stated in the header
  CHECK(largest_error(-infinity, infinity, step, vector_exp, [](double x) { return std::exp(x); }) <= 1.1);
  CHECK(largest_error(0x1p-149f, 3e38f, step, vector_log, [](double x) { return std::log(x); }) <= 0.9);
  CHECK(largest_error(-infinity, infinity, step, vector_tanh, [](double x) { return std::tanh(x); }) <= 1.4);
  CHECK(largest_error(-infinity, infinity, step, vector_erf, [](double x) { return std::erf(x); }) <= 1.3);
  CHECK(largest_error(-87.3f, infinity, step, vector_sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }) <= 2.5);
  CHECK(largest_error(
            0, 3e38f, step, [](Vector x) { return tenet::sqrt(x); }, [](double x) { return std::sqrt(x); }) <= 0.5);
  CHECK(largest_error(
            1e-37f, 3e38f, step, [](Vector x) { return tenet::rsqrt(x); }, [](double x) { return 1 / std::sqrt(x); }) <=
        1.5);
}

TEST_CASE("exponentials of negative numbers end at 1.6e-38", "[vector_math]") {
  const auto function = [](Vector x) { return tenet::exp_of_negative(x); };
  CHECK(largest_error(-87, 0, 1009, function, [](double x) { return std::exp(x); }) <= 1.1);
  for (const float x : {-88.0f, -1e30f, -infinity}) {
    CHECK(at(function, x) > 0);
    CHECK(at(function, x) < 1.7e-38f);
  }
  CHECK(at(function, 0) == 1);
  CHECK(std::isnan(at(function, not_a_number)));
}

TEST_CASE("the normal distribution and the slope of GELU keep their stated errors", "[vector_math]") {
  const auto probability = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  const auto slope = [&](double x) {
    return probability(x) + x * std::exp(-0.5 * x * x) / std::sqrt(8 * std::atan(1));
  };
  CHECK(largest_difference(-20, 20, 400000, vector_normal, probability) <= 3e-7);
  CHECK(largest_difference(-20, 20, 400000, vector_slope, slope) <= 3e-7);
  for (const float x : {0.0f, 0.5f, -3.0f, 6.0f}) {
    CHECK(tenet::normal_probability(x) == Approx(probability(static_cast<double>(x))).margin(1e-7));
    CHECK(tenet::gelu_slope(x) == Approx(slope(static_cast<double>(x))).margin(1e-7));
  }
  CHECK(at(vector_normal, -5.8f) == 0);  // exactly: it is multiplied by numbers of any size
  CHECK(at(vector_normal, 5.8f) == 1);
  CHECK(at(vector_normal, -1e30f) == 0);
  CHECK(at(vector_normal, infinity) == 1);
  CHECK(at(vector_slope, infinity) == Approx(1).margin(1e-7));
  CHECK(at(vector_slope, -1e30f) == Approx(0).margin(1e-7));
  CHECK(std::isnan(at(vector_normal, not_a_number)));
  CHECK(std::isnan(at(vector_slope, not_a_number)));
}

TEST_CASE("elementary functions at the edges", "[vector_math]") {
  CHECK(at(vector_exp, 0) == 1);
  CHECK(at(vector_exp, -0.0f) == 1);
  CHECK(at(vector_exp, infinity) == infinity);
  CHECK(at(vector_exp, 88.8f) == infinity);
  CHECK(at(vector_exp, 1e30f) == infinity);
  CHECK(at(vector_exp, -infinity) == 0);
  CHECK(at(vector_exp, -1e30f) == 0);
  CHECK(at(vector_exp, -103.0f) > 0);
  CHECK(at(vector_log, 1) == 0);
  CHECK(at(vector_log, 0) == -infinity);
  CHECK(at(vector_log, -0.0f) == -infinity);
  CHECK(at(vector_log, infinity) == infinity);
  CHECK(std::isnan(at(vector_log, -1)));
  CHECK(std::isnan(at(vector_log, -infinity)));
  CHECK(at(vector_tanh, 0) == 0);
  CHECK(at(vector_tanh, infinity) == 1);
  CHECK(at(vector_tanh, -1e30f) == -1);
  CHECK(at(vector_erf, 0) == 0);
  CHECK(at(vector_erf, infinity) == 1);
  CHECK(at(vector_erf, -30) == -1);
  CHECK(at(vector_sigmoid, 0) == 0.5f);
  CHECK(at(vector_sigmoid, infinity) == 1);
  CHECK(at(vector_sigmoid, -infinity) == 0);
  for (auto value : {at(vector_exp, not_a_number), at(vector_log, not_a_number), at(vector_tanh, not_a_number),
                     at(vector_erf, not_a_number), at(vector_sigmoid, not_a_number)}) {
    CHECK(std::isnan(value));
  }
}

TEST_CASE("powers", "[vector_math]") {
  auto power = [](float base, float exponent) {
    return tenet::pow(tenet::broadcast<Vector>(base), tenet::broadcast<Vector>(exponent))[0];
  };
  CHECK(power(2, 10) == Approx(1024).epsilon(1e-6));
  CHECK(power(0.5f, -3) == Approx(8).epsilon(1e-6));
  CHECK(power(0, 2) == 0);
  CHECK(power(0, 0) == 1);
  CHECK(power(9, 0.5f) == Approx(3).epsilon(1e-6));
  CHECK(tenet::pow(2.0f, 3.0f) == 8);
}
