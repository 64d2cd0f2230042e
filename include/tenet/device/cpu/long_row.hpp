#pragma once

#include <cstddef>
#include <cstring>

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/tile.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

/// The convolution of one sample with a stride of one and channels too few to fill a vector. Positions stand in the
/// lanes. The padded image is one long row of numbers, in which the result of a position and that of the next one read
/// neighbouring numbers even across the ends of lines: so vectors are always full, and the few results that belong to
/// no position (of the last kernel width - 1 columns of a line) are left out at the end.
namespace tenet::cpu {

namespace detail {

/// How the one long row is laid and cut.
struct LongRow {
  Conv2dGeometry g;

  static constexpr int most = vector_registers == 32 ? 24 : 12;  // sums in registers

  constexpr long width() const { return g.width + 2 * g.padding; }
  constexpr long plane() const { return width() * (g.height + 2 * g.padding); }
  /// From the first position to the last one, with the results between lines that belong to none.
  constexpr long positions() const { return (g.out_height() - 1) * width() + g.out_width(); }
  constexpr int vectors() const { return static_cast<int>(blocks_of(positions(), vector_width)); }
  constexpr long sums_row() const { return long{vectors()} * vector_width; }
  /// The last vectors read beyond the image.
  constexpr long image_floats() const { return g.channels * plane() + 2 * vector_width + g.kernel_width; }
  constexpr long behind_image() const { return round_up(image_floats(), 16); }
  constexpr long floats() const { return behind_image() + g.out_channels * sums_row(); }

  // A tile: so many result channels, the last ones perhaps fewer, by so many vectors.
  constexpr int blocks() const { return static_cast<int>(blocks_of(g.out_channels, tile_rows)); }
  constexpr int rows() const { return static_cast<int>(blocks_of(g.out_channels, blocks())); }
  constexpr int last_rows() const { return g.out_channels - (blocks() - 1) * rows(); }
  constexpr int tile() const { return most / rows() < 4 ? most / rows() : 4; }
};

/// The image with its border of zeros.
[[gnu::always_inline]] inline void pad_image(const LongRow& row, const float* input, float* image) {
  const Conv2dGeometry& g = row.g;
  fill_floats(image, 0, row.image_floats());
  for (int c = 0; c < g.channels; ++c)
    for (int y = 0; y < g.height; ++y)
      std::memcpy(image + c * row.plane() + (y + g.padding) * row.width() + g.padding,
                  input + (long{1} * c * g.height + y) * g.width, sizeof(float) * static_cast<std::size_t>(g.width));
}

/// The results of positions, out of the sums of all result channels.
[[gnu::always_inline]] inline void take_positions(const LongRow& row, const float* sums, float* result) {
  const Conv2dGeometry& g = row.g;
  for (int o = 0; o < g.out_channels; ++o)
    for (int y = 0; y < g.out_height(); ++y)
      std::memcpy(result + (long{1} * o * g.out_height() + y) * g.out_width(),
                  sums + o * row.sums_row() + y * row.width(), sizeof(float) * static_cast<std::size_t>(g.out_width()));
}

/// Sums for `Rows` result channels and `Vectors` vectors of positions.
template <int Rows, int Vectors>
void long_row_tile(const LongRow& row, const float* image, const float* weight, long weight_row, float* to,
                   long to_row) {
  constexpr std::make_integer_sequence<int, Rows> rows{};
  constexpr std::make_integer_sequence<int, Vectors> vectors{};
  const Conv2dGeometry& g = row.g;
  const long plane = row.plane(), width = row.width();
  Vector sum[Rows][Vectors] = {};
  for (int c = 0; c < g.channels; ++c, image += plane) {
    const float* line = image;
    for (int ky = 0; ky < g.kernel_height; ++ky, line += width) {
      for (int kx = 0; kx < g.kernel_width; ++kx, ++weight) {
        Vector right[Vectors];
        load_right(line + kx, right, vectors);
        multiply_rows<float, Vectors>(weight, weight_row, right, sum, rows);
      }
    }
  }
  store_rows<Vectors>(to, to_row, sum, rows);
}

}  // namespace detail

/// Whether one sample is taken as a long row: so are few samples of a convolution of few channels (convolution.hpp).
constexpr bool long_row_fits(const Conv2dGeometry& g) { return g.stride == 1 && g.kernel_width <= g.width; }

/// Floats of scratch memory that each worker needs for it.
constexpr long scratch_conv2d_long_row(const Conv2dGeometry& g) { return detail::LongRow{g}.floats(); }

/// `run_conv2d`, sample by sample.
inline void run_conv2d_long_row(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                                const float* weight, float* result, Epilogue epilogue = {}) {
  using namespace detail;
  constexpr int rows = 4, wide = LongRow::most / rows < 4 ? LongRow::most / rows : 4;
  const LongRow row{g};
  workers.reserve_scratch(row.floats());
  const long taps = g.taps(), sums_row = row.sums_row(), result_size = g.result_size();
  // With fewer channels than a tile has it works on one of them four times; else the last tile begins where it fits.
  const bool few = g.out_channels < rows;
  const long step = few ? 1 : rows, weight_row = few ? 0 : taps, to_row = few ? 0 : sums_row;
  auto task = [&](int sample, int worker) {
    float* const image = workers.scratch(worker);
    float* const sums = image + row.behind_image();
    pad_image(row, input + sample * g.input_size(), image);
    for (long first = 0; first < g.out_channels; first += step) {
      const long o = smaller(first, g.out_channels - step);
      for (long v = 0, taken; v < row.vectors(); v += taken) {
        taken = row.vectors() - v >= wide ? wide : 1;
        const auto tile = taken == wide ? long_row_tile<rows, wide> : long_row_tile<rows, 1>;
        tile(row, image + v * vector_width, weight + o * taps, weight_row, sums + o * sums_row + v * vector_width,
             to_row);
      }
    }
    take_positions(row, sums, result + sample * result_size);
    epilogue(sample * result_size, (sample + 1) * result_size);
  };
  run_tasks(workers, batch, batch * g.flops() < inline_flops, task);
}

}  // namespace tenet::cpu
