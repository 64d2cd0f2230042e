#pragma once

#include <cstring>
#include <type_traits>

#include "tenet/device/cpu/tile.hpp"

/// Products of matrices on one thread, in blocks packed into scratch memory; nothing is allocated.
///
/// The order of additions depends on the shapes only: sums of `block_inner` terms, added in order.
namespace tenet::cpu::detail {

/// A block of the right operand that is packed at once; `block_inner` rows of a tile's columns fill the first-level
/// cache (24 KiB), the packed blocks half a second-level cache.
inline constexpr long block_inner = 128, block_rows = 128, block_columns = 384;
/// Distance of packed left rows: not a power of two, whose multiples would compete for the same cache lines.
inline constexpr long packed_row = block_inner + 16;
/// Floats of scratch for one product: both packed blocks.
inline constexpr long product_scratch = block_inner * block_columns + block_rows * packed_row;

constexpr long smaller(long a, long b) { return a < b ? a : b; }
constexpr long blocks_of(long size, long block) { return (size + block - 1) / block; }
constexpr long round_up(long size, long unit) { return blocks_of(size, unit) * unit; }

/// A matrix in memory: element (i, j) is data[i * row + j * column].
struct Matrix {
  const float* data;
  long row, column;
};

/// Copies `count` floats without a call: the last piece overlaps the one before, as tails are most of a short run.
[[gnu::always_inline]] inline void copy_floats(float* to, const float* from, long count) {
  if (count >= vector_width) {
    for (long i = 0; i + vector_width < count; i += vector_width) store(to + i, load(from + i));
    store(to + count - vector_width, load(from + count - vector_width));
    return;
  }
  auto two_pieces = [&](auto size) {
    if (count < size.value) return false;
    std::memcpy(to, from, sizeof(float) * size.value);
    std::memcpy(to + count - size.value, from + count - size.value, sizeof(float) * size.value);
    return true;
  };
  if constexpr (vector_width > 8) {
    if (two_pieces(std::integral_constant<long, 8>{})) return;
  }
  if constexpr (vector_width > 4) {
    if (two_pieces(std::integral_constant<long, 4>{})) return;
  }
  for (long i = 0; i < count; ++i) to[i] = from[i];
}

/// Adds `count` floats.
[[gnu::always_inline]] inline void add_floats(float* to, const float* from, long count) {
  typedef float Four __attribute__((vector_size(16)));
  long i = 0;
  for (; i + vector_width <= count; i += vector_width) store(to + i, load(to + i) + load(from + i));
  for (; i + 4 <= count; i += 4) {
    Four a, b;
    std::memcpy(&a, to + i, 16);
    std::memcpy(&b, from + i, 16);
    a += b;
    std::memcpy(to + i, &a, 16);
  }
  for (; i < count; ++i) to[i] += from[i];
}

inline void fill_floats(float* to, float value, long count) {
  for (; count >= vector_width; count -= vector_width, to += vector_width) store(to, broadcast<Vector>(value));
  for (long i = 0; i < count; ++i) to[i] = value;
}

/// to[j * to_row + i] = from[i * from_row + j] for i < rows, j < columns: 4 x 4 at a time in registers.
inline void transpose(const float* from, long from_row, long rows, long columns, float* to, long to_row) {
  typedef float Four __attribute__((vector_size(16)));
  long i = 0;
  for (; i + 4 <= rows; i += 4) {
    const float* source = from + i * from_row;
    long j = 0;
    for (; j + 4 <= columns; j += 4, source += 4) {
      Four a, b, c, d;
      std::memcpy(&a, source, 16);
      std::memcpy(&b, source + from_row, 16);
      std::memcpy(&c, source + 2 * from_row, 16);
      std::memcpy(&d, source + 3 * from_row, 16);
      const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
                 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
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

/// Where packed left rows lie: in panels of tile_rows rows, tile_rows * packed_row floats apart; within a panel element
/// (i, k) is at i * row + k * step.
struct PackedRows {
  long row, step;
};

/// Left operand of `blocked_product` that lies in memory.
struct LeftMatrix {
  Matrix matrix;

  /// Packs rows [i0, i0 + rows) by terms [k0, k0 + terms): panels of tile_rows * packed_row floats.
  PackedRows pack(long i0, long rows, long k0, long terms, float* to) const {
    const float* from = matrix.data + i0 * matrix.row + k0 * matrix.column;
    if (matrix.column == 1) {
      for (long i = 0; i < rows; ++i) copy_floats(to + i * packed_row, from + i * matrix.row, terms);
      return {packed_row, 1};
    }
    for (long i = 0; i < rows; i += tile_rows, to += tile_rows * packed_row) {
      const long height = smaller(tile_rows, rows - i);
      const float* source = from + i * matrix.row;
      if (height == tile_rows && matrix.row == 1) {
        for (long k = 0; k < terms; ++k) std::memcpy(to + k * tile_rows, source + k * matrix.column, 4 * tile_rows);
        continue;
      }
      for (long k = 0; k < terms; ++k) {
        for (long u = 0; u < height; ++u) to[k * tile_rows + u] = source[u * matrix.row + k * matrix.column];
      }
    }
    return {1, tile_rows};
  }
};

/// Right operand of `blocked_product` that lies in memory.
struct RightMatrix {
  Matrix matrix;

  /// Packs terms [k0, k0 + terms) by columns [j0, j0 + columns): panels of tile_columns, each [terms, width], where the
  /// last one's width is rounded up to whole vectors and filled with zeros.
  void pack(long k0, long terms, long j0, long columns, float* to) const {
    for (long j = j0; j < j0 + columns; j += tile_columns) {
      const float* from = matrix.data + k0 * matrix.row + j * matrix.column;
      const long valid = smaller(tile_columns, j0 + columns - j), width = round_up(valid, vector_width);
      if (valid < width) {
        for (long k = 0; k < terms; ++k) store(to + k * width + width - vector_width, Vector{});
      }
      if (matrix.column == 1) {
        for (long k = 0; k < terms; ++k) copy_floats(to + k * width, from + k * matrix.row, valid);
      } else if (matrix.row == 1) {
        transpose(from, matrix.column, valid, terms, to, width);
      } else {
        for (long k = 0; k < terms; ++k) {
          for (long u = 0; u < valid; ++u) to[k * width + u] = from[k * matrix.row + u * matrix.column];
        }
      }
      to += terms * width;
    }
  }
};

/// Result of `blocked_product` as a row-major matrix.
struct ResultMatrix {
  float* data;
  long row_step;
  float* at(long row, long column) const { return data + row * row_step + column; }
  /// How many columns from this one on lie next to each other.
  long run(long) const { return block_columns; }
};

/// result [rows, columns] = (or +=) left [rows, inner] * right [inner, columns]; `scratch` holds `product_scratch`
/// floats.
template <class Left, class Right, class Result>
void blocked_product(long rows, long columns, long inner, const Left& left, const Right& right, const Result& result,
                     bool accumulate, float* scratch) {
  float* const packed_right = scratch;
  float* const packed_left = scratch + block_inner * block_columns;
  for (long j0 = 0; j0 < columns; j0 += block_columns) {
    const long width = smaller(block_columns, columns - j0);
    for (long k0 = 0; k0 < inner || k0 == 0; k0 += block_inner) {
      const long terms = smaller(block_inner, inner - k0);
      const bool add = accumulate || k0 > 0;
      right.pack(k0, terms, j0, width, packed_right);
      for (long i0 = 0; i0 < rows; i0 += block_rows) {
        const long height = smaller(block_rows, rows - i0);
        const PackedRows packed = left.pack(i0, height, k0, terms, packed_left);
        const float* b = packed_right;
        for (long j = 0; j < width; j += tile_columns) {
          const long valid = smaller(tile_columns, width - j), b_step = round_up(valid, vector_width);
          const int vectors = static_cast<int>(b_step / vector_width);
          const bool direct = valid == b_step && result.run(j0 + j) >= valid;
          for (long i = 0; i < height; i += tile_rows) {
            const int tile_height = static_cast<int>(smaller(tile_rows, height - i));
            const float* a = packed_left + i * packed_row;
            if (direct) {
              float* c = result.at(i0 + i, j0 + j);
              any_tile(tile_height, vectors, terms, a, packed.row, packed.step, b, b_step, c, result.row_step, add);
              continue;
            }
            float buffer[tile_rows * tile_columns];
            any_tile(tile_height, vectors, terms, a, packed.row, packed.step, b, b_step, buffer, b_step, false);
            for (long u = 0; u < valid;) {
              const long end = smaller(valid, u + result.run(j0 + j + u));
              float* c = result.at(i0 + i, j0 + j + u);
              for (int v = 0; v < tile_height; ++v, c += result.row_step) {
                const float* from = buffer + v * b_step + u;
                if (add) {
                  add_floats(c, from, end - u);
                } else {
                  copy_floats(c, from, end - u);
                }
              }
              u = end;
            }
          }
          b += terms * b_step;
        }
      }
    }
  }
}

/// c[j] = the sum over k < inner of a[k] * b[j * b_row + k] for four rows, in vectors along k.
inline void four_dots(long inner, const float* a, const float* b, long b_row, float* c) {
  Vector sum0{}, sum1{}, sum2{}, sum3{};
  long k = 0;
  for (; k + vector_width <= inner; k += vector_width) {
    const Vector x = load(a + k);
    sum0 += x * load(b + k);
    sum1 += x * load(b + b_row + k);
    sum2 += x * load(b + 2 * b_row + k);
    sum3 += x * load(b + 3 * b_row + k);
  }
  if (k < inner) {
    float lanes[4][vector_width] = {}, x[vector_width] = {};
    for (long u = 0; u < inner - k; ++u) {
      x[u] = a[k + u];
      for (int j = 0; j < 4; ++j) lanes[j][u] = b[j * b_row + k + u];
    }
    sum0 += load(x) * load(lanes[0]);
    sum1 += load(x) * load(lanes[1]);
    sum2 += load(x) * load(lanes[2]);
    sum3 += load(x) * load(lanes[3]);
  }
  c[0] = horizontal_sum(sum0);
  c[1] = horizontal_sum(sum1);
  c[2] = horizontal_sum(sum2);
  c[3] = horizontal_sum(sum3);
}

/// c [rows, columns] = (or +=) a [rows, inner] * b [inner, columns], on this thread; `scratch`: `product_scratch`
/// floats.
inline void product(long rows, long columns, long inner, Matrix a, Matrix b, float* c, long c_row, bool accumulate,
                    float* scratch) {
  if (inner == 0) {  // an empty sum; its operands may be null
    for (long i = 0; i < rows && !accumulate; ++i)
      for (long j = 0; j < columns; ++j) c[i * c_row + j] = 0;
    return;
  }
  // Packing pays by reuse: with few rows the right operand is read where it lies.
  if (rows <= 4 && b.row == 1 && a.column == 1) {  // rows of both lie along the sum
    for (long j = 0; j < columns; j += 4) {
      const long valid = smaller(4, columns - j);
      for (long i = 0; i < rows; ++i) {
        float sums[4];
        // The last columns repeat one that exists instead of reading beyond the matrix.
        four_dots(inner, a.data + i * a.row, b.data + j * b.column, valid == 4 ? b.column : 0, sums);
        if (valid < 4) {
          for (long u = 1; u < valid; ++u) {
            float repeated[4];
            four_dots(inner, a.data + i * a.row, b.data + (j + u) * b.column, 0, repeated);
            sums[u] = repeated[0];
          }
        }
        for (long u = 0; u < valid; ++u) c[i * c_row + j + u] = accumulate ? c[i * c_row + j + u] + sums[u] : sums[u];
      }
    }
    return;
  }
  if (rows <= 4 && b.column == 1) {
    const long whole = columns / vector_width * vector_width;
    for (long j = 0; j < whole; j += tile_columns) {
      const int vectors = static_cast<int>(smaller(tile_columns, whole - j) / vector_width);
      any_tile(static_cast<int>(rows), vectors, inner, a.data, a.row, a.column, b.data + j, b.row, c + j, c_row,
               accumulate);
    }
    columns -= whole;
    c += whole;
    b.data += whole;
    if (columns == 0) return;
  }
  blocked_product(rows, columns, inner, LeftMatrix{a}, RightMatrix{b}, ResultMatrix{c, c_row}, accumulate, scratch);
}

}  // namespace tenet::cpu::detail
