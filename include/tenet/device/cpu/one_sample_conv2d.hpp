#pragma once

#include <cstring>
#include <tenet/core/geometry.hpp>
#include <tenet/device/cpu/convolution.hpp>
#include <tenet/device/cpu/tile.hpp>
#include <tenet/device/cpu/workers.hpp>

/// The convolution of one sample with few channels, as the first layers of a small network have them. Positions stand
/// in the lanes. The padded image is one long row of numbers, in which the result of a position and that of the next
/// one read neighbouring numbers even across the ends of lines: so vectors are always full, and the few results that
/// belong to no position (of the last kernel width - 1 columns of a line) are left out at the end.
namespace tenet::cpu {

namespace detail {

/// How the one long row is cut. All of it is known where a program is compiled.
template <Conv2dGeometry g>
struct LongRow {
  static constexpr long width = g.width + 2 * g.padding, height = g.height + 2 * g.padding, plane = width * height;
  static constexpr long positions = (g.out_height() - 1) * width + g.out_width();
  static constexpr int vectors = static_cast<int>((positions + vector_width - 1) / vector_width);
  static constexpr int blocks = (g.out_channels + tile_rows - 1) / tile_rows;
  static constexpr int rows = (g.out_channels + blocks - 1) / blocks, last_rows = g.out_channels - (blocks - 1) * rows;
  static constexpr int most = vector_width == 16 ? 24 : 12;  // sums in registers
  static constexpr int tile = most / rows < 4 ? most / rows : 4, whole = vectors / tile, rest = vectors % tile;
  static constexpr long sums_row = long{vectors} * vector_width;
  /// The last vectors read beyond the image.
  static constexpr long image_floats = g.channels * plane + 2 * vector_width + g.kernel_width;
  static constexpr long floats = (image_floats + 15) / 16 * 16 + g.out_channels * sums_row;
};

/// Sums for `Rows` result channels and `Vectors` vectors of positions.
template <int Rows, int Vectors>
void long_row_tile(const Conv2dGeometry& g, long plane, long width, const float* image, const float* weight, float* to,
                   long to_row) {
  constexpr std::make_integer_sequence<int, Rows> rows{};
  constexpr std::make_integer_sequence<int, Vectors> vectors{};
  const long taps = g.taps();
  Vector sum[Rows][Vectors] = {};
  for (int c = 0; c < g.channels; ++c, image += plane) {
    const float* line = image;
    for (int ky = 0; ky < g.kernel_height; ++ky, line += width) {
      for (int kx = 0; kx < g.kernel_width; ++kx, ++weight) {
        Vector right[Vectors];
        load_right(line + kx, right, vectors);
        multiply_rows<Vectors>(weight, taps, right, sum, rows);
      }
    }
  }
  store_rows<Vectors>(to, to_row, sum, rows);
}

template <Conv2dGeometry g, int Rows>
void long_row_channels(const float* image, const float* weight, float* sums) {
  using Row = LongRow<g>;
  constexpr long step = Row::tile * vector_width;
  for (int t = 0; t < Row::whole; ++t)
    long_row_tile<Rows, Row::tile>(g, Row::plane, Row::width, image + t * step, weight, sums + t * step, Row::sums_row);
  if constexpr (Row::rest > 0)
    long_row_tile<Rows, Row::rest>(g, Row::plane, Row::width, image + Row::whole * step, weight,
                                   sums + Row::whole * step, Row::sums_row);
}

}  // namespace detail

/// Whether the convolution of one sample goes this way: a stride of one, and too few channels to fill vectors with
/// them.
constexpr bool long_row_fits(const Conv2dGeometry& g) {
  return g.stride == 1 && convolution_kernel(g) == ConvolutionKernel::few_channels && g.kernel_width <= g.width;
}

template <Conv2dGeometry g>
constexpr long scratch_conv2d_one_sample(const Workers* workers, Known<g>) {
  if constexpr (long_row_fits(g))
    return detail::LongRow<g>::floats;
  else
    return scratch_conv2d(workers, Known<g>{});
}

/// `run_conv2d` of one sample.
template <Conv2dGeometry g>
void run_conv2d_one_sample(Workers& workers, Known<g>, const float* input, const float* weight, float* result) {
  if constexpr (long_row_fits(g)) {
    using Row = detail::LongRow<g>;
    workers.reserve_scratch(Row::floats);
    float* const image = workers.scratch(0);
    float* const sums = image + (Row::image_floats + 15) / 16 * 16;
    detail::fill_floats(image, 0, Row::image_floats);
    for (int c = 0; c < g.channels; ++c)
      for (int y = 0; y < g.height; ++y)
        std::memcpy(image + c * Row::plane + (y + g.padding) * Row::width + g.padding,
                    input + (long{1} * c * g.height + y) * g.width, sizeof(float) * g.width);
    for (int block = 0; block + 1 < Row::blocks; ++block)
      detail::long_row_channels<g, Row::rows>(image, weight + block * Row::rows * g.taps(),
                                              sums + block * Row::rows * Row::sums_row);
    constexpr int first = (Row::blocks - 1) * Row::rows;
    detail::long_row_channels<g, Row::last_rows>(image, weight + first * g.taps(), sums + first * Row::sums_row);
    for (int o = 0; o < g.out_channels; ++o)
      for (int y = 0; y < g.out_height(); ++y)
        std::memcpy(result + (long{1} * o * g.out_height() + y) * g.out_width(),
                    sums + o * Row::sums_row + y * Row::width, sizeof(float) * g.out_width());
  } else {
    run_conv2d(workers, Known<g>{}, 1, input, weight, result);
  }
}

}  // namespace tenet::cpu
