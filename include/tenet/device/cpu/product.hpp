#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tenet/device/cpu/tile.hpp"
#include "tenet/device/cpu/transpose.hpp"

/// Products of matrices on one thread; nothing is allocated.
///
/// A tile reads its rows of the left operand where they lie, and its panel of the right operand, some vectors wide,
/// either there or packed. Both come from the second-level cache without loss, so a tile sums as many terms as fit into
/// it: the result, whose lines are far apart, is touched once. The order of additions depends on the shapes only: sums
/// of up to `most_terms` terms, added in order.
///
/// `Factor` says what lies in the place of each float of both operands: that float, or a pair of bfloat16 (`Term`).
/// Copying and transposing are the same for both.
namespace tenet::cpu::detail {

/// Blocks of convolutions: `block_inner` rows of a tile's columns fill the first-level cache (24 KiB).
inline constexpr long block_inner = 128, block_rows = 128;
/// Terms of a sum that are added in registers.
inline constexpr long most_terms = 512;
/// A left operand that must be transposed is so by blocks.
inline constexpr long left_block_rows = 256, left_block_terms = 256;
/// Distance of its rows: not a power of two, whose multiples would compete for the same cache lines.
constexpr long left_row(long terms) { return (terms + vector_width - 1) / vector_width * vector_width + 16; }
/// Floats of scratch for one product: a panel of the right operand, and a block of the left one.
inline constexpr long product_scratch = most_terms * wide_columns + left_block_rows * left_row(left_block_terms);

constexpr long smaller(long a, long b) { return a < b ? a : b; }
constexpr long blocks_of(long size, long block) { return (size + block - 1) / block; }
constexpr long round_up(long size, long unit) { return blocks_of(size, unit) * unit; }

/// A matrix in memory: element (i, j) is data[i * row + j * column]; one of both distances is 1.
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

/// Columns of a right operand in panels: equal shares of its vectors, at most wide_vectors each.
struct PanelCut {
  long vectors, count;

  constexpr explicit PanelCut(long columns)
      : vectors(blocks_of(columns, vector_width)), count(blocks_of(vectors, wide_vectors)) {}
  constexpr long first(long panel) const { return panel * vectors / count * vector_width; }
  constexpr long width(long panel) const { return first(panel + 1) - first(panel); }
};

/// Whether tiles may read a right operand where it lies: whole vectors that cross no cache lines, in rows near enough
/// to each other for the processor to fetch ahead and for the first-level cache to hold some.
inline bool reads_in_place(const Matrix& b, long columns) {
  return b.column == 1 && b.row % vector_width == 0 && b.row <= 400 && columns % vector_width == 0 &&
         reinterpret_cast<std::uintptr_t>(b.data) % sizeof(Vector) == 0;
}

/// to [terms, width] = a panel of the right operand, zero beyond its `columns`.
inline void pack_panel(long terms, long columns, long width, Matrix b, float* to) {
  if (columns < width) {
    for (long k = 0; k < terms; ++k) store(to + (k + 1) * width - vector_width, zero_lanes());
  }
  if (b.column != 1) return transpose_vectors(b.data, b.column, columns, terms, to, width);
  for (long k = 0; k < terms; ++k) copy_floats(to + k * width, b.data + k * b.row, columns);
}

/// c [rows, columns] = (or +=) a [rows, terms] * panel [terms, columns], of which `width` columns may be read.
template <class Factor>
[[gnu::noinline]] void multiply_panel(long rows, long columns, long width, long terms, const float* a, long a_row,
                                      const float* panel, long panel_row, float* c, long c_row, bool accumulate) {
  const int vectors = static_cast<int>(width / vector_width);
  if (columns == width) {
    tiles<Factor>(rows, vectors, terms, a, a_row, 1, panel, panel_row, c, c_row, accumulate);
    return;
  }
  float buffer[tile_rows * wide_columns];
  for (; rows > 0; rows -= tile_rows, a += tile_rows * a_row) {
    const long height = smaller(tile_rows, rows);
    tiles<Factor>(height, vectors, terms, a, a_row, 1, panel, panel_row, buffer, width, false);
    for (long i = 0; i < height; ++i, c += c_row) {
      if (accumulate) {
        add_floats(c, buffer + i * width, columns);
      } else {
        copy_floats(c, buffer + i * width, columns);
      }
    }
  }
}

/// The same for a panel of a matrix of rows, which is packed: what the first tile reads it keeps for those below, so
/// that reading from a far cache and multiplying overlap.
template <class Factor>
void pack_and_multiply_panel(long rows, long columns, long width, long terms, const float* a, long a_row, Matrix b,
                             float* packed, float* c, long c_row, bool accumulate) {
  if (b.column == 1 && columns == wide_columns && rows >= wide_rows) {
    packing_tile<Factor>(terms, a, a_row, b.data, b.row, c, c_row, accumulate, packed);
    rows -= wide_rows;
    a += wide_rows * a_row;
    c += wide_rows * c_row;
  } else {
    pack_panel(terms, columns, width, b, packed);
  }
  multiply_panel<Factor>(rows, columns, width, terms, a, a_row, packed, width, c, c_row, accumulate);
}

/// Panels [first, last) of a product: c [rows, columns] = (or +=) a [rows, inner] * b [inner, columns], where c and b
/// point to the first column of all. `packed`: all panels as `pack_panel` packs them, one after the other, or null;
/// then they are packed here, unless tiles may read them in place.
template <class Factor>
[[gnu::noinline]] void multiply_panels(long rows, long columns, long inner, Matrix a, Matrix b, const float* packed,
                                       long first, long last, float* c, long c_row, bool accumulate, float* scratch) {
  const bool transposed = a.column != 1, in_place = reads_in_place(b, columns);
  const long most = transposed ? left_block_terms : most_terms, block = blocks_of(inner, blocks_of(inner, most));
  const long row_block = transposed ? smaller(rows, left_block_rows) : rows, block_row = left_row(block);
  const PanelCut panels(columns);
  float* const packed_left = scratch + most_terms * wide_columns;
  for (long k0 = 0; k0 < inner; k0 += block) {
    const long terms = smaller(block, inner - k0);
    const bool add = accumulate || k0 > 0;
    for (long i0 = 0; i0 < rows; i0 += row_block) {
      const long height = smaller(row_block, rows - i0);
      Matrix left{a.data + i0 * a.row + k0 * a.column, a.row, a.column};
      if (transposed) {
        transpose_vectors(left.data, a.column, terms, height, packed_left, block_row);
        left = {packed_left, block_row, 1};
      }
      for (long panel = first; panel < last; ++panel) {
        const long j0 = panels.first(panel), width = panels.width(panel), valid = smaller(width, columns - j0);
        const Matrix right{b.data + k0 * b.row + j0 * b.column, b.row, b.column};
        float* const to = c + i0 * c_row + j0;
        if (packed == nullptr && !in_place) {
          pack_and_multiply_panel<Factor>(height, valid, width, terms, left.data, left.row, right, scratch, to, c_row,
                                          add);
          continue;
        }
        multiply_panel<Factor>(height, valid, width, terms, left.data, left.row,
                               packed == nullptr ? right.data : packed + j0 * inner + k0 * width,
                               packed == nullptr ? right.row : width, to, c_row, add);
      }
    }
  }
}

/// c[j] = the sum over k < inner of a[k] * b[j * b_row + k] for four rows, in vectors along k.
template <class Factor>
void four_dots(long inner, const float* a, const float* b, long b_row, float* c) {
  Vector sum0 = zero_lanes(), sum1{}, sum2{}, sum3{};
  long k = 0;
  for (; k + vector_width <= inner; k += vector_width) {
    const Vector x = load(a + k);
    sum0 = Term<Factor>::added(sum0, x, load(b + k));
    sum1 = Term<Factor>::added(sum1, x, load(b + b_row + k));
    sum2 = Term<Factor>::added(sum2, x, load(b + 2 * b_row + k));
    sum3 = Term<Factor>::added(sum3, x, load(b + 3 * b_row + k));
  }
  if (k < inner) {
    float lanes[4][vector_width] = {}, x[vector_width] = {};
    for (long u = 0; u < inner - k; ++u) {
      x[u] = a[k + u];
      for (int j = 0; j < 4; ++j) lanes[j][u] = b[j * b_row + k + u];
    }
    sum0 = Term<Factor>::added(sum0, load(x), load(lanes[0]));
    sum1 = Term<Factor>::added(sum1, load(x), load(lanes[1]));
    sum2 = Term<Factor>::added(sum2, load(x), load(lanes[2]));
    sum3 = Term<Factor>::added(sum3, load(x), load(lanes[3]));
  }
  c[0] = horizontal_sum(sum0);
  c[1] = horizontal_sum(sum1);
  c[2] = horizontal_sum(sum2);
  c[3] = horizontal_sum(sum3);
}

/// c [rows, columns] = (or +=) a [rows, inner] * b [inner, columns], on this thread; `scratch`: `product_scratch`
/// floats.
template <class Factor = float>
void product(long rows, long columns, long inner, Matrix a, Matrix b, float* c, long c_row, bool accumulate,
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
        four_dots<Factor>(inner, a.data + i * a.row, b.data + j * b.column, valid == 4 ? b.column : 0, sums);
        if (valid < 4) {
          for (long u = 1; u < valid; ++u) {
            float repeated[4];
            four_dots<Factor>(inner, a.data + i * a.row, b.data + (j + u) * b.column, 0, repeated);
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
      tiles<Factor>(rows, vectors, inner, a.data, a.row, a.column, b.data + j, b.row, c + j, c_row, accumulate);
    }
    columns -= whole;
    c += whole;
    b.data += whole;
    if (columns == 0) return;
  }
  multiply_panels<Factor>(rows, columns, inner, a, b, nullptr, 0, PanelCut(columns).count, c, c_row, accumulate,
                          scratch);
}

}  // namespace tenet::cpu::detail
