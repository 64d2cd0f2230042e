#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/lane_pass.hpp"
#include "tenet/device/cpu/lane_tile.hpp"
#include "tenet/device/cpu/spans.hpp"

/// Direct convolutions with samples in the vector lanes: as a row of 16 samples is contiguous whatever the channel and
/// the position, nothing is gathered, padded or wasted when channels are few.
///
/// A tile of the result, some channels by some positions (gradient by the weight: by some taps), stays in registers
/// while three nested loops go over the sum. Positions are cut into strips of equal taps, so that the padding is never
/// multiplied: the interior along rows, the border columns downwards, the corners one by one.
namespace tenet::cpu {

namespace detail {

/// How many of `rows` channels the next tile takes: 4, or 6 where that leaves no tile part empty.
constexpr int tile_channels(long rows) { return rows == 5 || rows == 6 || rows == 9 || rows == 10 ? 6 : 4; }
/// The channels with those that fill the last tile.
constexpr long filled_channels(long rows) {
  long result = 0;
  while (result < rows) result += tile_channels(rows - result);
  return result;
}

/// A correlation of a group of samples: result[r, i, j] = the sum over c, u, v of weight[c, u, v, r] *
/// source[c, i * stride + first_y + u, j * stride + first_x + v], sources outside the image being 0.
struct LaneCorrelation {
  int channels, height, width;          // of the source
  int rows, taps_y, taps_x;             // rows: channels of the result
  int first_y, first_x, stride;         // the source position of result (0, 0), and how far a result steps in it
  long grid_height, grid_width;         // positions of the result
  long result_row, result_y, result_x;  // distances of its channels and positions, in rows of samples
  // In the framework's order weight (c, u, v, r) is at first + r * row + c * channel + u * y + v * x.
  long weight_first, weight_row, weight_channel, weight_y, weight_x;

  constexpr long packed_row() const { return filled_channels(rows); }
  constexpr long packed_size() const { return long{1} * channels * taps_y * taps_x * packed_row(); }

  /// packed [channels, taps_y, taps_x, packed_row] = the weights, 0 for the channels that fill the last tile.
  [[gnu::noinline]] void pack(const float* weight, float* packed) const {
    const long row = packed_row();
    for (int c = 0; c < channels; ++c) {
      for (int u = 0; u < taps_y; ++u) {
        for (int v = 0; v < taps_x; ++v, packed += row) {
          const float* from = weight + weight_first + c * weight_channel + u * weight_y + v * weight_x;
          for (long r = 0; r < row; ++r) packed[r] = r < rows ? from[r * weight_row] : 0;
        }
      }
    }
  }

  /// Rows [i0, i1) of the result's grid, for one group of samples.
  [[gnu::noinline]] void run(const float* packed, const float* source, float* result, long i0, long i1) const {
    const Span y = interior(first_y, stride, taps_y, height, grid_height);
    const Span x = interior(first_x, stride, taps_x, width, grid_width);
    const Span inner_y = {i0 > y.first ? i0 : y.first, smaller(i1, y.last)};
    for (long r = 0; r < rows; r += tile_channels(rows - r)) {
      const Strip strip{*this, packed + r, source, result + r * result_row * sample_lanes, rows - r};
      for_each_outside({0, grid_width}, x, [&](long j) {
        strip.run(inner_y.first, j, inner_y.last - inner_y.first, true, taps_at(j), false);
      });
      for (long i = i0; i < i1; ++i) {
        strip.run(i, x.first, x.last - x.first, false, {0, taps_x}, false);
        if (i >= y.first && i < y.last) continue;
        strip.corner(i, {0, x.first});
        strip.corner(i, {x.last, grid_width});
      }
    }
  }

 private:
  struct Strip {
    const LaneCorrelation& c;
    const float *packed, *source;
    float* result;
    long rows;

    /// `count` positions from (i, j) on, to the right or downwards, all of which have the taps `v` and the same rows of
    /// taps inside.
    [[gnu::noinline]] void run(long i, long j, long count, bool down, Span v, bool accumulate) const {
      if (count <= 0) return;
      const long y = i * c.stride + c.first_y, x = j * c.stride + c.first_x, row = c.packed_row();
      const Span u = taps_inside(y, c.taps_y, c.height);
      const LaneSum sum{{c.channels, u.last - u.first, v.last - v.first},
                        {c.taps_y * c.taps_x * row, c.taps_x * row, row},
                        {long{sample_lanes} * c.height * c.width, long{sample_lanes} * c.width, sample_lanes}};
      const float* left = packed + (u.first * c.taps_x + v.first) * row;
      const float* right = source + ((y + u.first) * c.width + x + v.first) * sample_lanes;
      const long right_column = long{sample_lanes} * c.stride * (down ? c.width : 1);
      const long column = sample_lanes * (down ? c.result_y : c.result_x);
      float* to = result + (i * c.result_y + j * c.result_x) * sample_lanes;
      const LaneTiles& choice = tile_channels(rows) == 6 ? lane_tiles<float, 6> : lane_tiles<float, 4>;
      for (long columns; count > 0; count -= columns) {
        columns = choice.next(count);
        for (long part = 0; part < sample_lanes; part += vector_width) {
          choice.tile[columns - 1](sum, left, 1, right + part, right_column, to + part, c.result_row * sample_lanes,
                                   column, static_cast<int>(rows), accumulate);
        }
        right += columns * right_column;
        to += columns * column;
      }
    }

    /// Border columns of a border row, tap by tap: each tap reaches a run of them, which is wider than one.
    void corner(long i, Span columns) const {
      run(i, columns.first, columns.last - columns.first, false, {0, 0}, false);
      for (long v = 0; v < c.taps_x; ++v) {
        const Span inside = interior(c.first_x + v, c.stride, 1, c.width, c.grid_width);
        const long first = columns.first > inside.first ? columns.first : inside.first;
        run(i, first, smaller(columns.last, inside.last) - first, false, {v, v + 1}, true);
      }
    }
  };

  Span taps_at(long j) const { return taps_inside(j * stride + first_x, taps_x, width); }
};

/// One pass of a convolution, forward or its gradient by the input, as correlations: with a stride, the gradient is
/// one for each remainder of the coordinates modulo the stride, with the taps in reverse.
struct LanePass {
  Conv2dGeometry g;
  bool gradient;

  constexpr int rows() const { return gradient ? g.channels : g.out_channels; }
  constexpr int height() const { return gradient ? g.height : g.out_height(); }
  constexpr int width() const { return gradient ? g.width : g.out_width(); }
  constexpr long source_size() const { return gradient ? g.result_size() : g.input_size(); }
  constexpr long result_size() const { return gradient ? g.input_size() : g.result_size(); }
  constexpr long packed_size() const {
    const int channels = gradient ? g.out_channels : g.channels;
    return round_up(filled_channels(rows()) * channels * g.kernel_height * g.kernel_width, sample_lanes);
  }

  constexpr long own_size() const { return 0; }

  /// The correlation for the result's rows a + i * stride and columns b + j * stride (forward: for all).
  [[gnu::noinline]] constexpr LaneCorrelation part(int a, int b) const {
    const int s = g.stride, kernel = g.kernel_height * g.kernel_width;
    if (!gradient) {
      return {g.channels,
              g.height,
              g.width,
              g.out_channels,
              g.kernel_height,
              g.kernel_width,
              -g.padding,
              -g.padding,
              s,
              height(),
              width(),
              g.positions(),
              long{1} * width(),
              1,
              0,
              g.taps(),
              long{kernel},
              g.kernel_width,
              1};
    }
    // Row a + i * s gets from upstream rows i + (a + padding) / s - t by the taps u = first_u + t * s.
    const int first_u = (a + g.padding) % s, first_v = (b + g.padding) % s;
    const int taps_y = first_u < g.kernel_height ? (g.kernel_height - first_u + s - 1) / s : 0;
    const int taps_x = first_v < g.kernel_width ? (g.kernel_width - first_v + s - 1) / s : 0;
    const int last_u = first_u + (taps_y - 1) * s, last_v = first_v + (taps_x - 1) * s;
    return {g.out_channels,
            g.out_height(),
            g.out_width(),
            g.channels,
            taps_y,
            taps_x,
            (a + g.padding) / s - (taps_y - 1),
            (b + g.padding) / s - (taps_x - 1),
            1,
            blocks_of(g.height - a, s),
            blocks_of(g.width - b, s),
            long{1} * g.height * g.width,
            long{1} * s * g.width,
            s,
            long{1} * last_u * g.kernel_width + last_v,
            long{kernel},
            g.taps(),
            -long{s} * g.kernel_width,
            -s};
  }

  /// Calls visit(correlation, its packed weights, offset of its first result) for each correlation.
  template <class Visit>
  void for_each_part(float* packed, Visit&& visit) const {
    const int parts = gradient ? g.stride : 1;
    for (int a = 0; a < parts && a < height(); ++a) {
      for (int b = 0; b < parts && b < width(); ++b) {
        const LaneCorrelation correlation = part(a, b);
        visit(correlation, packed, a, b);
        packed += correlation.packed_size();
      }
    }
  }

  void pack(const float* weight, float* packed) const {
    for_each_part(packed, [&](const LaneCorrelation& c, float* to, int, int) { c.pack(weight, to); });
  }
  void run(float* packed, const float* source, float* result, Span lines, float*) const {
    const int s = gradient ? g.stride : 1;
    const long y0 = lines.first, y1 = lines.last;
    for_each_part(packed, [&](const LaneCorrelation& c, const float* from, int a, int b) {
      c.run(from, source, result + (long{1} * a * width() + b) * sample_lanes, y0 > a ? blocks_of(y0 - a, s) : 0,
            y1 > a ? blocks_of(y1 - a, s) : 0);
    });
  }
};

}  // namespace detail

/// Whether kernels with samples in lanes beat those of conv2d.hpp on values in `Layout::standard`, from
/// `least_batch_in_lanes` samples on: a group of 16 must be re-laid, which few channels on the other side do not
/// pay for, and should fit a second-level cache.
constexpr bool few_channels_fits(const Conv2dGeometry& g) {
  return g.channels <= 32 && g.out_channels <= 32 && g.input_size() + g.result_size() <= 1 << 14;
}

}  // namespace tenet::cpu
