#pragma once

#include <cstring>

#include "tenet/core/vector.hpp"

/// Transposing matrices of floats in registers, a vector of rows at a time.
namespace tenet::cpu::detail {

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
/// a0 a2 a4 … b0 b2 b4 …, and a0 b0 a1 b1 …: the first and the second half.
inline Vector even_lanes(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
inline Vector interleave_low(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
inline Vector interleave_high(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
#elif defined(__AVX__)
inline Vector load_quarters(const float* from, long step) {
  return __builtin_shufflevector(load_quarter(from), load_quarter(from + step), 0, 1, 2, 3, 4, 5, 6, 7);
}
inline Vector zip_low(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13); }
inline Vector zip_high(Vector a, Vector b) { return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15); }
inline Vector low_halves(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13); }
inline Vector high_halves(Vector a, Vector b) { return __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15); }
inline Vector even_lanes(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14); }
inline Vector interleave_low(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
inline Vector interleave_high(Vector a, Vector b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
#else
inline Vector even_lanes(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6); }
inline Vector interleave_low(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
inline Vector interleave_high(Vector a, Vector b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
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

/// to[j * to_row + i] = from[i * from_row + j] for i < rows, j < columns: 4 x 4 at a time in registers.
[[gnu::noinline]] inline void transpose(const float* from, long from_row, long rows, long columns, float* to,
                                        long to_row) {
  long i = 0;
  for (; i + 4 <= rows; i += 4) {
    const float* source = from + i * from_row;
    long j = 0;
    for (; j + 4 <= columns; j += 4, source += 4) {
      Quarter a, b, c, d;
      std::memcpy(&a, source, 16);
      std::memcpy(&b, source + from_row, 16);
      std::memcpy(&c, source + 2 * from_row, 16);
      std::memcpy(&d, source + 3 * from_row, 16);
      const Quarter ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
                    ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const Quarter cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                    cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      a = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
      b = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
      c = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
      d = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
      float* target = to + j * to_row + i;
      std::memcpy(target, &a, 16);
      std::memcpy(target + to_row, &b, 16);
      std::memcpy(target + 2 * to_row, &c, 16);
      std::memcpy(target + 3 * to_row, &d, 16);
    }
    for (; j < columns; ++j, ++source) {
      for (int u = 0; u < 4; ++u) to[j * to_row + i + u] = source[u * from_row];
    }
  }
  for (; i < rows; ++i) {
    for (long j = 0; j < columns; ++j) to[j * to_row + i] = from[i * from_row + j];
  }
}

/// Rows a multiple of 4 KiB apart compete for the same lines of the first-level cache, which holds fewer than a vector
/// has lanes: every line is read once, into a block of its own.
[[gnu::noinline]] inline void transpose_colliding(const float* from, long from_row, long columns, float* to,
                                                  long to_row) {
  float block[vector_width * vector_width];
  for (long j = 0; j < columns; j += vector_width) {
    if (j > columns - vector_width) j = columns - vector_width;
    for (int i = 0; i < vector_width; ++i) store(block + i * vector_width, load(from + i * from_row + j));
    for (int k = 0; k < vector_width; k += 4) {
      transpose_block(block + k, vector_width, 4 * vector_width, to + (j + k) * to_row, to_row);
    }
  }
}

/// to[j * to_row + i] = from[i * from_row + j] for i < rows, j < columns, like `transpose`, by whole vectors where
/// there are enough rows: the last blocks overlap those before. The two matrices do not overlap.
inline void transpose_vectors(const float* from, long from_row, long rows, long columns, float* to, long to_row) {
  if (rows < vector_width || columns < 4) return transpose(from, from_row, rows, columns, to, to_row);
  for (long i = 0; i < rows; i += vector_width) {
    if (i > rows - vector_width) i = rows - vector_width;
    if (from_row % 1024 == 0 && columns >= vector_width) {
      transpose_colliding(from + i * from_row, from_row, columns, to + i, to_row);
      continue;
    }
    for (long j = 0; j < columns; j += 4) {
      if (j > columns - 4) j = columns - 4;
      transpose_block(from + i * from_row + j, from_row, 4 * from_row, to + j * to_row + i, to_row);
    }
  }
}

}  // namespace tenet::cpu::detail
