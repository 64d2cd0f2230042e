#pragma once

#include "tenet/core/layout.hpp"
#include "tenet/core/vector.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/workers.hpp"

/// Moving values between `Layout::standard` and `Layout::samples_last`, in registers.
namespace tenet::cpu {

namespace detail {

/// Vectors in a row of samples.
inline constexpr int lane_parts = sample_lanes / vector_width;
constexpr long sample_groups(long batch) { return blocks_of(batch, sample_lanes); }

inline Quarter load_quarter(const float* from) {
  Quarter result;
  std::memcpy(&result, from, sizeof result);
  return result;
}

// Lists of lanes for each width, as nvcc does not expand packs in them.
#if defined(__AVX512F__)
/// The vector of four floats each from `from`, `from + step`, …
inline Vector load_quarters(const float* from, long step) {
  const Quarter a = load_quarter(from), b = load_quarter(from + step);
  const Quarter c = load_quarter(from + 2 * step), d = load_quarter(from + 3 * step);
  const auto ab = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
  const auto cd = __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
/// Of every four lanes: a0 b0 a1 b1, a2 b2 a3 b3, a0 a1 b0 b1, a2 a3 b2 b3.
inline Vector zip_low(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
inline Vector zip_high(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
inline Vector low_halves(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
}
inline Vector high_halves(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
#elif defined(__AVX__)
inline Vector load_quarters(const float* from, long step) {
  return __builtin_shufflevector(load_quarter(from), load_quarter(from + step), 0, 1, 2, 3, 4, 5, 6, 7);
}
inline Vector zip_low(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13); }
inline Vector zip_high(Vector a, Vector b) { return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15); }
inline Vector low_halves(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13); }
inline Vector high_halves(Vector a, Vector b) { return __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15); }
#else
inline Vector load_quarters(const float* from, long) { return load(from); }
inline Vector zip_low(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
inline Vector zip_high(Vector a, Vector b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
inline Vector low_halves(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 1, 4, 5); }
inline Vector high_halves(Vector a, Vector b) { return __builtin_shufflevector(a, b, 2, 3, 6, 7); }
#endif

/// Transposes the 4 x 4 matrices that stand side by side in four vectors.
[[gnu::always_inline]] inline void transpose_quarters(Vector& a, Vector& b, Vector& c, Vector& d) {
  const Vector ab_low = zip_low(a, b), ab_high = zip_high(a, b), cd_low = zip_low(c, d), cd_high = zip_high(c, d);
  a = low_halves(ab_low, cd_low);
  b = high_halves(ab_low, cd_low);
  c = low_halves(ab_high, cd_high);
  d = high_halves(ab_high, cd_high);
}

/// to[k * to_step + 4 * q + r] = from[q * quarter_step + r * row_step + k] for k, r < 4 and q < vector_width / 4.
[[gnu::always_inline]] inline void transpose_block(const float* from, long row_step, long quarter_step, float* to,
                                                   long to_step) {
  Vector a = load_quarters(from, quarter_step), b = load_quarters(from + row_step, quarter_step),
         c = load_quarters(from + 2 * row_step, quarter_step), d = load_quarters(from + 3 * row_step, quarter_step);
  transpose_quarters(a, b, c, d);
  store(to, a);
  store(to + to_step, b);
  store(to + 2 * to_step, c);
  store(to + 3 * to_step, d);
}

/// to [count, 16] = the first `count` elements of `samples` samples that lie `sample_step` apart; missing samples are
/// copies of the last one.
inline void to_samples_last(const float* from, long sample_step, long samples, long count, float* to) {
  long p = 0;
  for (; samples >= sample_lanes && p + 4 <= count; p += 4) {
    for (int s = 0; s < sample_lanes; s += vector_width) {
      transpose_block(from + s * sample_step + p, sample_step, 4 * sample_step, to + p * sample_lanes + s,
                      sample_lanes);
    }
  }
  samples = smaller(samples, sample_lanes);
  transpose(from + p, sample_step, samples, count - p, to + p * sample_lanes, sample_lanes);
  for (; samples < sample_lanes && p < count; ++p) {
    float* row = to + p * sample_lanes;
    for (long s = samples; s < sample_lanes; ++s) row[s] = row[samples - 1];
  }
}

/// The inverse of `to_samples_last`: the lanes beyond `samples` are dropped.
inline void from_samples_last(const float* from, long count, float* to, long sample_step, long samples) {
  samples = smaller(samples, sample_lanes);
  const long whole = samples / 4 * 4;
  long p = 0;
  for (; p + vector_width <= count; p += vector_width) {
    for (long s = 0; s < whole; s += 4) {
      transpose_block(from + p * sample_lanes + s, sample_lanes, 4 * sample_lanes, to + s * sample_step + p,
                      sample_step);
    }
  }
  transpose(from + p * sample_lanes, sample_lanes, count - p, whole, to + p, sample_step);
  transpose(from + whole, sample_lanes, count, samples - whole, to + whole * sample_step, sample_step);
}

}  // namespace detail

/// Floats of a value of `batch` samples of `size` elements in `Layout::samples_last`.
constexpr long samples_last_size(long size, int batch) { return detail::sample_groups(batch) * sample_lanes * size; }

/// Copies `batch` samples of `size` elements each from one layout to the other; one of them is `Layout::standard`, one
/// `Layout::samples_last`.
inline void run_relayout(Workers& workers, Layout from_layout, Layout, long size, int batch, const float* from,
                         float* to) {
  using namespace detail;
  constexpr long piece = 1024;
  const long pieces = blocks_of(size, piece);
  auto task = [&](int index, int) {
    const long first = index % pieces * piece, count = smaller(piece, size - first);
    const long sample = index / pieces * sample_lanes, samples = batch - sample;
    const long here = sample * size + first, there = sample * size + first * sample_lanes;
    if (from_layout == Layout::standard) {
      to_samples_last(from + here, size, samples, count, to + there);
    } else {
      from_samples_last(from + there, count, to + here, size, samples);
    }
  };
  run_tasks(workers, sample_groups(batch) * pieces,
            static_cast<double>(batch) * static_cast<double>(size) < inline_elements, task);
}

}  // namespace tenet::cpu
