#pragma once

#include <utility>

#include "tenet/core/vector.hpp"

/// The inner kernel of every product: one tile of the result held in registers.
namespace tenet::cpu::detail {

/// A tile is 8 x 3 vectors with 32 registers (24 sums, 3 of the right operand, 1 of the left), 4 x 3 with 16.
inline constexpr int tile_rows = vector_width == 16 ? 8 : 4;
inline constexpr int tile_vectors = 3;
inline constexpr int tile_columns = tile_vectors * vector_width;

/// Keeps a value in a register: GCC would load it again from memory for each use.
inline void keep_in_register([[maybe_unused]] Vector& x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#elif defined(__SSE2__)
  asm("" : "+x"(x));
#endif
}

// The loops over a tile are unrolled by folds: pragmas for this differ between compilers, and nvcc drops them and the
// attributes of lambdas.

template <int... J>
[[gnu::always_inline]] inline void load_right(const float* b, Vector* right, std::integer_sequence<int, J...>) {
  ((right[J] = load(b + J * vector_width), keep_in_register(right[J])), ...);
}

template <int... J>
[[gnu::always_inline]] inline void multiply_row(float left, const Vector* right, Vector* sum,
                                                std::integer_sequence<int, J...>) {
  ((sum[J] += left * right[J]), ...);
}

template <int Vectors, int... I>
[[gnu::always_inline]] inline void multiply_rows(const float* a, long a_row, const Vector* right,
                                                 Vector (*sum)[Vectors], std::integer_sequence<int, I...>) {
  (multiply_row(a[I * a_row], right, sum[I], std::make_integer_sequence<int, Vectors>{}), ...);
}

template <int... J>
[[gnu::always_inline]] inline void store_row(float* c, const Vector* sum, bool accumulate,
                                             std::integer_sequence<int, J...>) {
  if (accumulate) {
    (store(c + J * vector_width, load(c + J * vector_width) + sum[J]), ...);
  } else {
    (store(c + J * vector_width, sum[J]), ...);
  }
}

template <int Vectors, int... I>
[[gnu::always_inline]] inline void store_rows(float* c, long c_row, const Vector (*sum)[Vectors], bool accumulate,
                                              std::integer_sequence<int, I...>) {
  (store_row(c + I * c_row, sum[I], accumulate, std::make_integer_sequence<int, Vectors>{}), ...);
}

/// c [Rows, Vectors * vector_width] = (or +=) the sum over k < inner of a[i * a_row + k * a_step] * b[k * b_step + j].
template <int Rows, int Vectors>
void tile(long inner, const float* a, long a_row, long a_step, const float* b, long b_step, float* c, long c_row,
          bool accumulate) {
  constexpr std::make_integer_sequence<int, Rows> rows{};
  constexpr std::make_integer_sequence<int, Vectors> vectors{};
  Vector sum[Rows][Vectors] = {};
  for (long k = 0; k < inner; ++k, a += a_step, b += b_step) {
    Vector right[Vectors];
    load_right(b, right, vectors);
    multiply_rows<Vectors>(a, a_row, right, sum, rows);
  }
  store_rows<Vectors>(c, c_row, sum, accumulate, rows);
}

using Tile = void (*)(long, const float*, long, long, const float*, long, float*, long, bool);

/// The tiles of 1, 2, 4 and 8 rows, each of 1, 2 and 3 vectors.
inline constexpr Tile tile_choices[4][tile_vectors] = {{tile<1, 1>, tile<1, 2>, tile<1, 3>},
                                                       {tile<2, 1>, tile<2, 2>, tile<2, 3>},
                                                       {tile<4, 1>, tile<4, 2>, tile<4, 3>},
                                                       {tile<tile_rows, 1>, tile<tile_rows, 2>, tile<tile_rows, 3>}};

/// Like `tile`, for any number of rows <= tile_rows: 7 rows are 4 + 2 + 1.
inline void any_tile(int rows, int vectors, long inner, const float* a, long a_row, long a_step, const float* b,
                     long b_step, float* c, long c_row, bool accumulate) {
  if (rows == tile_rows) {
    tile_choices[3][vectors - 1](inner, a, a_row, a_step, b, b_step, c, c_row, accumulate);
    return;
  }
  for (int kind = 2; rows > 0; --kind) {
    if ((rows & (1 << kind)) == 0) continue;
    tile_choices[kind][vectors - 1](inner, a, a_row, a_step, b, b_step, c, c_row, accumulate);
    a += (1 << kind) * a_row;
    c += (1 << kind) * c_row;
    rows -= 1 << kind;
  }
}

}  // namespace tenet::cpu::detail
