#pragma once

#include <cmath>

#include "tenet/core/vector.hpp"

/// Elementary functions of a `Vector`, each by argument reduction and a near-minimax polynomial, for any vector width;
/// those of a `float` are the standard library's. Errors are the largest measured over all floats of the range
/// (`tests/core/vector_math.cpp`), in units in the last place of the result.
namespace tenet {

namespace detail {

/// Horner's rule: coefficients from the highest power down.
template <class... Coefficients>
inline Vector polynomial(Vector x, float highest, Coefficients... lower) {
  Vector sum = broadcast<Vector>(highest);
  ((sum = sum * x + lower), ...);
  return sum;
}

inline Vector as_float(VectorMask bits) { return (Vector)bits; }
inline VectorMask as_bits(Vector x) { return (VectorMask)x; }

}  // namespace detail

/// e^x; 1.1 ulp, denormal results included; 0 below -104, infinite above 88.73.
TENET_HOST_DEVICE inline float exp(float x) { return std::exp(x); }
inline Vector exp(Vector x) {
  x = select(x > 89.0f, broadcast<Vector>(89.0f), x);  // NaN passes both selections
  x = select(x < -104.0f, broadcast<Vector>(-104.0f), x);
  // x = n ln 2 + r with |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to an integer and leaves it in the low mantissa bits;
  // ln 2 is split so that n times its first part is exact.
  const Vector shifted = x * 1.44269504f + 0x1.8p23f;
  const VectorMask n = detail::as_bits(shifted) - 0x4b400000;
  const Vector whole = shifted - 0x1.8p23f;
  const Vector r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  const Vector q = detail::polynomial(r, 0.001392617612f, 0.008363173075f, 0.04166655466f, 0.1666657703f, 0.5f);
  const Vector power = (q * r * r + r) + 1.0f;
  const VectorMask half = n >> 1;  // 2^n in two factors: n may be 128 or below -126
  return power * detail::as_float((half + 127) << 23) * detail::as_float((n - half + 127) << 23);
}

/// e^x for x <= 0, as in a softmax; 1.1 ulp above -87, and there it stays: 1.6e-38 is as good as 0, and denormal
/// numbers would cost hundreds of cycles each.
inline Vector exp_of_negative(Vector x) {
  x = select(x < -87.0f, broadcast<Vector>(-87.0f), x);  // NaN passes
  const Vector shifted = x * 1.44269504f + 0x1.8p23f;
  const VectorMask n = detail::as_bits(shifted) << 23;  // the low bits of the sum are n: they become an exponent
  const Vector whole = shifted - 0x1.8p23f;
  const Vector r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  const Vector q = detail::polynomial(r, 0.001392617612f, 0.008363173075f, 0.04166655466f, 0.1666657703f, 0.5f);
  return detail::as_float(detail::as_bits((q * r * r + r) + 1.0f) + n);
}

/// Natural logarithm; 0.9 ulp, denormal arguments included; -infinity at 0, NaN below.
TENET_HOST_DEVICE inline float log(float x) { return std::log(x); }
inline Vector log(Vector x) {
  const VectorMask denormal = x < 0x1p-126f;
  const VectorMask bits = detail::as_bits(select(denormal, x * 0x1p23f, x));
  // x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).
  const VectorMask n = (bits - 0x3f3504f3) >> 23;
  const Vector f = detail::as_float(bits - (n << 23)) - 1.0f;
  const Vector whole = __builtin_convertvector(n, Vector) - select(denormal, broadcast<Vector>(23.0f), zero_lanes());
  const Vector q = detail::polynomial(f, 0.06971611471f, -0.1147973385f, 0.1168541992f, -0.1242568733f, 0.1424905765f,
                                      -0.1666780232f, 0.2000071575f, -0.2499999696f, 0.3333333118f);
  const Vector square = f * f;
  Vector result = q * f * square - whole * 2.12194440e-4f;
  result = (result - 0.5f * square) + f;
  result = result + whole * 0.693359375f;
  result = select(x < __builtin_inff(), result, x);  // infinity and NaN
  result = select(x == 0.0f, broadcast<Vector>(-__builtin_inff()), result);
  return select(x < 0.0f, broadcast<Vector>(__builtin_nanf("")), result);
}

/// Hyperbolic tangent; 1.4 ulp.
TENET_HOST_DEVICE inline float tanh(float x) { return std::tanh(x); }
inline Vector tanh(Vector x) {
  const Vector square = x * x;
  const Vector small =
      x * square *
          detail::polynomial(square, -0.006096714166f, 0.020997179f, -0.05385090958f, 0.1333276974f, -0.3333332894f) +
      x;
  const Vector size = abs(x);
  const Vector large = 1.0f - 2.0f / (exp(2.0f * size) + 1.0f);
  return select(size < 0.625f, small, select(x < 0.0f, -large, large));
}

/// The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x; 1.3 ulp.
TENET_HOST_DEVICE inline float erf(float x) { return std::erf(x); }
inline Vector erf(Vector x) {
  const Vector square = x * x;
  const Vector small = x * detail::polynomial(square, 7.875875063e-5f, -0.0008016864287f, 0.005189087423f,
                                              -0.02685421201f, 0.1128359472f, -0.3761262667f, 0.1283791658f) +
                       x;
  // Beyond 1: 1 - erfc(x), with log(erfc(x)) as a polynomial on [1, 4]; beyond 4 the result rounds to 1.
  const Vector size = minimum(abs(x), broadcast<Vector>(4.0f));
  const Vector log_erfc =
      detail::polynomial(size, 1.637151415e-6f, -4.605804269e-5f, 0.0005968056257f, -0.004759596293f, 0.02642113601f,
                         -0.1100800829f, -0.6318260516f, -1.130233435f, 0.0003201380497f);
  const Vector large = 1.0f - exp(log_erfc);
  return select(size < 1.0f, small, select(x < 0.0f, -large, large));
}

/// P(X <= x) of a normal X, (1 + erf(x / sqrt 2)) / 2; within 3e-7, and exactly 0 below -5.7 and 1 above 5.7.
TENET_HOST_DEVICE inline float normal_probability(float x) { return 0.5f * (1.0f + std::erf(0.70710678f * x)); }
inline Vector normal_probability(Vector x) {
  // 1/2 + x·p(x^2) / q(x^2), with the least largest error up to 5.4; beyond it grows past the bounds.
  const Vector whole = x * x;
  const Vector square = select(whole > 29.16f, broadcast<Vector>(29.16f), whole);  // NaN passes all selections
  const Vector p =
      detail::polynomial(square, 6.1348077907e-6f, 3.3849099418e-4f, 0.0056962147355f, 0.051927164197f, 0.39894217253f);
  const Vector q = detail::polynomial(square, 5.1609538332e-7f, 1.2064594194e-4f, 0.0028553218581f, 0.038757752627f,
                                      0.29682525992f, 1.0f);
  const Vector odd = x * p / q;
  const Vector bounded = select(odd > 0.5f, broadcast<Vector>(0.5f), odd);
  return 0.5f + select(bounded < -0.5f, broadcast<Vector>(-0.5f), bounded);
}

/// The derivative of x·P(X <= x): P(X <= x) + x·density(x); within 3e-7.
TENET_HOST_DEVICE inline float gelu_slope(float x) {
  return normal_probability(x) + x * 0.39894228f * std::exp(-0.5f * x * x);
}
inline Vector gelu_slope(Vector x) {
  x = select(x > 6.0f, broadcast<Vector>(6.0f), x);
  x = select(x < -6.0f, broadcast<Vector>(-6.0f), x);
  const Vector square = x * x;
  const Vector p = detail::polynomial(square, 1.682765749e-8f, 9.0488691740e-7f, 3.4109711123e-5f, 1.9658806559e-4f,
                                      0.013870887458f, -0.022698609158f, 0.79788458347f);
  const Vector q = detail::polynomial(square, 1.3024804568e-9f, 3.3307551917e-7f, 1.0240096344e-5f, 2.4373005737e-4f,
                                      0.0039548934437f, 0.044013500214f, 0.30488467216f, 1.0f);
  return 0.5f + x * p / q;
}

/// 1 / (1 + e^-x); 2.5 ulp above -87.3, 0 below -88.73.
TENET_HOST_DEVICE inline float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
inline Vector sigmoid(Vector x) { return 1.0f / (1.0f + exp(-x)); }

/// 1 / sqrt(x), from the correctly rounded square root; 1.5 ulp.
TENET_HOST_DEVICE inline float rsqrt(float x) { return 1.0f / sqrt(x); }
inline Vector rsqrt(Vector x) { return 1.0f / sqrt(x); }

/// base^exponent for base >= 0; as a vector e^(exponent log(base)), whose relative error grows as |exponent log(base)|
/// times 6e-8.
TENET_HOST_DEVICE inline float pow(float base, float exponent) { return std::pow(base, exponent); }
inline Vector pow(Vector base, Vector exponent) {
  return select(exponent == 0.0f, broadcast<Vector>(1.0f), exp(exponent * log(base)));
}

}  // namespace tenet
