#pragma once

#include <utility>

#include "tenet/core/vector.hpp"

/// The matrices of Winograd's convolutions with four results a tile, F(4, 3) and F(4, 5), applied to vectors.
///
/// Multiplying two polynomials by their values at 0, at pairs of points ±p and at infinity gives a row of 4 results of
/// a filter of 3 or 5 taps from `points` = taps + 3 inputs d with as many products: y = At ((G g) * (Bt d)). With M(x)
/// = the product of x^2 - p^2 over all pairs, Q(x) = that over all pairs but one, and N = 2 p^2 Q(p):
///   Bt d at ±p: the coefficients of x Q(x) (x ± p), at 0: of M(x), at infinity: of x M(x)
///   G g  at ±p: (g0 ± p g1 + p^2 g2 + …) / N,       at 0: g0 / M(0), at infinity: the last g
///   At m      : y[i] = the sum of p^i m(p), with the value at infinity added to y[3].
/// Values at p and at -p share their even and their odd powers. Gradients go through the transposed matrices.
namespace tenet::cpu::detail {

/// Results of a tile in one direction.
inline constexpr int winograd_out = 4;

/// The points of a filter, and the coefficients that follow from them.
template <int taps>
struct WinogradPoints {
  static_assert(taps == 3 || taps == 5);
  static constexpr int count = taps + winograd_out - 1, pairs = count / 2 - 1;

  float point[pairs], square[pairs];
  float all[pairs + 1];            // M(x), in powers of x^2
  float others[pairs][pairs];      // Q(x) of each pair, likewise
  float scale_at_0, scale[pairs];  // 1 / M(0) and 1 / N

  constexpr WinogradPoints() : point(), square(), all(), others(), scale_at_0(), scale() {
    // The product of the points is 1, which keeps the powers small, and with them the rounding errors.
    constexpr double points_of_3[] = {0.70710678118654752, 1.41421356237309505}, points_of_5[] = {0.5, 1, 2};
    const double* const p = taps == 3 ? points_of_3 : points_of_5;
    // Multiplies a polynomial of `terms` terms by x^2 - p^2.
    auto multiply = [](double* polynomial, int terms, double root) {
      for (int i = terms; i >= 0; --i)
        polynomial[i] = (i > 0 ? polynomial[i - 1] : 0) - (i < terms ? root * root * polynomial[i] : 0);
    };
    double product[pairs + 1] = {1};
    for (int k = 0; k < pairs; ++k) {
      multiply(product, k + 1, p[k]);
      double other[pairs] = {1}, value = 1;
      for (int l = 0, terms = 1; l < pairs; ++l) {
        if (l == k) continue;
        multiply(other, terms++, p[l]);
        value *= p[k] * p[k] - p[l] * p[l];
      }
      for (int i = 0; i < pairs; ++i) others[k][i] = static_cast<float>(other[i]);
      point[k] = static_cast<float>(p[k]);
      square[k] = static_cast<float>(p[k] * p[k]);
      scale[k] = static_cast<float>(1 / (2 * p[k] * p[k] * value));
    }
    for (int i = 0; i <= pairs; ++i) all[i] = static_cast<float>(product[i]);
    scale_at_0 = static_cast<float>(1 / product[0]);
  }
};

// Sums over points and powers are unrolled by folds, their coefficients constants: as loops over arrays they went
// through memory, four times as slow.

/// factor * x, which is nothing to compute for a factor of 1.
[[gnu::always_inline]] inline Vector times(float factor, Vector x) { return factor == 1 ? x : factor * x; }

/// The power p^exponent of the point of a pair, times 1 / N where `scaled`.
template <int taps, bool scaled>
constexpr float winograd_power(int pair, int exponent) {
  constexpr WinogradPoints<taps> w{};
  float result = scaled ? w.scale[pair] : 1;
  for (int i = 0; i < exponent / 2; ++i) result *= w.square[pair];
  return exponent % 2 != 0 ? result * w.point[pair] : result;
}

/// to = even + factor * odd, and even - factor * odd: the values at the points of a pair.
[[gnu::always_inline]] inline void put_pair(Vector even, float factor, Vector odd, Vector* to) {
  to[0] = even + times(factor, odd);
  to[1] = even - times(factor, odd);
}

/// Every second term of a polynomial of `size` terms, from the first or second on, at the point of a pair; over its
/// power of the first of them.
template <int taps, int size, int pair, int first>
[[gnu::always_inline]] inline Vector half_polynomial(float factor, const Vector* from) {
  Vector sum = times(factor, from[first]);
  if constexpr (first + 2 < size) sum += factor * winograd_power<taps, false>(pair, 2) * from[first + 2];
  if constexpr (first + 4 < size) sum += factor * winograd_power<taps, false>(pair, 4) * from[first + 4];
  return sum;
}
/// The values of a polynomial of `size` terms at all points.
template <int taps, bool scaled, int size, int... Pair>
[[gnu::always_inline]] inline void evaluate(const Vector* from, Vector* to, std::integer_sequence<int, Pair...>) {
  constexpr WinogradPoints<taps> w{};
  to[0] = scaled ? times(w.scale_at_0, from[0]) : from[0];
  (put_pair(half_polynomial<taps, size, Pair, 0>(winograd_power<taps, scaled>(Pair, 0), from),
            winograd_power<taps, scaled>(Pair, 1), half_polynomial<taps, size, Pair, 1>(1, from), to + 1 + 2 * Pair),
   ...);
  to[w.count - 1] = from[size - 1];
}

/// The transposed of `evaluate`: power i of all points; `at_0` counts for power 0, `at_infinity` for the last.
template <int taps, bool scaled, int i, int size, int... Pair>
[[gnu::always_inline]] inline Vector sum_power(const Vector* halves, Vector at_0, Vector at_infinity,
                                               std::integer_sequence<int, Pair...>) {
  if constexpr (i == 0) return (at_0 + ... + times(winograd_power<taps, scaled>(Pair, i), halves[2 * Pair + i % 2]));
  if constexpr (i == size - 1)
    return (at_infinity + ... + times(winograd_power<taps, scaled>(Pair, i), halves[2 * Pair + i % 2]));
  return (times(winograd_power<taps, scaled>(Pair, i), halves[2 * Pair + i % 2]) + ...);
}
template <int taps, bool scaled, int... Pair, int... I>
[[gnu::always_inline]] inline void evaluate_transposed(const Vector* from, Vector* to,
                                                       std::integer_sequence<int, Pair...> pairs,
                                                       std::integer_sequence<int, I...>) {
  constexpr WinogradPoints<taps> w{};
  Vector halves[2 * w.pairs];  // of each pair the sum and the difference
  ((halves[2 * Pair] = from[1 + 2 * Pair] + from[2 + 2 * Pair],
    halves[2 * Pair + 1] = from[1 + 2 * Pair] - from[2 + 2 * Pair]),
   ...);
  const Vector at_0 = scaled ? times(w.scale_at_0, from[0]) : from[0];
  ((to[I] = sum_power<taps, scaled, I, sizeof...(I)>(halves, at_0, from[w.count - 1], pairs)), ...);
}

/// to[i] = Bt from, points -> points.
template <int taps>
struct InputTransform {
  static constexpr int from_size = WinogradPoints<taps>::count, to_size = from_size;

  [[gnu::always_inline]] static void apply(const Vector* d, Vector* to) { apply(d, to, all_pairs, all_powers); }

 private:
  static constexpr WinogradPoints<taps> w{};
  static constexpr std::make_integer_sequence<int, w.pairs> all_pairs{};
  static constexpr std::make_integer_sequence<int, w.pairs + 1> all_powers{};

  /// Q(x) of a pair, over every second input.
  template <int pair, int... I>
  [[gnu::always_inline]] static Vector others(const Vector* d, std::integer_sequence<int, I...>) {
    return (times(w.others[pair][w.pairs - 1 - I], d[2 * (w.pairs - 1 - I)]) + ...);
  }
  template <int... Pair, int... I>
  [[gnu::always_inline]] static void apply(const Vector* d, Vector* to, std::integer_sequence<int, Pair...> pairs,
                                           std::integer_sequence<int, I...>) {
    to[0] = (times(w.all[w.pairs - I], d[2 * (w.pairs - I)]) + ...);
    (put_pair(others<Pair>(d + 2, pairs), w.point[Pair], others<Pair>(d + 1, pairs), to + 1 + 2 * Pair), ...);
    to[to_size - 1] = (times(w.all[w.pairs - I], d[2 * (w.pairs - I) + 1]) + ...);
  }
};

/// to[i] = B from, points -> points: the gradient of InputTransform.
template <int taps>
struct InputGradientTransform {
  static constexpr int from_size = WinogradPoints<taps>::count, to_size = from_size;

  [[gnu::always_inline]] static void apply(const Vector* v, Vector* to) {
    apply(v, to, std::make_integer_sequence<int, w.pairs>{});
  }

 private:
  static constexpr WinogradPoints<taps> w{};

  template <int... I>
  [[gnu::always_inline]] static void apply(const Vector* v, Vector* to, std::integer_sequence<int, I...> pairs) {
    Vector sum[w.pairs], difference[w.pairs];
    ((sum[I] = v[1 + 2 * I] + v[2 + 2 * I], difference[I] = w.point[I] * (v[1 + 2 * I] - v[2 + 2 * I])), ...);
    to[0] = times(w.all[0], v[0]);
    ((to[2 * I + 1] = times(w.all[I], v[to_size - 1]) + others<I>(difference, pairs),
      to[2 * I + 2] = times(w.all[I + 1], v[0]) + others<I>(sum, pairs)),
     ...);
    to[to_size - 1] = v[to_size - 1];
  }
  template <int i, int... Pair>
  [[gnu::always_inline]] static Vector others(const Vector* halves, std::integer_sequence<int, Pair...>) {
    return (times(w.others[Pair][i], halves[Pair]) + ...);
  }
};

/// `evaluate` as a transform, size -> points, and its gradient, points -> size.
template <int taps, bool scaled, int size>
struct Values {
  static constexpr int from_size = size, to_size = WinogradPoints<taps>::count;

  [[gnu::always_inline]] static void apply(const Vector* from, Vector* to) {
    evaluate<taps, scaled, size>(from, to, std::make_integer_sequence<int, WinogradPoints<taps>::pairs>{});
  }
};
template <int taps, bool scaled, int size>
struct ValuesGradient {
  static constexpr int from_size = WinogradPoints<taps>::count, to_size = size;

  [[gnu::always_inline]] static void apply(const Vector* from, Vector* to) {
    evaluate_transposed<taps, scaled>(from, to, std::make_integer_sequence<int, WinogradPoints<taps>::pairs>{},
                                      std::make_integer_sequence<int, size>{});
  }
};

/// to[i] = G from, taps -> points.
template <int taps>
using WeightTransform = Values<taps, true, taps>;
/// to[i] = Gt from, points -> taps.
template <int taps>
using WeightGradientTransform = ValuesGradient<taps, true, taps>;
/// to[i] = At from, points -> 4.
template <int taps>
using ResultTransform = ValuesGradient<taps, false, winograd_out>;
/// to[i] = A from, 4 -> points.
template <int taps>
using ResultGradientTransform = Values<taps, false, winograd_out>;

/// One line: get(i) gives a vector of it, put(i, vector) takes one of the transformed.
template <class Transform, class Get, class Put, int... From, int... To>
[[gnu::always_inline]] inline void transform_line(const Get& get, const Put& put, std::integer_sequence<int, From...>,
                                                  std::integer_sequence<int, To...>) {
  const Vector from[] = {get(From)...};
  Vector to[sizeof...(To)];
  Transform::apply(from, to);
  (put(To, to[To]), ...);
}
template <class Transform, class Get, class Put>
[[gnu::always_inline]] inline void transform_line(const Get& get, const Put& put) {
  transform_line<Transform>(get, put, std::make_integer_sequence<int, Transform::from_size>{},
                            std::make_integer_sequence<int, Transform::to_size>{});
}

}  // namespace tenet::cpu::detail
