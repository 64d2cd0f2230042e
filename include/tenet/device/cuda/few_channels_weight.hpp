#pragma once

#include <algorithm>
#include <tenet/core/geometry.hpp>
#include <tenet/device/cuda/index.hpp>
#include <tenet/device/cuda/neighbours.hpp>
#include <tenet/device/cuda/sums.hpp>

/// The gradient by its weight of a convolution of few channels, see `few_channels_conv2d.hpp`: parts of a sum over a
/// whole batch, and what adds them up.
namespace tenet::gpu::detail {

/// The gradient by the weight in parts, each of some lines of the result: a thread takes `taps` neighbours of a
/// kernel's row for a group of outputs, neighbouring threads neighbouring taps. Four positions are under way at once,
/// as what a thread waits for is memory. `whole`: a group of the result's gradient can be read at once.
template <class Number, bool whole, int group>
struct FewChannelsWeightParts {
  static constexpr int taps = 3, at_once = 4;

  Conv2dGeometry g;
  long lines, lines_of_part, parts, floats_of_part;
  Divisor by_tiles, by_kernel_height, by_groups, by_out_height;
  const Number *input, *upstream;
  float* to;

  FewChannelsWeightParts(const Conv2dGeometry& geometry, int batch, const Number* from, const Number* gradient,
                         void* workspace)
      : g(geometry),
        lines(long{batch} * g.out_height()),
        by_tiles((g.kernel_width * g.channels + taps - 1) / taps),
        by_kernel_height(g.kernel_height),
        by_groups((g.out_channels + group - 1) / group),
        by_out_height(g.out_height()),
        input(from),
        upstream(gradient),
        to(static_cast<float*>(workspace)) {
    constexpr long most_threads = 1 << 16;  // two blocks of 256 for nearly each of a large GPU's processors
    const long wanted = std::clamp(most_threads / threads_of_part(), 1l, std::max(lines, 1l));
    lines_of_part = (lines + wanted - 1) / wanted;
    parts = lines > 0 ? (lines + lines_of_part - 1) / lines_of_part : 0;
    floats_of_part = (g.weight_size() + 3) / 4 * 4;
  }
  long threads_of_part() const { return by_tiles.by * by_kernel_height.by * by_groups.by; }

  TENET_HOST_DEVICE void operator()(long thread) const {
    const Divided tile = divided(thread, by_tiles), kernel_row = divided(tile.quotient, by_kernel_height),
                  outputs = divided(kernel_row.quotient, by_groups);
    const int first_tap = static_cast<int>(tile.rest) * taps, u = static_cast<int>(kernel_row.rest),
              first_output = static_cast<int>(outputs.rest) * group, rest = g.out_channels - first_output;
    const long part = outputs.quotient, begin = part * lines_of_part,
               end = begin + lines_of_part < lines ? begin + lines_of_part : lines;
    const int length = g.width * g.channels, out_width = g.out_width();

    float sums[group][taps] = {};
    for (long line = begin; line < end; ++line) {
      const Divided image = divided(line, by_out_height);
      const int y = static_cast<int>(image.rest) * g.stride + u - g.padding;
      if (y < 0 || y >= g.height) continue;
      const Number* const from = input + (image.quotient * g.height + y) * length;
      const Number* const behind = upstream + line * out_width * g.out_channels + first_output;
      for (int j = 0; j < out_width; j += at_once) {
        float x[at_once][taps], d[at_once][group];
        TENET_UNROLL
        for (int a = 0; a < at_once; ++a) {
          const bool inside = j + a < out_width;
          const int element = ((j + a) * g.stride - g.padding) * g.channels + first_tap;
          const Number* const window = from + element;
          TENET_UNROLL
          for (int k = 0; k < taps; ++k)
            x[a][k] =
                inside && static_cast<unsigned>(element + k) < static_cast<unsigned>(length) ? float{window[k]} : 0.0f;
          const Number* const of_position = behind + (inside ? j + a : j) * g.out_channels;
          if constexpr (whole) {
            load_neighbours<group>(of_position, d[a]);
          } else {
            TENET_UNROLL
            for (int k = 0; k < group; ++k) d[a][k] = k < rest ? float{of_position[k]} : 0.0f;
          }
        }
        TENET_UNROLL
        for (int a = 0; a < at_once; ++a) TENET_UNROLL
        for (int k = 0; k < group; ++k) TENET_UNROLL
        for (int m = 0; m < taps; ++m) sums[k][m] += d[a][k] * x[a][m];
      }
    }
    const int row_taps = g.kernel_width * g.channels;
    float* const at = to + part * floats_of_part + (first_output * g.kernel_height + u) * row_taps + first_tap;
    TENET_UNROLL
    for (int k = 0; k < group; ++k) TENET_UNROLL
    for (int m = 0; m < taps; ++m)
      if (k < rest && first_tap + m < row_taps) at[k * g.kernel_height * row_taps + m] = sums[k][m];
  }
};

/// Four neighbouring weights' gradients in each part.
template <class Number>
struct TermsOfWeights {
  static constexpr int numbers = 4;
  const float* from;
  long count, floats_of_part;
  Number* to;

  TENET_HOST_DEVICE void of(long part, long lane, float* terms) const {
    load_neighbours<numbers>(from + part * floats_of_part + numbers * lane, terms);
  }
  TENET_HOST_DEVICE void store(long lane, const float* sums) const {
    for (int k = 0; k < numbers; ++k)
      if (numbers * lane + k < count) to[numbers * lane + k] = Number(sums[k]);
  }
};

}  // namespace tenet::gpu::detail
