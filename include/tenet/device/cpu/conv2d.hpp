#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/patches.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

namespace tenet::cpu {

namespace detail {

/// How a convolution of `batch` samples with `rows` channels and `positions` columns each is cut into tasks: as large
/// as possible, because every task packs its operands, but 8 or more if that leaves blocks worth packing.
struct ConvolutionCut {
  long samples, groups, row_block, row_blocks;

  constexpr ConvolutionCut(long rows, long positions, long batch) {
    row_block = round_up(rows, tile_rows);
    const long most = positions < block_columns ? block_columns / positions : 1;
    samples = batch > 0 ? blocks_of(batch, blocks_of(batch, most)) : 1;
    while (blocks_of(rows, row_block) * blocks_of(batch, samples) < 8) {
      const bool rows_divide = row_block >= 64, samples_divide = samples > 1 && samples * positions >= 96;
      if (!rows_divide && !samples_divide) break;
      if (rows_divide && (!samples_divide || row_block > samples * positions)) {
        row_block = round_up(row_block / 2, tile_rows);
      } else {
        samples = (samples + 1) / 2;
      }
    }
    row_blocks = blocks_of(rows, row_block);
    groups = blocks_of(batch, samples);
  }
};

/// Floats for the padded channels of a convolution's patches, and of its gradient by the input.
constexpr long padded_floats(const Conv2dGeometry& g) {
  const long one_row = padded_floats(1, static_cast<int>(g.positions()), 1, 1, 1);  // 1x1
  const long grid = padded_floats(g.out_height(), g.out_width(), g.stride, g.kernel_height, g.kernel_width);
  return round_up(grid > one_row ? grid : one_row, vector_width);
}
constexpr long padded_floats_of_input_gradient(const Conv2dGeometry& g) {
  const int narrow = g.width >= g.stride ? g.width / g.stride : 1;  // a remainder's grid is narrow or one more
  const long rows = smaller(g.height, block_columns / narrow + 2) + g.kernel_height;
  return round_up(rows * (narrow + 1 + g.kernel_width) + 4 * vector_width, vector_width);
}

/// How the gradient by the weight is cut: blocks of taps, blocks of output channels, and parts of the batch whose sums
/// are added in order.
struct WeightGradientCut {
  long tap_blocks, tap_block, channel_blocks, parts;

  constexpr WeightGradientCut(const Conv2dGeometry& g, long batch) {
    tap_blocks = blocks_of(g.taps(), block_rows);
    tap_block = round_up(blocks_of(g.taps(), tap_blocks), tile_rows);
    tap_blocks = blocks_of(g.taps(), tap_block);
    channel_blocks = blocks_of(g.out_channels, block_columns);
    parts = smaller(blocks_of(16, tap_blocks * channel_blocks), smaller(batch, (1 << 20) / g.weight_size()));
    if (parts < 1) parts = 1;
  }
};

/// Whether the gradient by the input goes over the gradients of patches, [taps, positions], added where they overlap:
/// with few channels that moves less than gathering the patches of many result channels.
constexpr bool scatters_patches(const Conv2dGeometry& g) {
  return g.channels <= 16 && 2 * g.channels <= g.out_channels && g.taps() * g.positions() <= 1 << 18;
}

/// The gradient by the input of one sample by way of `patches`, [taps, positions] floats.
inline void scatter_input_gradient(const Conv2dGeometry& g, const float* gradient_of_result, const float* weight,
                                   float* input_gradient, float* patches, float* scratch) {
  const long positions = g.positions(), taps = g.taps();
  product(taps, positions, g.out_channels, {weight, 1, taps}, {gradient_of_result, positions, 1}, patches, positions,
          false, scratch);
  fill_floats(input_gradient, 0, g.input_size());
  const int out_height = g.out_height(), out_width = g.out_width();
  for (int c = 0; c < g.channels; ++c, input_gradient += long{1} * g.height * g.width) {
    for (int u = 0; u < g.kernel_height; ++u) {
      for (int v = 0; v < g.kernel_width; ++v) {
        // Columns j with 0 <= x0 + j * stride < width.
        const int x0 = v - g.padding;
        const long first = x0 >= 0 ? 0 : smaller(out_width, blocks_of(-x0, g.stride));
        const long last = x0 >= g.width ? 0 : smaller(out_width, blocks_of(g.width - x0, g.stride));
        for (int i = 0; i < out_height; ++i, patches += out_width) {
          const int y = i * g.stride + u - g.padding;
          if (y < 0 || y >= g.height || first >= last) continue;
          float* to = input_gradient + long{y} * g.width + x0;
          if (g.stride == 1) {
            add_floats(to + first, patches + first, last - first);
          } else {
            for (long j = first; j < last; ++j) to[j * g.stride] += patches[j];
          }
        }
      }
    }
  }
}

}  // namespace detail

constexpr long scratch_conv2d(const Workers*, const Conv2dGeometry& g) {
  return detail::product_scratch + detail::padded_floats(g);
}

constexpr long scratch_conv2d_input_gradient(const Workers*, const Conv2dGeometry& g) {
  if (detail::scatters_patches(g)) return detail::product_scratch + g.taps() * g.positions();
  const long scratch = detail::product_scratch + detail::padded_floats_of_input_gradient(g);
  if (g.stride == 1) return scratch;
  const long positions = detail::blocks_of(g.height, g.stride) * detail::blocks_of(g.width, g.stride);
  const long columns = positions > detail::block_columns ? positions : detail::block_columns;
  return scratch + detail::round_up(g.channels, detail::tile_rows) * columns;
}

constexpr long scratch_conv2d_weight_gradient(const Workers*, const Conv2dGeometry& g) {
  return detail::product_scratch + detail::padded_floats(g) +
         detail::WeightGradientCut(g, 1 << 20).parts * g.weight_size();
}

/// result[n, o, i, j] = the sum over c, u, v of weight[o, c, u, v] * input[n, c, i * stride + u - padding,
/// j * stride + v - padding].
inline void run_conv2d(Workers& workers, const Conv2dGeometry& g, int batch, const float* input, const float* weight,
                       float* result, Epilogue epilogue = {}) {
  using namespace detail;
  workers.reserve_scratch(scratch_conv2d(&workers, g));
  const long positions = g.positions(), taps = g.taps();
  const ConvolutionCut cut(g.out_channels, positions, batch);
  Patches patches{input,      g.input_size(), g.height, g.width,  g.kernel_height, g.kernel_width,
                  -g.padding, -g.padding,     1,        g.stride, g.out_height(),  g.out_width()};
  if (taps == g.channels && g.stride == 1 && g.padding == 0) {  // 1x1: a plane is one row
    patches.height = patches.grid_height = 1;
    patches.width = patches.grid_width = static_cast<int>(positions);
  }
  auto task = [&](int index, int worker) {
    const long row0 = index % cut.row_blocks * cut.row_block, rows = smaller(cut.row_block, g.out_channels - row0);
    const long sample0 = index / cut.row_blocks * cut.samples, samples = smaller(cut.samples, batch - sample0);
    float* const scratch = workers.scratch(worker);
    Patches own = patches;
    own.image += sample0 * g.input_size();
    const long first = sample0 * g.result_size() + row0 * positions;
    blocked_product(rows, samples * positions, taps, LeftMatrix{{weight + row0 * taps, taps, 1}},
                    RightPatches{own, scratch + product_scratch},
                    ResultChannels{result + first, g.result_size(), positions}, false, scratch);
    for (long n = 0; n < samples; ++n) {
      epilogue(first + n * g.result_size(), first + n * g.result_size() + rows * positions);
    }
  };
  run_tasks(workers, cut.groups * cut.row_blocks, batch * g.flops() < inline_flops, task);
}

/// The gradient of `run_conv2d` by its input.
inline void run_conv2d_input_gradient(Workers& workers, const Conv2dGeometry& g, int batch,
                                      const float* gradient_of_result, const float* weight, float* input_gradient,
                                      Epilogue epilogue = {}) {
  using namespace detail;
  workers.reserve_scratch(scratch_conv2d_input_gradient(&workers, g));
  if (scatters_patches(g)) {
    const long group = 1 + static_cast<long>(5e5 / (g.flops() + 1));
    auto task = [&](int index, int worker) {
      const long first = index * group, last = smaller(batch, first + group);
      float* const scratch = workers.scratch(worker);
      for (long n = first; n < last; ++n) {
        scatter_input_gradient(g, gradient_of_result + n * g.result_size(), weight, input_gradient + n * g.input_size(),
                               scratch + product_scratch, scratch);
      }
      epilogue(first * g.input_size(), last * g.input_size());
    };
    run_tasks(workers, blocks_of(batch, group), batch * g.flops() < inline_flops, task);
    return;
  }
  const int s = g.stride;
  const long plane = long{1} * g.height * g.width;
  const ConvolutionCut cut(g.channels, blocks_of(g.height, s) * blocks_of(g.width, s), batch);
  auto task = [&](int index, int worker) {
    const long row0 = index % cut.row_blocks * cut.row_block, rows = smaller(cut.row_block, g.channels - row0);
    const long sample0 = index / cut.row_blocks * cut.samples, samples = smaller(cut.samples, batch - sample0);
    const long first = sample0 * g.input_size() + row0 * plane;
    float* const scratch = workers.scratch(worker);
    // Input rows y = a + s * i get from result rows i + (a + padding - u) / s, where u = (a + padding) % s + s * t.
    for (int a = 0; a < s && a < g.height; ++a) {
      for (int b = 0; b < s && b < g.width; ++b) {
        const int first_u = (a + g.padding) % s, first_v = (b + g.padding) % s;
        const int taps_y = first_u < g.kernel_height ? (g.kernel_height - first_u + s - 1) / s : 0;
        const int taps_x = first_v < g.kernel_width ? (g.kernel_width - first_v + s - 1) / s : 0;
        const int grid_height = (g.height - a + s - 1) / s, grid_width = (g.width - b + s - 1) / s;
        Patches patches{gradient_of_result + sample0 * g.result_size(),
                        g.result_size(),
                        g.out_height(),
                        g.out_width(),
                        taps_y,
                        taps_x,
                        (a + g.padding) / s,
                        (b + g.padding) / s,
                        -1,
                        1,
                        grid_height,
                        grid_width};
        float* const padded = scratch + product_scratch;
        const long positions = patches.positions(), inner = long{1} * g.out_channels * taps_y * taps_x;
        const LeftTransposedWeights left{
            weight + row0 * g.kernel_height * g.kernel_width, g, taps_y, taps_x, first_u, first_v};
        if (s == 1) {
          blocked_product(rows, samples * positions, inner, left, RightPatches{patches, padded},
                          ResultChannels{input_gradient + first, g.input_size(), plane}, false, scratch);
          continue;
        }
        // Through a dense block: every s-th element of every s-th row is written once.
        float* const dense = padded + padded_floats_of_input_gradient(g);
        const long columns = samples * positions;
        blocked_product(rows, columns, inner, left, RightPatches{patches, padded}, ResultChannels{dense, 0, columns},
                        false, scratch);
        for (long n = 0; n < samples; ++n) {
          for (long row = 0; row < rows; ++row) {
            const float* from = dense + row * columns + n * positions;
            float* to = input_gradient + first + n * g.input_size() + row * plane + long{a} * g.width + b;
            for (int i = 0; i < grid_height; ++i, from += grid_width) {
              for (int j = 0; j < grid_width; ++j) to[long{i} * s * g.width + long{j} * s] = from[j];
            }
          }
        }
      }
    }
    for (long n = 0; n < samples; ++n) epilogue(first + n * g.input_size(), first + n * g.input_size() + rows * plane);
  };
  run_tasks(workers, cut.groups * cut.row_blocks, batch * g.flops() < inline_flops, task);
}

/// The gradient of `run_conv2d` by its weight, summed over the batch.
inline void run_conv2d_weight_gradient(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                                       const float* gradient_of_result, float* weight_gradient) {
  using namespace detail;
  workers.reserve_scratch(scratch_conv2d_weight_gradient(&workers, g));
  const long positions = g.positions(), taps = g.taps(), channels = g.out_channels;
  const WeightGradientCut cut(g, batch);
  // The transposed gradient, [taps, out_channels], of each part of the batch: its rows are patches, which need no
  // rearrangement along the sum.
  float* const partial = workers.scratch(0) + product_scratch + padded_floats(g);
  const long part_samples = blocks_of(batch, cut.parts);
  auto product_task = [&](int index, int worker) {
    const long tap0 = index % cut.tap_blocks * cut.tap_block, rows = smaller(cut.tap_block, taps - tap0);
    const long channel0 = index / cut.tap_blocks % cut.channel_blocks * block_columns;
    const long part = index / cut.tap_blocks / cut.channel_blocks;
    const long sample0 = smaller(batch, part * part_samples), samples = smaller(part_samples, batch - sample0);
    const Patches patches{input + sample0 * g.input_size(),
                          g.input_size(),
                          g.height,
                          g.width,
                          g.kernel_height,
                          g.kernel_width,
                          -g.padding,
                          -g.padding,
                          1,
                          g.stride,
                          g.out_height(),
                          g.out_width()};
    float* const scratch = workers.scratch(worker);
    const RightChannels right{gradient_of_result + sample0 * g.result_size() + channel0 * positions, g.result_size(),
                              positions};
    blocked_product(rows, smaller(block_columns, channels - channel0), samples * positions,
                    LeftPatches{patches, tap0, scratch + product_scratch}, right,
                    ResultMatrix{partial + (part * taps + tap0) * channels + channel0, channels}, false, scratch);
  };
  run_tasks(workers, cut.tap_blocks * cut.channel_blocks * cut.parts, batch * g.flops() < inline_flops, product_task);
  constexpr long sum_block = 64;
  auto sum_task = [&](int index, int) {
    const long tap0 = index * sum_block, rows = smaller(sum_block, taps - tap0), count = rows * channels;
    float* const sum = partial + tap0 * channels;
    for (long part = 1; part < cut.parts; ++part) {
      add_floats(sum, sum + part * taps * channels, count);
    }
    transpose(sum, channels, rows, channels, weight_gradient + tap0, taps);
  };
  run_tasks(workers, blocks_of(taps, sum_block), static_cast<double>(cut.parts * g.weight_size()) < inline_elements,
            sum_task);
}

}  // namespace tenet::cpu
