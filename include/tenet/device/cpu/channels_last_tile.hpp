#pragma once

#include <utility>

#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/tile.hpp"

/// Tiles of products whose left factor lies in an image with its channels last: its rows are runs of channels, found by
/// pointers, so that patches need not be laid out in memory.
namespace tenet::cpu::detail {

/// Rows of the lower tile; what is left over is filled up to it.
inline constexpr int low_rows = 4;

/// Terms of the sums of a tile that lie one after the other in each of its rows, and in the panel from row `right` on.
struct RowRun {
  const float* rows[wide_rows];
  long right, count;
};

template <class Factor, int Vectors, int... I>
[[gnu::always_inline]] inline void multiply_runs(const float* const* a, long k, const Vector* right,
                                                 Vector (*sum)[Vectors], std::integer_sequence<int, I...>) {
  (multiply_row<Factor>(Term<Factor>::left(a[I] + k), right, sum[I], std::make_integer_sequence<int, Vectors>{}), ...);
}

template <class Factor, int Vectors, int... I>
[[gnu::always_inline]] inline void add_run(const RowRun& run, const float* b, Vector (*sum)[Vectors],
                                           std::integer_sequence<int, I...> rows) {
  constexpr std::make_integer_sequence<int, Vectors> vectors{};
  const float* const a[] = {run.rows[I]...};
  const long count = run.count;
  for (long k = 0; k < count; ++k, b += Vectors * vector_width) {
    Vector right[Vectors];
    load_right(b, right, vectors);
    multiply_runs<Factor, Vectors>(a, k, right, sum, rows);
  }
}

template <int Vectors, int... I>
[[gnu::always_inline]] inline void fetch_rows(float* const* c, std::integer_sequence<int, I...>) {
  (fetch_row(c[I], std::make_integer_sequence<int, Vectors>{}), ...);
}

template <int Vectors, int... I>
[[gnu::always_inline]] inline void put_rows(float* const* c, Vector (*sum)[Vectors], bool accumulate,
                                            std::integer_sequence<int, I...>) {
  constexpr std::make_integer_sequence<int, Vectors> vectors{};
  if (accumulate) (add_row(c[I], sum[I], vectors), ...);
  (store_row(c[I], sum[I], vectors), ...);
}

/// c[i] [Vectors * vector_width] = (or +=) the sum over all terms of `runs` of rows[i][k] * panel[right + k].
template <class Factor, int Rows, int Vectors>
void run_tile(const RowRun* run, const RowRun* end, const float* panel, float* const* c, bool accumulate) {
  constexpr std::make_integer_sequence<int, Rows> rows{};
  Vector sum[Rows][Vectors] = {};
  for (; run != end; ++run) {
    if (run + 1 == end) fetch_rows<Vectors>(c, rows);
    add_run<Factor, Vectors>(*run, panel + run->right * Vectors * vector_width, sum, rows);
  }
  put_rows<Vectors>(c, sum, accumulate, rows);
}

/// Where one term of a sum over positions is read: the channels of the image, and the row of a panel of the results'.
struct PositionTerm {
  const float* left;
  long right;
};

template <class Factor, int Vectors, int... I>
[[gnu::always_inline]] inline void multiply_channels(const float* a, const Vector* right, Vector (*sum)[Vectors],
                                                     std::integer_sequence<int, I...>) {
  (multiply_row<Factor>(Term<Factor>::left(a + I), right, sum[I], std::make_integer_sequence<int, Vectors>{}), ...);
}

/// c [Rows, Vectors * vector_width] = (or +=) the sum over terms of left[channel + i] * panel[right * panel_row + j].
template <class Factor, int Rows, int Vectors>
void position_tile(const PositionTerm* term, const PositionTerm* end, long channel, const float* panel, long panel_row,
                   float* c, long c_row, bool accumulate) {
  constexpr std::make_integer_sequence<int, Rows> rows{};
  constexpr std::make_integer_sequence<int, Vectors> vectors{};
  Vector sum[Rows][Vectors] = {};
  const PositionTerm* const fetch = end - smaller(end - term, 4 * Rows);  // the lines of the result come meanwhile
  for (int i = 0; i <= Rows; ++i) {
    for (const PositionTerm* const until = i < Rows ? fetch + (end - fetch) * i / Rows : end; term < until; ++term) {
      Vector right[Vectors];
      load_right(panel + term->right * panel_row, right, vectors);
      multiply_channels<Factor, Vectors>(term->left + channel, right, sum, rows);
    }
    if (i < Rows) fetch_row(c + i * c_row, vectors);
  }
  if (accumulate) add_rows<Vectors>(c, c_row, sum, rows);
  store_rows<Vectors>(c, c_row, sum, rows);
}

using RunTile = void (*)(const RowRun*, const RowRun*, const float*, float* const*, bool);
using PositionTile = void (*)(const PositionTerm*, const PositionTerm*, long, const float*, long, float*, long, bool);

/// The low and the high tile.
template <class F>
inline constexpr auto run_tiles = []<int... V>(std::integer_sequence<int, V...>) {
  return TileTable<RunTile, 2>{{{run_tile<F, low_rows, V + 1>...}, {run_tile<F, wide_rows, V + 1>...}}};
}(std::make_integer_sequence<int, wide_vectors>{});
template <class F>
inline constexpr auto position_tiles = []<int... V>(std::integer_sequence<int, V...>) {
  return TileTable<PositionTile, 2>{{{position_tile<F, low_rows, V + 1>...}, {position_tile<F, wide_rows, V + 1>...}}};
}(std::make_integer_sequence<int, wide_vectors>{});

/// Rows of the next tile for `left` rows: 7 and 8 are 4 + 4, not 6 + 2, which would fill up more.
constexpr int rows_of_tile(long left) { return left > low_rows && (left < 7 || left > 8) ? wide_rows : low_rows; }

}  // namespace tenet::cpu::detail
