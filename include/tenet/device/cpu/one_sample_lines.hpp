#pragma once

#include <type_traits>
#include <utility>

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/tile.hpp"
#include "tenet/device/cpu/transpose.hpp"
#include "tenet/device/cpu/winograd_matrices.hpp"

/// The convolution of one sample by Winograd's algorithm along the lines (winograd_samples_last.hpp), for result
/// channels that fill vectors. The source's lines stand in the lanes while they are transformed, the result channels
/// where transformed numbers and weights are multiplied: the sums of a whole line of tiles, or of one tile, stay in
/// registers.
namespace tenet::cpu::detail {

template <Conv2dGeometry g>
struct OneSampleLines {
  static constexpr int taps = g.kernel_height, points = WinogradPoints<taps>::count;
  static constexpr int vectors = (g.out_channels + vector_width - 1) / vector_width;
  static constexpr long row = long{vectors} * vector_width;
  static constexpr int tiles = static_cast<int>(blocks_of(g.out_width(), winograd_out));
  static constexpr int most = vector_registers == 32 ? 24 : 12;  // sums in registers
  static constexpr int possible = most / (points * vectors);
  static constexpr int together = possible < 1 ? 1 : possible < tiles ? possible : tiles, rest = tiles % together;
  /// Source lines of all channels, and what a point of a tile takes for them.
  static constexpr long lines = long{1} * g.channels * g.height, step = round_up(lines, vector_width);

  static constexpr long turned = g.width * step, values = tiles * points * step;
  static constexpr long weights = g.taps() / taps * points * row;
  static constexpr long results = (g.positions() + winograd_out) * row;
  static constexpr long floats = turned + values + g.taps() * row + weights + results;
};

/// values [tiles, points, lines] = the transformed tiles of turned [width, lines].
template <Conv2dGeometry g>
void transform_source_lines(const float* turned, float* values) {
  using Cut = OneSampleLines<g>;
  for (long tile = 0; tile < Cut::tiles; ++tile) {
    const long x = tile * winograd_out - g.padding;
    for (long line = 0; line < Cut::step; line += vector_width)
      transform_line<InputTransform<Cut::taps>>(
          [&](int j) {
            return x + j >= 0 && x + j < g.width ? load(turned + (x + j) * Cut::step + line) : zero_lanes();
          },
          [&](int i, Vector value) { store(values + (tile * Cut::points + i) * Cut::step + line, value); });
  }
}

/// transformed [channels, taps, points, row] = the lines of the kernels of weight [channels, taps, taps, row].
template <Conv2dGeometry g>
void transform_kernel_lines(const float* weight, float* transformed) {
  using Cut = OneSampleLines<g>;
  for (long line = 0; line < g.channels * Cut::taps; ++line) {
    for (long o = 0; o < Cut::row; o += vector_width)
      transform_line<WeightTransform<Cut::taps>>(
          [&](int i) { return load(weight + (line * Cut::taps + i) * Cut::row + o); },
          [&](int i, Vector value) { store(transformed + (line * Cut::points + i) * Cut::row + o, value); });
  }
}

/// result [tiles, 4, row] = `Tiles` tiles of line y; the last one may reach into the line behind it.
template <Conv2dGeometry g, int Tiles, int... Sum>
void sum_tiles(const float* values, const float* weights, long y, float* result, std::integer_sequence<int, Sum...>) {
  using Cut = OneSampleLines<g>;
  constexpr int vectors = Cut::vectors, of_tile = Cut::points * vectors;
  Vector sum[Tiles * of_tile] = {};
  for (long c = 0; c < g.channels; ++c) {
    for (long u = 0; u < Cut::taps; ++u, weights += Cut::points * Cut::row) {
      const long line = y + u - g.padding;
      if (line < 0 || line >= g.height) continue;
      const float* const value = values + c * g.height + line;
      Vector weight[of_tile];
      load_right(weights, weight, std::make_integer_sequence<int, of_tile>{});
      ((sum[Sum] += value[(Sum / of_tile * Cut::points + Sum % of_tile / vectors) * Cut::step] * weight[Sum % of_tile]),
       ...);
    }
  }
  for (int tile = 0; tile < Tiles; ++tile) {
    for (int o = 0; o < vectors; ++o)
      transform_line<ResultTransform<Cut::taps>>(
          [&](int i) { return sum[(tile * Cut::points + i) * vectors + o]; },
          [&](int j, Vector value) { store(result + (tile * winograd_out + j) * Cut::row + o * vector_width, value); });
  }
}

/// `room`: `OneSampleLines<g>::floats`.
template <Conv2dGeometry g>
void convolve_lines(const float* input, const float* weight, float* result, float* room) {
  using Cut = OneSampleLines<g>;
  float* const values = room + Cut::turned;
  float* const turned_weight = values + Cut::values;
  float* const weights = turned_weight + g.taps() * Cut::row;
  float* const results = weights + Cut::weights;
  transpose_vectors(input, g.width, Cut::lines, g.width, room, Cut::step);
  transform_source_lines<g>(room, values);
  if constexpr (g.out_channels < Cut::row) fill_floats(turned_weight, 0, g.taps() * Cut::row);
  transpose_vectors(weight, g.taps(), g.out_channels, g.taps(), turned_weight, Cut::row);
  transform_kernel_lines<g>(turned_weight, weights);
  constexpr int sums = Cut::points * Cut::vectors;
  for (long y = 0; y < g.out_height(); ++y) {
    int tile = 0;
    auto sum = [&]<int Tiles>(std::integral_constant<int, Tiles>) {
      sum_tiles<g, Tiles>(values + tile * Cut::points * Cut::step, weights, y,
                          results + (y * g.out_width() + tile * winograd_out) * Cut::row,
                          std::make_integer_sequence<int, sums * Tiles>{});
      tile += Tiles;
    };
    while (tile + Cut::together <= Cut::tiles) sum(std::integral_constant<int, Cut::together>{});
    if constexpr (Cut::rest > 0) sum(std::integral_constant<int, Cut::rest>{});
  }
  transpose_vectors(results, Cut::row, g.positions(), g.out_channels, result, g.positions());
}

}  // namespace tenet::cpu::detail
