#pragma once

#include <type_traits>
#include <utility>

#include "tenet/core/vector.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/tile.hpp"

/// The tile of direct convolutions with samples in the vector lanes: some channels by some positions, or by some taps,
/// that stay in registers while three nested loops go over the sum. The passes differ in the steps of these loops,
/// which are numbers, and in what the left operand is: one number for all samples, or one for each. So few tiles are
/// compiled.
namespace tenet::cpu::detail {

/// The sum of a tile: three nested loops, and how far each of them steps in both operands.
struct LaneSum {
  long trips[3], left_steps[3], right_steps[3];
};

template <class Left, int... J>
[[gnu::always_inline]] inline void multiply_lanes(Left left, const Vector* right, Vector* sum,
                                                  std::integer_sequence<int, J...>) {
  ((sum[J] += left * right[J]), ...);
}
template <class Left, int Columns, int... I>
[[gnu::always_inline]] inline void multiply_lane_rows(const float* left, long left_row, const Vector* right,
                                                      Vector (*sum)[Columns], std::integer_sequence<int, I...>) {
  if constexpr (std::is_same_v<Left, float>) {
    (multiply_lanes(left[I], right, sum[I], std::make_integer_sequence<int, Columns>{}), ...);
  } else {
    (multiply_lanes(load(left + I * left_row), right, sum[I], std::make_integer_sequence<int, Columns>{}), ...);
  }
}
template <int... J>
[[gnu::always_inline]] inline void load_lanes(const float* from, long step, Vector* to,
                                              std::integer_sequence<int, J...>) {
  ((to[J] = load(from + J * step), keep_in_register(to[J])), ...);
}
template <int... J>
[[gnu::always_inline]] inline void store_lanes(float* to, long step, const Vector* from,
                                               std::integer_sequence<int, J...>) {
  (store(to + J * step, from[J]), ...);
}
template <int Columns, int... I>
[[gnu::always_inline]] inline void load_lane_rows(const float* from, long row, long column, Vector (*to)[Columns],
                                                  int rows, std::integer_sequence<int, I...>) {
  ((I < rows ? load_lanes(from + I * row, column, to[I], std::make_integer_sequence<int, Columns>{}) : void()), ...);
}
template <int Columns, int... I>
[[gnu::always_inline]] inline void store_lane_rows(float* to, long row, long column, const Vector (*from)[Columns],
                                                   int rows, std::integer_sequence<int, I...>) {
  ((I < rows ? store_lanes(to + I * row, column, from[I], std::make_integer_sequence<int, Columns>{}) : void()), ...);
}

/// result[i * result_row + j * result_column] = (or +=) the sum over three loops of left[i * left_row] *
/// right[j * right_column], for i < rows <= Rows and j < Columns; one vector each.
///
/// Left: float (one number for all samples: a weight, left_row = 1) or Vector (one for each sample).
template <class Left, int Rows, int Columns>
void lane_tile(const LaneSum& s, const float* left, long left_row, const float* right, long right_column, float* result,
               long result_row, long result_column, int rows, bool accumulate) {
  constexpr std::make_integer_sequence<int, Rows> all_rows{};
  constexpr std::make_integer_sequence<int, Columns> all_columns{};
  if constexpr (std::is_same_v<Left, float>) {  // the result's lines arrive while the sum is computed
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < Columns; ++j) __builtin_prefetch(result + i * result_row + j * result_column, 1);
    }
  }
  Vector sum[Rows][Columns] = {};
  if (accumulate) load_lane_rows<Columns>(result, result_row, result_column, sum, rows, all_rows);
  for (long a = 0; a < s.trips[0]; ++a, left += s.left_steps[0], right += s.right_steps[0]) {
    const float *left_b = left, *right_b = right;
    for (long b = 0; b < s.trips[1]; ++b, left_b += s.left_steps[1], right_b += s.right_steps[1]) {
      const float *x = left_b, *y = right_b;
      for (long c = s.trips[2]; c > 0; --c, x += s.left_steps[2], y += s.right_steps[2]) {
        Vector columns[Columns];
        load_lanes(y, right_column, columns, all_columns);
        multiply_lane_rows<Left, Columns>(x, left_row, columns, sum, all_rows);
      }
    }
  }
  store_lane_rows<Columns>(result, result_row, result_column, sum, rows, all_rows);
}

using LaneTile = void (*)(const LaneSum&, const float*, long, const float*, long, float*, long, long, int, bool);

/// Tiles of one number of rows and 1, 2, … columns: a tile costs most where its sums fill the registers, 24 of 32 or 12
/// of 16, as then it multiplies most for what it loads.
struct LaneTiles {
  long most_columns;
  LaneTile tile[6];

  /// Columns of the next tile when `count` are left: as equal as possible, as narrow tiles wait for their loads.
  constexpr long next(long count) const { return blocks_of(count, blocks_of(count, most_columns)); }
};

template <class Left, int Rows, int... J>
constexpr LaneTiles make_lane_tiles(std::integer_sequence<int, J...>) {
  return {sizeof...(J), {lane_tile<Left, Rows, J + 1>...}};
}
template <class Left, int Rows>
inline constexpr LaneTiles lane_tiles = make_lane_tiles<Left, Rows>(
    std::make_integer_sequence<int, (vector_registers == 32 ? std::is_same_v<Left, float> ? 24 : 20 : 12) / Rows>{});

}  // namespace tenet::cpu::detail
