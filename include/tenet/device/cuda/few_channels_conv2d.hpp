#pragma once

#include <algorithm>
#include <cstdint>
#include <tenet/core/bfloat16.hpp>
#include <tenet/core/geometry.hpp>
#include <tenet/device/cuda/cudnn_graph.hpp>
#include <tenet/device/cuda/few_channels_weight.hpp>
#include <tenet/device/cuda/index.hpp>
#include <tenet/device/cuda/neighbours.hpp>
#include <tenet/device/cuda/sums.hpp>
#include <type_traits>

/// Convolutions of few channels, with channels last: kernels of our own, as the library's are for tensor cores, which
/// take channels eight at a time, and are an order of magnitude slower than memory where there are one or six.
///
/// In a line of an image pixels follow each other, and so do their channels: a row of the kernel, its columns and their
/// channels, is one range of `row_taps` = kernel_width·channels numbers of the weight and of the input. Element e of
/// a line is padding where it is not in [0, width·channels).
namespace tenet::gpu {

/// The operands of one convolution: of each pass one is written, the other two are read. Number: float or bfloat16.
template <class Number>
struct Conv2dOperands {
  const Number *input, *weight, *result;
};

/// Whether our own kernels serve for a pass. Tensor cores would be no use where one of both numbers of channels is no
/// multiple of 8: their rows are not aligned, or padded with zeros. Then it is a question of work: up to 32 products
/// for each number that is written (or, for the gradient by the weight, read) take as long as memory does, and with
/// up to 2^20 products a sample a processor's ordinary multipliers need a few microseconds for a batch of hundreds.
constexpr bool few_channels(const Conv2dGeometry& g, Conv2dPass pass) {
  if (g.channels % 8 == 0 && g.out_channels % 8 == 0) return false;
  const bool to_input = pass == Conv2dPass::input_gradient;
  const long products = to_input ? g.weight_size() / g.channels : g.taps();
  const long numbers = ((to_input ? g.channels : g.out_channels) + 7l) / 8 * 8;  // kernels take 8 at once
  const long positions = to_input ? long{1} * g.height * g.width : g.positions();
  return g.weight_size() <= 1 << 16 && (products <= 32 || positions * numbers * products <= 1 << 20);
}

/// Whether a program may need them: where the geometry is `Known`, it is known whether it does.
template <Conv2dPass pass, class Geometry>
inline constexpr bool may_have_few_channels = true;
template <Conv2dPass pass, auto geometry>
inline constexpr bool may_have_few_channels<pass, Known<geometry>> = few_channels(geometry, pass);

namespace detail {

/// Which numbers of [batch, height, width, channels] a thread computes: those of some positions, `group` channels at a
/// time. Up to four groups have a thread each, as there are too few positions else to keep a large GPU busy; of more,
/// an even number, every other one has another thread, so that two of them write 32 bytes side by side, which memory
/// takes at once.
template <int positions, int group>
struct ImageTiles {
  static constexpr int apart = 16;  ///< the positions of a thread, as neighbours have neighbours

  int channels, sharing;  ///< the latter: threads of the same positions
  long count;             ///< positions of all images
  Divisor by_sharing, by_height, by_width;

  ImageTiles(int batch, int height, int width, int of_image)
      : channels(of_image),
        sharing(threads_of_positions((of_image + group - 1) / group)),
        count(long{batch} * height * width),
        by_sharing(sharing),
        by_height(height),
        by_width(width) {}
  static int threads_of_positions(int groups) { return groups <= 4 ? groups : groups % 2 == 0 ? 2 : 1; }
  long threads() const {
    constexpr long of_tile = apart * positions;
    return (count + of_tile - 1) / of_tile * apart * sharing;
  }

  struct Tile {
    long first;         ///< the first position; the others are `apart`
    int channel, step;  ///< where groups begin, and how far they are apart
  };
  TENET_HOST_DEVICE Tile tile(long thread) const {
    const auto [at, of_group] = divided(thread, by_sharing);
    return {at / apart * (apart * positions) + at % apart, static_cast<int>(of_group) * group, sharing * group};
  }

  struct Position {
    long image;
    int y, x;
  };
  /// Behind the last position it is the last one.
  TENET_HOST_DEVICE Position position(long index) const {
    const Divided row = divided(index < count ? index : count - 1, by_width), image = divided(row.quotient, by_height);
    return {image.quotient, static_cast<int>(image.rest), static_cast<int>(row.rest)};
  }

  /// sums[k] to channel k of the tile's group.
  template <class Number>
  TENET_HOST_DEVICE void store(Number* to, long position, int channel, bool whole, const float* sums) const {
    if (position >= count) return;
    Number* const at = to + position * channels + channel;
    constexpr int at_once = 16 / sizeof(Number);
    if constexpr (group % at_once == 0)
      if (whole) {
        TENET_UNROLL
        for (int k = 0; k < group; k += at_once) store_neighbours<at_once>(at + k, sums + k);
        return;
      }
    TENET_UNROLL
    for (int k = 0; k < group; ++k)
      if (channel + k < channels) at[k] = Number(sums[k]);
  }
};

/// The result: each number of the input is read once for a group of outputs, each weight once for some positions,
/// `width` of them at once.
template <class Number, int width, int positions, int group>
struct FewChannelsResult {
  static constexpr int padding = -(1 << 30);

  Conv2dGeometry g;
  ImageTiles<positions, group> tiles;
  const Number *input, *weight;
  Number* result;
  bool whole;  ///< groups are written at once

  FewChannelsResult(const Conv2dGeometry& geometry, int batch, const Conv2dOperands<Number>& at, Number* to)
      : g(geometry),
        tiles(batch, g.out_height(), g.out_width(), g.out_channels),
        input(at.input),
        weight(at.weight),
        result(to),
        whole(rows_are_aligned<group>(to, g.out_channels)) {}

  TENET_HOST_DEVICE void operator()(long thread) const {
    const auto tile = tiles.tile(thread);
    const int line = g.width * g.channels;
    const Number* window[positions];  // where it would begin, padding or not
    int first_line[positions], first_element[positions];
    TENET_UNROLL
    for (int p = 0; p < positions; ++p) {
      const auto at = tiles.position(tile.first + p * tiles.apart);
      first_line[p] = at.y * g.stride - g.padding;
      first_element[p] = (at.x * g.stride - g.padding) * g.channels;
      window[p] = input + at.image * g.height * line + (first_line[p] * line + first_element[p]);
    }
    for (int channel = tile.channel; channel < g.out_channels; channel += tile.step) {
      float sums[positions][group] = {};
      add_up(window, first_line, first_element, channel, sums);
      TENET_UNROLL
      for (int p = 0; p < positions; ++p) tiles.store(result, tile.first + p * tiles.apart, channel, whole, sums[p]);
    }
  }

  TENET_HOST_DEVICE void add_up(const Number* const (&window)[positions], const int (&first_line)[positions],
                                const int (&first_element)[positions], int channel,
                                float (&sums)[positions][group]) const {
    const int line = g.width * g.channels, row_taps = g.kernel_width * g.channels, taps = g.kernel_height * row_taps;
    const Number* from[group];  // the last output's for those that are too many
    TENET_UNROLL
    for (int k = 0; k < group; ++k)
      from[k] = weight + (channel + k < g.out_channels ? channel + k : g.out_channels - 1) * taps;
    int u = 0, t = 0, tap = 0;  // u·row_taps + t
    const auto add = [&](auto tap_count) {
      constexpr int count = decltype(tap_count)::value;
      float x[positions][count], w[group][count];
      TENET_UNROLL
      for (int k = 0; k < group; ++k) TENET_UNROLL
      for (int s = 0; s < count; s += width) load_neighbours<width>(from[k] + tap + s, w[k] + s);
      TENET_UNROLL
      for (int p = 0; p < positions; ++p) {
        const bool inside = static_cast<unsigned>(first_line[p] + u) < static_cast<unsigned>(g.height);
        const int element = inside ? first_element[p] + t : padding;
        const Number* const at = window[p] + (u * line + t);
        TENET_UNROLL
        for (int s = 0; s < count; s += width)
          if (static_cast<unsigned>(element + s) < static_cast<unsigned>(line)) {
            load_neighbours<width>(at + s, x[p] + s);
          } else {
            TENET_UNROLL
            for (int m = 0; m < width; ++m) x[p][s + m] = 0;
          }
      }
      TENET_UNROLL
      for (int s = 0; s < count; ++s) TENET_UNROLL
      for (int p = 0; p < positions; ++p) TENET_UNROLL
      for (int k = 0; k < group; ++k) sums[p][k] += x[p][s] * w[k][s];
      t += count, tap += count;
    };
    while (tap < taps) {  // one loop over rows and taps, as the beginning of one costs as much as some of its rounds
      if (t + 3 * width <= row_taps)
        add(std::integral_constant<int, 3 * width>{});
      else
        add(std::integral_constant<int, width>{});
      if (t == row_taps) t = 0, ++u;
    }
  }
};

/// The gradient by the input: the same with the roles exchanged. A position of the input meets the result where its
/// distance from the kernel's row and column is a multiple of the stride. `even`: four numbers of the result's gradient
/// and two weights can be read at once.
template <class Number, bool even, int group>
struct FewChannelsInputGradient {
  static constexpr int positions = 1, at_once = even ? 4 : 1, pair = even ? 2 : 1;

  Conv2dGeometry g;
  ImageTiles<positions, group> tiles;
  Divisor by_stride;
  const Number *weight, *upstream;
  Number* gradient;
  bool whole;

  FewChannelsInputGradient(const Conv2dGeometry& geometry, int batch, const Conv2dOperands<Number>& at, Number* to)
      : g(geometry),
        tiles(batch, g.height, g.width, g.channels),
        by_stride(g.stride),
        weight(at.weight),
        upstream(at.result),
        gradient(to),
        whole(rows_are_aligned<group>(to, g.channels)) {}

  /// Which of `count` windows meets an element `distance` behind the first one's begin, -1 if none does.
  TENET_HOST_DEVICE int window(int distance, int count) const {
    if (g.stride != 1 && distance >= 0) {
      const Divided at = divided(distance, by_stride);
      distance = at.rest == 0 ? static_cast<int>(at.quotient) : -1;
    }
    return 0 <= distance && distance < count ? distance : -1;
  }

  TENET_HOST_DEVICE void operator()(long thread) const {
    const auto tile = tiles.tile(thread);
    const Number* image[positions];
    int y[positions], x[positions];
    TENET_UNROLL
    for (int p = 0; p < positions; ++p) {
      const auto at = tiles.position(tile.first + p * tiles.apart);
      image[p] = upstream + at.image * g.result_size();
      y[p] = at.y + g.padding, x[p] = at.x + g.padding;
    }
    for (int channel = tile.channel; channel < g.channels; channel += tile.step) {
      float sums[positions][group] = {};
      add_up(image, y, x, channel, sums);
      TENET_UNROLL
      for (int p = 0; p < positions; ++p) tiles.store(gradient, tile.first + p * tiles.apart, channel, whole, sums[p]);
    }
  }

  TENET_HOST_DEVICE void add_up(const Number* const (&image)[positions], const int (&y)[positions],
                                const int (&x)[positions], int channel, float (&sums)[positions][group]) const {
    const int out_height = g.out_height(), out_width = g.out_width(),
              taps = g.kernel_height * g.kernel_width * g.channels;
    int of_channel[group];  // the last ones' for those that are too many
    TENET_UNROLL
    for (int k = 0; k < group; k += pair) of_channel[k] = channel + k < g.channels ? channel + k : g.channels - pair;
    for (int u = 0; u < g.kernel_height; ++u) {
      int row[positions];
      TENET_UNROLL
      for (int p = 0; p < positions; ++p) row[p] = window(y[p] - u, out_height);
      for (int v = 0; v < g.kernel_width; ++v) {
        const Number* from[positions];
        bool meets[positions];
        TENET_UNROLL
        for (int p = 0; p < positions; ++p) {
          const int column = window(x[p] - v, out_width);
          meets[p] = row[p] >= 0 && column >= 0;
          from[p] = image[p] + (row[p] * out_width + column) * g.out_channels;
        }
        const Number* of_tap = weight + (u * g.kernel_width + v) * g.channels;
        for (int o = 0; o < g.out_channels; o += at_once, of_tap += at_once * taps) {
          float d[positions][at_once], w[at_once][group];
          TENET_UNROLL
          for (int p = 0; p < positions; ++p)
            if (meets[p]) {
              load_neighbours<at_once>(from[p] + o, d[p]);
            } else {
              TENET_UNROLL
              for (int m = 0; m < at_once; ++m) d[p][m] = 0;
            }
          TENET_UNROLL
          for (int m = 0; m < at_once; ++m) TENET_UNROLL
          for (int k = 0; k < group; k += pair) load_neighbours<pair>(of_tap + m * taps + of_channel[k], w[m] + k);
          TENET_UNROLL
          for (int m = 0; m < at_once; ++m) TENET_UNROLL
          for (int p = 0; p < positions; ++p) TENET_UNROLL
          for (int k = 0; k < group; ++k) sums[p][k] += d[p][m] * w[m][k];
        }
      }
    }
  }
};

}  // namespace detail

/// One pass of a convolution with its channels last, in kernels of which each number is a float sum in an order that
/// depends on the shapes only, rounded once. A thread has many numbers, for which it reads each operand once, where
/// there are many threads; else few.
template <Conv2dPass pass, class Executor, class Number>
void run_few_channels(Executor& executor, const Conv2dGeometry& g, int batch, const Conv2dOperands<Number>& at,
                      Number* to) {
  using namespace detail;
  [[maybe_unused]] const auto run = [&](const auto& work) { for_each(executor, work.tiles.threads(), work); };
  [[maybe_unused]] const auto run_parts = [&](const auto& work) {
    for_each(executor, work.parts * work.threads_of_part(), work);
    run_sums(executor, TermsOfWeights<Number>{work.to, g.weight_size(), work.floats_of_part, to}, work.parts,
             work.floats_of_part / 4, true);
  };
  if constexpr (pass == Conv2dPass::result) {
    if (rows_are_aligned<2>(at.input, g.channels) && rows_are_aligned<2>(at.weight, g.channels))
      run(FewChannelsResult<Number, 2, 1, 4>(g, batch, at, to));
    else if (g.out_channels <= 16)
      run(FewChannelsResult<Number, 1, 1, 8>(g, batch, at, to));
    else
      run(FewChannelsResult<Number, 1, 4, 8>(g, batch, at, to));
  } else if constexpr (pass == Conv2dPass::input_gradient) {
    if (rows_are_aligned<4>(at.result, g.out_channels) && rows_are_aligned<2>(at.weight, g.channels))
      run(FewChannelsInputGradient<Number, true, 2>(g, batch, at, to));
    else
      run(FewChannelsInputGradient<Number, false, 2>(g, batch, at, to));
  } else {
    if (rows_are_aligned<8>(at.result, g.out_channels))
      run_parts(FewChannelsWeightParts<Number, true, 8>(g, batch, at.input, at.result, executor.workspace()));
    else
      run_parts(FewChannelsWeightParts<Number, false, 6>(g, batch, at.input, at.result, executor.workspace()));
  }
}

}  // namespace tenet::gpu
