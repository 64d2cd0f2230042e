#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/conv2d_weight_gradient.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/transpose.hpp"
#include "tenet/device/cpu/winograd_transform.hpp"
#include "tenet/device/cpu/workers.hpp"

/// The gradient by the weight of Winograd's convolution F(4x4, 3x3): by the transposed transforms, for each of the 36
/// points, the transformed tiles of the input times those of the gradient of the result, summed over all tiles.
namespace tenet::cpu {

namespace detail {

/// How the gradient by the weight is cut: blocks of tiles, which are transformed as a whole, large enough that adding
/// to the sums costs little beside them; then the products. Where the sums are small, a task is a part of the blocks,
/// with sums of its own, so that tiles stay in the cache of one core; else one panel of channels by one of result
/// channels, whose 36 sums stay in the second-level cache for their transform.
struct WinogradWeightCut {
  WinogradPanels rows, columns;
  long most_tiles, most_parts;
  static constexpr long step = wide_columns * wide_columns + 16,
                        sums = winograd_products * step;  // floats of a task

  constexpr explicit WinogradWeightCut(const Conv2dGeometry& g)
      : rows(g.channels),
        columns(g.out_channels),
        most_tiles(larger(larger((1 << 18) / winograd_products, long{1} * g.channels * g.out_channels / 2) /
                              (g.channels + g.out_channels),
                          32)),
        most_parts(tasks() * sums <= 1 << 20 ? 4 : 1) {}
  constexpr long tasks() const { return rows.count * columns.count; }
  /// Floats of the transformed tiles of a block.
  constexpr long tiles_floats(const Conv2dGeometry& g) const {
    const long tiles = larger(most_tiles, blocks_of(g.out_width(), winograd_out));
    return WinogradTiles::by_panels(g.channels, tiles).floats(tiles) +
           WinogradTiles::by_panels(g.out_channels, tiles).floats(tiles);
  }
};

/// The products of one point for one panel of channels with one of result channels: sums [rows, columns] = (or +=) the
/// transposed inputs [rows, tiles] * gradients [tiles, columns].
inline void multiply_weight_gradient(long rows, long columns, long count, const float* inputs, const float* gradients,
                                     float* sums, bool accumulate) {
  for (long tile = 0; tile < count; tile += block_inner) {
    const long terms = smaller(block_inner, count - tile);
    tiles(rows, static_cast<int>(columns / vector_width), terms, inputs + tile * rows, 1, rows,
          gradients + tile * columns, columns, sums, columns, accumulate || tile > 0);
  }
}

/// Transforms the sums of `channels` channels and of a panel of `columns`, of which `out_channels` are no filling: `to`
/// is where the weights of the first of both lie.
inline void write_weight_gradient(const Conv2dGeometry& g, long channels, long columns, long out_channels,
                                  const float* sums, float* to) {
  constexpr long chunk = 8;
  for (long c0 = 0; c0 < channels; c0 += chunk) {
    const long count = smaller(chunk, channels - c0);
    float taps[chunk * 9 * wide_columns];
    for (long c = 0; c < count; ++c) {
      for (long o = 0; o < columns; o += vector_width) {
        const float* const from = sums + (c0 + c) * columns + o;
        float* const target = taps + c * 9 * columns + o;
        transform_tile<WeightGradientTransform<3>>(
            [&](int i, int j) { return load(from + (i * winograd_in + j) * WinogradWeightCut::step); },
            [&](int i, int j, Vector value) { store(target + (i * 3 + j) * columns, value); });
      }
    }
    write_weight_rows(taps, columns, 9 * count, out_channels, to + c0 * 9, g.taps());
  }
}

/// Floats of the transformed tiles of a block that all tasks share.
constexpr long shared_tiles(const Conv2dGeometry& g, const WinogradCut& cut) {
  const long tiles = cut.most_tiles();
  return WinogradTiles::by_panels(g.channels, tiles).floats(tiles) +
         WinogradTiles::by_panels(g.out_channels, tiles).floats(tiles);
}

}  // namespace detail

/// Floats of scratch a worker for `run_winograd_weight_gradient`.
constexpr long scratch_winograd_weight_gradient(const Workers*, const Conv2dGeometry& g) {
  const detail::WinogradWeightCut cut(g);
  const long staging = detail::staging_winograd(g, detail::WinogradCut(g, 1, cut.most_tiles).rows);
  return cut.most_parts > 1 ? staging + cut.tiles_floats(g) : detail::larger(staging, cut.sums);
}

/// Floats of `workspace` for `run_winograd_weight_gradient`: transformed tiles and the sums of their products, where
/// workers have no room for them.
[[gnu::noinline]] inline long workspace_winograd_weight_gradient(const Conv2dGeometry& g, long batch) {
  using namespace detail;
  const WinogradWeightCut weights(g);
  const WinogradCut cut(g, static_cast<int>(batch), weights.most_tiles);
  const long all_sums = weights.tasks() * weights.sums;
  if (weights.most_parts > 1) return smaller(weights.most_parts, cut.blocks) * all_sums;
  return shared_tiles(g, cut) + (cut.blocks > 1 ? all_sums : 0);
}

/// The gradient of `run_conv2d` by its weight, summed over the batch.
inline void run_winograd_weight_gradient(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                                         const float* gradient_of_result, float* weight_gradient, float* workspace,
                                         bool channels_last = false) {
  using namespace detail;
  if (batch == 0) return fill_floats(weight_gradient, 0, g.weight_size());
  workers.reserve_scratch(scratch_winograd_weight_gradient(&workers, g));
  const WinogradWeightCut weights(g);
  const WinogradCut cut(g, batch, weights.most_tiles);
  const WinogradTiles in = WinogradTiles::by_panels(g.channels, cut.most_tiles());
  const WinogradTiles out = WinogradTiles::by_panels(g.out_channels, cut.most_tiles());
  const long parts_of_blocks = smaller(weights.most_parts, cut.blocks), all_sums = weights.tasks() * weights.sums;
  float* const sums = workspace + (weights.most_parts > 1 ? 0 : shared_tiles(g, cut));
  const bool small = batch * g.flops() < inline_flops;
  /// Writes channels [c0, c0 + channels) of a task's sums.
  auto write = [&](long task, const float* own, long c0, long channels) {
    const long row = task % weights.rows.count, column = task / weights.rows.count;
    const long c = weights.rows.first(row) + c0, o = weights.columns.first(column);
    const long columns = weights.columns.width(column);
    write_weight_gradient(g, smaller(channels, g.channels - c), columns, smaller(columns, g.out_channels - o),
                          own + c0 * columns, weight_gradient + (o * g.channels + c) * 9);
  };
  const WinogradImages<const float> images{input, g.channels, g.height, g.width, channels_last};
  const WinogradImages<const float> upstream{gradient_of_result, g.out_channels, g.out_height(), g.out_width(),
                                             channels_last};
  /// Transforms unit `index` of a block: first those of the input, then those of the gradient.
  auto read = [&](long block, long parts, long index, float* inputs, float* scratch) {
    const long units = samples_of(cut, block, batch) * parts;
    const WinogradUnit unit = unit_of(cut, block, parts, index % units);
    if (index < units) {
      transform_unit<InputTransform<3>>(images, g.padding, unit, cut.tiles_x, inputs, in, scratch);
    } else {
      transform_unit<ResultGradientTransform<3>>(upstream, 0, unit, cut.tiles_x, inputs + in.floats(cut.most_tiles()),
                                                 out, scratch);
    }
  };
  /// own = (or +=) the products of one point of a block's tiles, for one panel of channels and one of result channels.
  auto multiply = [&](long task, long point, long tiles, const float* inputs, float* own, bool accumulate) {
    const long row = task % weights.rows.count, column = task / weights.rows.count;
    const float* const gradients = inputs + in.floats(cut.most_tiles());
    multiply_weight_gradient(weights.rows.width(row), weights.columns.width(column), tiles,
                             inputs + in.at(row, 0) + point * in.point_step(row),
                             gradients + out.at(column, 0) + point * out.point_step(column), own + point * weights.step,
                             accumulate);
  };
  if (weights.most_parts > 1) {
    auto part_task = [&](int part, int worker) {
      float* const scratch = workers.scratch(worker);
      float* const tiles = scratch + staging_winograd(g, cut.rows);
      const long first = cut.blocks * part / parts_of_blocks, last = cut.blocks * (part + 1) / parts_of_blocks;
      for (long block = first; block < last; ++block) {
        for (long unit = 0; unit < 2 * samples_of(cut, block, batch); ++unit) read(block, 1, unit, tiles, scratch);
        const WinogradUnit next = unit_of(cut, block + 1, 1, 0);
        const long next_samples = block + 1 < last ? samples_of(cut, block + 1, batch) : 0;
        for (long point = 0; point < winograd_products; ++point) {
          images.template fetch<winograd_in>(point, next, next_samples, g.padding);
          upstream.template fetch<winograd_out>(point, next, next_samples);
          for (long task = 0; task < weights.tasks(); ++task) {
            multiply(task, point, tiles_of(cut, block, batch), tiles, sums + part * all_sums + task * weights.sums,
                     block > first);
          }
        }
      }
    };
    run_tasks(workers, parts_of_blocks, small, part_task);
  } else {
    for (long block = 0; block < cut.blocks; ++block) {
      const long samples = samples_of(cut, block, batch), tiles = tiles_of(cut, block, batch);
      const long parts = samples >= 8 ? 1 : smaller(blocks_of(8, samples), cut.rows);
      auto read_task = [&](int index, int worker) { read(block, parts, index, workspace, workers.scratch(worker)); };
      run_tasks(workers, 2 * samples * parts, small, read_task);
      auto panel_task = [&](int task, int worker) {
        float* const own = cut.blocks == 1 ? workers.scratch(worker) : sums + task * weights.sums;
        const long row = task % weights.rows.count, column = task / weights.rows.count;
        const long c = weights.rows.first(row), o = weights.columns.first(column);
        const long channels = smaller(weights.rows.width(row), g.channels - c),
                   out_channels = smaller(weights.columns.width(column), g.out_channels - o);
        for (long point = 0; point < winograd_products; ++point) {
          if (cut.blocks == 1)  // what is written behind the last point comes to the cache meanwhile
            fetch_part<1>(point, weight_gradient + (o * g.channels + c) * 9, g.taps(), out_channels, 9 * channels);
          multiply(task, point, tiles, workspace, own, block > 0);
        }
        if (block + 1 == cut.blocks) write(task, own, 0, weights.rows.width(task % weights.rows.count));
      };
      run_tasks(workers, weights.tasks(), small, panel_task);
    }
    return;
  }
  constexpr long piece = 16, pieces = blocks_of(wide_columns, piece);  // channels of a task
  auto write_task = [&](int index, int) {
    const long task = index / pieces, first = index % pieces * piece,
               rows = weights.rows.width(task % weights.rows.count);
    if (first >= rows) return;
    float* const own = sums + task * weights.sums;
    const long width = weights.columns.width(task / weights.rows.count), count = smaller(piece, rows - first);
    for (long part = 1; part < parts_of_blocks; ++part) {
      for (long point = 0; point < winograd_products; ++point) {
        float* const to = own + point * weights.step + first * width;
        add_floats(to, to + part * all_sums, count * width);
      }
    }
    write(task, own, first, count);
  };
  run_tasks(workers, weights.tasks() * pieces, small, write_task);
}

}  // namespace tenet::cpu
