#pragma once

#include <cstring>
#include <tenet/core/geometry.hpp>
#include <tenet/device/cpu/convolution.hpp>
#include <tenet/device/cpu/long_row.hpp>
#include <tenet/device/cpu/one_sample_lines.hpp>
#include <tenet/device/cpu/tile.hpp>
#include <tenet/device/cpu/transpose.hpp>
#include <tenet/device/cpu/workers.hpp>

/// The convolution of one sample with few channels, as the first layers of a small network have them, and its
/// gradients, with all extents known. The image is one long row (long_row.hpp). Where lines are short and result
/// channels many, its vectors would take more multiply-adds than channels in the lanes; so would both, mostly, than
/// Winograd's algorithm along the lines (one_sample_lines.hpp). The gradient by the input is the convolution of the
/// gradient of the result with exchanged channels. In the gradient by the weight result channels stand in the lanes.
namespace tenet::cpu {

namespace detail {

template <Conv2dGeometry g, int Rows>
void long_row_channels(const float* image, const float* weight, float* sums) {
  constexpr LongRow row{g};
  constexpr int tile = row.tile(), whole = row.vectors() / tile, rest = row.vectors() % tile;
  constexpr long step = tile * vector_width;
  for (int t = 0; t < whole; ++t)
    long_row_tile<Rows, tile>(row, image + t * step, weight, g.taps(), sums + t * step, row.sums_row());
  if constexpr (rest > 0)
    long_row_tile<Rows, rest>(row, image + whole * step, weight, g.taps(), sums + whole * step, row.sums_row());
}

/// How positions are cut where result channels stand in the lanes: the sums of some lines stay in registers.
template <Conv2dGeometry g>
struct ChannelLines {
  static constexpr int vectors = (g.out_channels + vector_width - 1) / vector_width;
  static constexpr long row = long{vectors} * vector_width;
  static constexpr int most = vector_registers == 32 ? 24 : 12;  // sums in registers
  static constexpr long line = g.out_width() * vectors;
  static constexpr int possible = line <= most ? static_cast<int>(most / line) : 1;
  static constexpr int lines = possible < g.out_height() ? possible : static_cast<int>(g.out_height());
  static constexpr int rest = static_cast<int>(g.out_height() % lines);
  /// Transposing weights and results takes about an eighth of the multiply-adds.
  static constexpr bool pays = line <= most && 8 * row * g.positions() <= 7 * g.out_channels * LongRow{g}.sums_row();
  static constexpr long image = g.padding == 0 ? 0 : LongRow{g}.behind_image();
  static constexpr long weights = g.taps() * row, floats = image + weights + g.positions() * row;
};

/// to [positions, row] for the positions of some lines, as many as there are of `Position`, from weights [taps, row].
template <Conv2dGeometry g, int... Position>
void sum_channels(const float* image, const float* weight, float* to, std::integer_sequence<int, Position...> all) {
  constexpr int vectors = ChannelLines<g>::vectors;
  constexpr std::make_integer_sequence<int, vectors> each{};
  constexpr long width = LongRow{g}.width(), columns = g.out_width();
  Vector sum[sizeof...(Position)][vectors] = {};
  for (int c = 0; c < g.channels; ++c, image += LongRow{g}.plane()) {
    const float* line = image;
    for (int ky = 0; ky < g.kernel_height; ++ky, line += width) {
      for (int kx = 0; kx < g.kernel_width; ++kx, weight += ChannelLines<g>::row) {
        Vector right[vectors];
        load_right(weight, right, each);
        (multiply_row<float>(line[kx + Position / columns * width + Position % columns], right, sum[Position], each),
         ...);
      }
    }
  }
  store_rows<vectors>(to, ChannelLines<g>::row, sum, all);
}

/// The convolution with result channels in the lanes; `room`: `ChannelLines<g>::floats`.
template <Conv2dGeometry g>
void convolve_channels(const float* input, const float* weight, float* result, float* room) {
  using Cut = ChannelLines<g>;
  float* const turned = room + Cut::image;
  float* const sums = turned + Cut::weights;
  const float* image = input;
  if constexpr (g.padding > 0) {
    pad_image(LongRow{g}, input, room);
    image = room;
  }
  if constexpr (g.out_channels < Cut::row) fill_floats(turned, 0, Cut::weights);
  transpose_vectors(weight, g.taps(), g.out_channels, g.taps(), turned, Cut::row);
  constexpr long width = LongRow{g}.width(), columns = g.out_width();
  int y = 0;
  for (; y + Cut::lines <= g.out_height(); y += Cut::lines)
    sum_channels<g>(image + y * width, turned, sums + y * columns * Cut::row,
                    std::make_integer_sequence<int, Cut::lines* static_cast<int>(columns)>{});
  if constexpr (Cut::rest > 0)
    sum_channels<g>(image + y * width, turned, sums + y * columns * Cut::row,
                    std::make_integer_sequence<int, Cut::rest* static_cast<int>(columns)>{});
  transpose_vectors(sums, Cut::row, g.positions(), g.out_channels, result, g.positions());
}

}  // namespace detail

/// Whether the convolution of one sample goes this way.
template <ConvolvingWorkers Executor = Workers>
constexpr bool one_sample_fits(const Conv2dGeometry& g) {
  return convolution_kernel<Executor>(g) == ConvolutionKernel::few_channels && long_row_fits(g);
}

namespace detail {
/// Whether the convolution of one sample goes along the lines by Winograd's algorithm: where its multiply-adds are few
/// enough to pay for its transforms, an eighth or so of them, and its sums have room.
template <ConvolvingWorkers Executor, Conv2dGeometry g>
constexpr bool one_sample_lines_pay() {
  if constexpr (std::is_base_of_v<DirectWorkers, Executor> || !winograd_in_lanes_fits(g)) {
    return false;
  } else {
    using Cut = OneSampleLines<g>;
    const long direct = ChannelLines<g>::pays ? g.positions() * Cut::vectors : g.out_channels * LongRow{g}.vectors();
    const long products = g.out_height() * Cut::tiles * Cut::points * Cut::vectors;  // of a line of the kernel
    return Cut::possible > 0 && 5 * products < 4 * Cut::taps * direct;
  }
}
}  // namespace detail

template <ConvolvingWorkers Executor, Conv2dGeometry g>
constexpr long scratch_conv2d_one_sample(const Executor* workers, Known<g>) {
  if constexpr (!one_sample_fits<Executor>(g))
    return scratch_conv2d(workers, Known<g>{});
  else if constexpr (detail::one_sample_lines_pay<Executor, g>())
    return detail::OneSampleLines<g>::floats;
  else if constexpr (detail::ChannelLines<g>::pays)
    return detail::ChannelLines<g>::floats;
  else
    return detail::LongRow{g}.floats();
}

/// `run_conv2d` of one sample.
template <ConvolvingWorkers Executor, Conv2dGeometry g>
void run_conv2d_one_sample(Executor& workers, Known<g>, const float* input, const float* weight, float* result) {
  if constexpr (!one_sample_fits<Executor>(g)) {
    run_conv2d(workers, Known<g>{}, 1, input, weight, result);
  } else if constexpr (detail::one_sample_lines_pay<Executor, g>()) {
    workers.reserve_scratch(detail::OneSampleLines<g>::floats);
    detail::convolve_lines<g>(input, weight, result, workers.scratch(0));
  } else if constexpr (detail::ChannelLines<g>::pays) {
    workers.reserve_scratch(detail::ChannelLines<g>::floats);
    detail::convolve_channels<g>(input, weight, result, workers.scratch(0));
  } else {
    constexpr detail::LongRow row{g};
    workers.reserve_scratch(row.floats());
    float* const image = workers.scratch(0);
    float* const sums = image + row.behind_image();
    detail::pad_image(row, input, image);
    for (int block = 0; block + 1 < row.blocks(); ++block)
      detail::long_row_channels<g, row.rows()>(image, weight + block * row.rows() * g.taps(),
                                               sums + block * row.rows() * row.sums_row());
    constexpr int first = (row.blocks() - 1) * row.rows();
    detail::long_row_channels<g, row.last_rows()>(image, weight + first * g.taps(), sums + first * row.sums_row());
    detail::take_positions(row, sums, result);
  }
}

/// `run_conv2d_input_gradient` of one sample.
template <ConvolvingWorkers Executor, Conv2dGeometry g>
void run_conv2d_input_gradient_one_sample(Executor& workers, Known<g>, const float* gradient_of_result,
                                          const float* weight, float* input_gradient) {
  if constexpr (one_sample_fits<Executor>(g) && g.kernel_height == g.kernel_width && g.padding < g.kernel_width &&
                one_sample_fits<Executor>(exchanged(g))) {
    constexpr int kernel = g.kernel_height * g.kernel_width;
    float* rotated = workers.workspace(g.weight_size());
    for (int c = 0; c < g.channels; ++c)
      for (int o = 0; o < g.out_channels; ++o, rotated += kernel)
        for (int t = 0; t < kernel; ++t) rotated[t] = weight[(o * g.channels + c + 1) * kernel - 1 - t];
    run_conv2d_one_sample(workers, Known<exchanged(g)>{}, gradient_of_result, rotated - g.weight_size(),
                          input_gradient);
  } else if constexpr (batch_pays<Executor>(g, 1)) {
    run_conv2d_input_gradient(workers, Known<g>{}, 1, gradient_of_result, weight, input_gradient);
  } else {
    run_conv2d_input_gradient(workers, g, 1, gradient_of_result, weight, input_gradient);
  }
}

namespace detail {

/// How the gradient by the weight is cut: the sums of some lines of a kernel for one or two vectors of result channels
/// stay in registers.
template <Conv2dGeometry g>
struct TapLines {
  static constexpr int vectors = g.out_channels <= vector_width ? 1 : 2;
  static constexpr int row = (g.out_channels + vectors * vector_width - 1) / (vectors * vector_width) * vectors *
                             vector_width;  // of result channels, with zeros behind the last
  static constexpr int most = vector_registers == 32 ? 25 : 12;
  static constexpr bool fit = vectors * g.kernel_width <= most;
  static constexpr int possible = fit ? most / (vectors * g.kernel_width) : 1;
  static constexpr int lines = possible < g.kernel_height ? possible : g.kernel_height, rest = g.kernel_height % lines;
  static constexpr long floats = LongRow{g}.behind_image() + (g.positions() + g.taps()) * row;
};

/// to [taps, row] = the sum over all positions of image[position + tap] * gradient[position, …], for the taps of
/// `Lines` lines of a kernel and the channels of `Vectors` vectors.
template <Conv2dGeometry g, int Vectors, int... Tap>
void sum_taps(const float* image, const float* gradient, float* to, std::integer_sequence<int, Tap...> taps) {
  constexpr std::make_integer_sequence<int, Vectors> vectors{};
  constexpr long width = LongRow{g}.width(), row = TapLines<g>::row;
  Vector sum[sizeof...(Tap)][Vectors] = {};
  for (int y = 0; y < g.out_height(); ++y, image += g.stride * width) {
    for (int x = 0; x < g.out_width(); ++x, gradient += row) {
      Vector right[Vectors];
      load_right(gradient, right, vectors);
      const float* const at = image + x * g.stride;
      (multiply_row<float>(at[Tap / g.kernel_width * width + Tap % g.kernel_width], right, sum[Tap], vectors), ...);
    }
  }
  store_rows<Vectors>(to, row, sum, taps);
}

/// The lines of a kernel from `line` on.
template <Conv2dGeometry g, int Lines>
void sum_lines(const float* image, const float* gradient, int channel, int line, float* sums) {
  using Cut = TapLines<g>;
  image += channel * LongRow{g}.plane() + line * LongRow{g}.width();
  sums += (channel * g.kernel_height + line) * long{g.kernel_width} * Cut::row;
  for (int o = 0; o < Cut::row; o += Cut::vectors * vector_width)
    sum_taps<g, Cut::vectors>(image, gradient + o, sums + o, std::make_integer_sequence<int, Lines * g.kernel_width>{});
}

}  // namespace detail

/// `run_conv2d_weight_gradient` of one sample.
template <ConvolvingWorkers Executor, Conv2dGeometry g>
void run_conv2d_weight_gradient_one_sample(Executor& workers, Known<g>, const float* input,
                                           const float* gradient_of_result, float* weight_gradient) {
  using Cut = detail::TapLines<g>;
  if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::few_channels && Cut::fit) {
    workers.reserve_scratch(Cut::floats);
    float* const image = workers.scratch(0);
    float* const gradient = image + detail::LongRow{g}.behind_image();
    float* const sums = gradient + g.positions() * Cut::row;
    detail::pad_image(detail::LongRow{g}, input, image);
    if constexpr (g.out_channels < Cut::row) detail::fill_floats(gradient, 0, g.positions() * Cut::row);
    detail::transpose_vectors(gradient_of_result, g.positions(), g.out_channels, g.positions(), gradient, Cut::row);
    for (int c = 0; c < g.channels; ++c) {
      int line = 0;
      for (; line + Cut::lines <= g.kernel_height; line += Cut::lines)
        detail::sum_lines<g, Cut::lines>(image, gradient, c, line, sums);
      if constexpr (Cut::rest > 0) detail::sum_lines<g, Cut::rest>(image, gradient, c, line, sums);
    }
    detail::transpose_vectors(sums, Cut::row, g.taps(), g.out_channels, weight_gradient, g.taps());
  } else if constexpr (batch_pays<Executor>(g, 1)) {
    run_conv2d_weight_gradient(workers, Known<g>{}, 1, input, gradient_of_result, weight_gradient);
  } else {
    run_conv2d_weight_gradient(workers, g, 1, input, gradient_of_result, weight_gradient);
  }
}

}  // namespace tenet::cpu
