#pragma once

#include <cstddef>
#include <cstring>

#include "tenet/core/geometry.hpp"
#include "tenet/core/layout.hpp"
#include "tenet/core/vector.hpp"
#include "tenet/device/cpu/lane_tile.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/samples_last.hpp"
#include "tenet/device/cpu/spans.hpp"
#include "tenet/device/cpu/transpose.hpp"
#include "tenet/device/cpu/workers.hpp"

/// The gradient by the weight of direct convolutions with samples in the vector lanes (conv2d_samples_last.hpp): a tile
/// of some result channels by some taps stays in registers while the loops go over positions. Each lane sums its own
/// samples; the lanes are added up once a part of the batch.
namespace tenet::cpu {

namespace detail {

/// How the gradient by the weight is cut: blocks of 3 or 4 result channels (fewer only if there are), and parts of the
/// batch, whose sums are added in order.
struct LaneWeightCut {
  int blocks;
  long parts;

  constexpr LaneWeightCut(const Conv2dGeometry& g, long batch)
      : blocks(static_cast<int>(blocks_of(g.out_channels, 4))), parts(smaller(sample_groups(batch), 8)) {}
};

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

/// to[i] = the sum of the 16 lanes of row i, for i < count; reads up to three rows more.
inline void sum_lanes(const float* from, long count, float* to) {
  for (long i = 0; i < count; i += 4, from += 4 * sample_lanes) {
    Vector row[4];
    for (int k = 0; k < 4; ++k) {
      row[k] = load(from + k * sample_lanes);
      for (int part = 1; part < lane_parts; ++part) row[k] += load(from + k * sample_lanes + part * vector_width);
    }
    transpose_quarters(row[0], row[1], row[2], row[3]);
    float quarters[vector_width];
    store(quarters, (row[0] + row[1]) + (row[2] + row[3]));
    Quarter sum = load_quarter(quarters);
    for (int q = 4; q < vector_width; q += 4) sum += load_quarter(quarters + q);
    std::memcpy(to + i, &sum, sizeof(float) * static_cast<std::size_t>(smaller(4, count - i)));
  }
}

constexpr long scratch_lane_weight_gradient(const Conv2dGeometry& g, bool standard) {
  const long partial = round_up(8 * g.weight_size(), sample_lanes),
             sums = sample_lanes * (g.out_channels + 4) * g.taps();
  return partial + sums + (standard ? sample_lanes * (g.input_size() + g.result_size()) : 0);
}

/// As `run_lane_pass` (conv2d_samples_last.hpp), for the gradient by the weight.
template <bool standard>
[[gnu::noinline]] void run_lane_weight_gradient(Workers& workers, const Conv2dGeometry& g, int batch,
                                                const float* input, const float* gradient_of_result,
                                                float* weight_gradient) {
  workers.reserve_scratch(scratch_lane_weight_gradient(g, standard));
  const LaneWeightCut cut(g, batch);
  const long groups = sample_groups(batch), taps = g.taps(), channels = g.out_channels;
  float* const partial = workers.scratch(0);
  // A block of channels, for one part of the batch; in the standard layout all of them, as they share what is re-laid.
  const long tasks_of_part = standard ? 1 : cut.blocks;
  auto task = [&](int index, int worker) {
    const long part = index / tasks_of_part, first_block = standard ? 0 : index % tasks_of_part;
    const long last_block = standard ? cut.blocks : first_block + 1;
    float* const sums = workers.scratch(worker) + round_up(8 * g.weight_size(), sample_lanes);
    float* const own_input = sums + sample_lanes * (channels + 4) * taps;
    float* const own_upstream = own_input + sample_lanes * g.input_size();
    const long first = channels * first_block / cut.blocks, last = channels * last_block / cut.blocks;
    fill_floats(sums, 0, sample_lanes * (last - first + 4) * taps);
    // Backwards, so that an incomplete group comes first: the lanes beyond the batch are cleared after it.
    for (long group = groups * (part + 1) / cut.parts - 1; group >= groups * part / cut.parts; --group) {
      const long sample = group * sample_lanes, samples = batch - sample;
      const float *x = input + sample * g.input_size(), *dy = gradient_of_result + sample * g.result_size();
      if constexpr (standard) {
        to_samples_last(x, g.input_size(), samples, g.input_size(), own_input);
        to_samples_last(dy, g.result_size(), samples, g.result_size(), own_upstream);
        x = own_input;
        dy = own_upstream;
      }
      const long row = sample_lanes * g.positions();
      for (long block = first_block; block < last_block; ++block) {
        // With fewer than 3 channels the tile works on one of them thrice, and keeps one.
        long o = channels * block / cut.blocks;
        const long end = channels * (block + 1) / cut.blocks;
        if (end - o >= 3) {
          add_lane_weight_gradient(g, x, dy + o * row, row, static_cast<int>(end - o),
                                   sums + (o - first) * taps * sample_lanes);
          continue;
        }
        for (; o < end; ++o)
          add_lane_weight_gradient(g, x, dy + o * row, 0, 1, sums + (o - first) * taps * sample_lanes);
      }
      for (long i = 0; samples < sample_lanes && i < (last - first) * taps; ++i) {
        for (long s = samples; s < sample_lanes; ++s) sums[i * sample_lanes + s] = 0;
      }
    }
    sum_lanes(sums, (last - first) * taps, partial + part * g.weight_size() + first * taps);
  };
  run_tasks(workers, cut.parts * tasks_of_part, batch * g.flops() < inline_flops, task);
  fill_floats(weight_gradient, 0, g.weight_size());
  for (long part = 0; part < cut.parts; ++part) {
    add_floats(weight_gradient, partial + part * g.weight_size(), g.weight_size());
  }
}

}  // namespace detail

constexpr long scratch_conv2d_weight_gradient_samples_last(const Workers*, const Conv2dGeometry& g) {
  return detail::scratch_lane_weight_gradient(g, false);
}

/// As `run_conv2d_weight_gradient`, input and gradient in `Layout::samples_last`; what lies in the lanes beyond the
/// batch does not matter.
inline void run_conv2d_weight_gradient_samples_last(Workers& workers, const Conv2dGeometry& g, int batch,
                                                    const float* input, const float* gradient_of_result,
                                                    float* weight_gradient) {
  detail::run_lane_weight_gradient<false>(workers, g, batch, input, gradient_of_result, weight_gradient);
}

constexpr long scratch_conv2d_weight_gradient_few_channels(const Workers*, const Conv2dGeometry& g) {
  return detail::scratch_lane_weight_gradient(g, true);
}

/// As `run_conv2d_weight_gradient`, likewise.
inline void run_conv2d_weight_gradient_few_channels(Workers& workers, const Conv2dGeometry& g, int batch,
                                                    const float* input, const float* gradient_of_result,
                                                    float* weight_gradient) {
  detail::run_lane_weight_gradient<true>(workers, g, batch, input, gradient_of_result, weight_gradient);
}

}  // namespace tenet::cpu
