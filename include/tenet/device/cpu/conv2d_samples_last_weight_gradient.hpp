#pragma once

#include <cstddef>
#include <cstring>

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/lane_tile.hpp"
#include "tenet/device/cpu/lane_weight_pass.hpp"
#include "tenet/device/cpu/spans.hpp"

/// The gradient by the weight of direct convolutions with samples in the vector lanes (conv2d_samples_last.hpp): a tile
/// of some result channels by some taps stays in registers while the loops go over positions.
namespace tenet::cpu {

namespace detail {

/// sums [rows, taps, 16] += the products of `rows` (3 or 4) channels of a group's gradient, of which `upstream` is the
/// first, with its input.
[[gnu::noinline]] inline void add_lane_weight_gradient(const Conv2dGeometry& g, const float* input,
                                                       const float* upstream, long upstream_row, int rows,
                                                       float* sums) {
  const long width = g.out_width(), height = g.out_height();
  const Span inner = interior(-g.padding, g.stride, g.kernel_width, g.width, width);
  // The sum over positions [i0, i1) x [j0, j1) for the taps `v` of one row of a kernel.
  auto add = [&](int c, int u, long i0, long i1, long j0, long j1, Span v) {
    if (i0 >= i1 || j0 >= j1) return;
    const LaneSum sum{{1, i1 - i0, j1 - j0},
                      {0, sample_lanes * width, sample_lanes},
                      {0, long{sample_lanes} * g.stride * g.width, long{sample_lanes} * g.stride}};
    const long y = i0 * g.stride + u - g.padding, x = j0 * g.stride - g.padding;
    const float* left = upstream + (i0 * width + j0) * sample_lanes;
    const float* right = input + ((long{c} * g.height + y) * g.width + x) * sample_lanes;
    float* to = sums + (long{c} * g.kernel_height + u) * g.kernel_width * sample_lanes;
    const LaneTiles& choice = rows == 4 ? lane_tiles<Vector, 4> : lane_tiles<Vector, 3>;
    for (long first = v.first, columns; first < v.last; first += columns) {
      columns = choice.next(v.last - first);
      for (long part = 0; part < sample_lanes; part += vector_width) {
        choice.tile[columns - 1](sum, left + part, upstream_row, right + first * sample_lanes + part, sample_lanes,
                                 to + first * sample_lanes + part, g.taps() * sample_lanes, sample_lanes, rows, true);
      }
    }
  };
  const long band = 1 + 100 / width;  // rows whose operands stay in the first-level cache
  for (long i0 = 0; i0 < height; i0 += band) {
    for (int c = 0; c < g.channels; ++c) {
      for (int u = 0; u < g.kernel_height; ++u) {
        const Span y = interior(u - g.padding, g.stride, 1, g.height, height);
        add(c, u, i0 > y.first ? i0 : y.first, smaller(i0 + band, y.last), inner.first, inner.last,
            {0, g.kernel_width});
      }
    }
  }
  for_each_outside({0, width}, inner, [&](long j) {
    const Span v = taps_inside(j * g.stride - g.padding, g.kernel_width, g.width);
    for (int c = 0; c < g.channels; ++c) {
      for (int u = 0; u < g.kernel_height; ++u) {
        const Span y = interior(u - g.padding, g.stride, 1, g.height, height);
        add(c, u, y.first, y.last, j, j + 1, v);
      }
    }
  });
}

/// The direct form as a pass (lane_weight_pass.hpp).
struct LaneWeightPass {
  Conv2dGeometry g;

  constexpr long sums() const { return g.taps(); }
  constexpr long own_size() const { return 0; }
  constexpr long blocks(long) const { return blocks_of(g.out_channels, 4); }

  void add(const float* input, const float* upstream, long first, long last, float* sums, float*) const {
    const long row = sample_lanes * g.positions(), sums_of_channel = g.taps() * sample_lanes;
    const long cut = blocks_of(last - first, 4);
    for (long block = 0; block < cut; ++block) {
      // With fewer than 3 channels the tile works on one of them thrice, and keeps one.
      long o = (last - first) * block / cut;
      const long end = (last - first) * (block + 1) / cut;
      if (end - o >= 3) {
        add_lane_weight_gradient(g, input, upstream + (first + o) * row, row, static_cast<int>(end - o),
                                 sums + o * sums_of_channel);
        continue;
      }
      for (; o < end; ++o)
        add_lane_weight_gradient(g, input, upstream + (first + o) * row, 0, 1, sums + o * sums_of_channel);
    }
  }
  void finish(const float* sums, float* weight_gradient) const {
    std::memcpy(weight_gradient, sums, sizeof(float) * static_cast<std::size_t>(g.weight_size()));
  }
};

}  // namespace detail

}  // namespace tenet::cpu
