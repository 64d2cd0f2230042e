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

/// A gradient by the weight from transformed tiles: `most` of the input, and behind them as many of the gradient of the
/// result. A task has one panel of channels and one of result channels.
struct WinogradFactors {
  const Conv2dGeometry& g;
  WinogradWeightCut cut;
  WinogradTiles in, out;
  long gradients;  // behind the first tile of the input

  constexpr WinogradFactors(const Conv2dGeometry& geometry, long most)
      : g(geometry),
        cut(g),
        in(WinogradTiles::by_panels(g.channels, most)),
        out(WinogradTiles::by_panels(g.out_channels, most)),
        gradients(in.floats(most)) {}
  constexpr long floats(long most) const { return gradients + out.floats(most); }

  constexpr long row(long task) const { return task % cut.rows.count; }
  constexpr long column(long task) const { return task / cut.rows.count; }
  /// Where the task's weights of a channel from its first one on are.
  constexpr long weights(long task, long channel = 0) const {
    return (cut.columns.first(column(task)) * g.channels + cut.rows.first(row(task)) + channel) * 9;
  }
  constexpr long channels(long task) const {
    return smaller(cut.rows.width(row(task)), g.channels - cut.rows.first(row(task)));
  }
  constexpr long out_channels(long task) const {
    return smaller(cut.columns.width(column(task)), g.out_channels - cut.columns.first(column(task)));
  }

  /// own = (or +=) the products of one point of so many tiles.
  void multiply(long task, long point, long tiles, const float* factors, float* own, bool accumulate) const {
    const long r = row(task), c = column(task);
    multiply_weight_gradient(
        cut.rows.width(r), cut.columns.width(c), tiles, factors + in.at(r, 0) + point * in.point_step(r),
        factors + gradients + out.at(c, 0) + point * out.point_step(c), own + point * cut.step, accumulate);
  }
  /// Writes the task's channels [c0, c0 + count) from its sums to the gradient.
  void write(long task, const float* own, long c0, long count, float* gradient) const {
    const long columns = cut.columns.width(column(task));
    write_weight_gradient(g, smaller(count, channels(task) - c0), columns, out_channels(task), own + c0 * columns,
                          gradient + weights(task, c0));
  }
  /// A task's part of the gradient of all tiles at once.
  void add_up(long task, long tiles, const float* factors, float* own, float* gradient) const {
    for (long point = 0; point < winograd_products; ++point) {
      // What is written behind the last point comes to the cache meanwhile.
      fetch_part<1>(point, gradient + weights(task), g.taps(), out_channels(task), 9 * channels(task));
      multiply(task, point, tiles, factors, own, false);
    }
    write(task, own, 0, channels(task), gradient);
  }
};

/// Floats of the transformed tiles of a block that all tasks share.
constexpr long shared_tiles(const Conv2dGeometry& g, const WinogradCut& cut) {
  return WinogradFactors(g, cut.most_tiles()).floats(cut.most_tiles());
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

namespace detail {

/// The images of a batch and the gradient of their results, whose tiles become factors.
struct WinogradFactorImages {
  const Conv2dGeometry& g;
  WinogradImages<const float> images, upstream;

  WinogradFactorImages(const Conv2dGeometry& geometry, const float* input, const float* gradient_of_result,
                       bool channels_last)
      : g(geometry),
        images{input, g.channels, g.height, g.width, channels_last},
        upstream{gradient_of_result, g.out_channels, g.out_height(), g.out_width(), channels_last} {}

  /// Transforms unit `index` of a block, of `samples` samples in `parts` pieces each, to the factors from number `tile`
  /// on: first those of the input, then those of the gradient.
  void read(const WinogradCut& cut, long block, long samples, long parts, long index, const WinogradFactors& factors,
            float* to, long tile, float* scratch) const {
    const long units = samples * parts;
    WinogradUnit unit = unit_of(cut, block, parts, index % units);
    unit.tile += tile;
    if (index < units)
      transform_unit<InputTransform<3>>(images, g.padding, unit, cut.tiles_x, to, factors.in, scratch);
    else
      transform_unit<ResultGradientTransform<3>>(upstream, 0, unit, cut.tiles_x, to + factors.gradients, factors.out,
                                                 scratch);
  }
  /// The same of all units of a block.
  void read_block(Workers& workers, const WinogradCut& cut, long block, long samples, const WinogradFactors& factors,
                  float* to, long tile, bool small) const {
    const long parts = samples >= 8 ? 1 : smaller(blocks_of(8, samples), cut.rows);
    auto task = [&](int index, int worker) {
      read(cut, block, samples, parts, index, factors, to, tile, workers.scratch(worker));
    };
    run_tasks(workers, 2 * samples * parts, small, task);
  }
};

/// The gradient of all samples of the devices that train together, if they take it: each transforms the tiles of its
/// samples, and adds up the sums of some panels. Transforming sums back and writing them takes as long for one sample
/// as for many, so where a batch has few tiles beside the weights, on each device it would be most of the work.
inline bool sum_by_team(Workers& workers, const Conv2dGeometry& g, int batch, const WinogradFactorImages& images,
                        float* weight_gradient) {
  const WorkerTeam& team = workers.team;
  const WinogradWeightCut weights(g);
  const WinogradCut own(g, batch, weights.most_tiles);
  if (weights.most_parts > 1 || own.blocks > 1) return false;
  const long own_tiles = tiles_of(own, 0, batch), tiles = own_tiles * team.size();
  const WinogradFactors factors(g, tiles);
  const WorkerTeam::Sum sum = team.begin_sum(weight_gradient, g.weight_size(), factors.floats(tiles));
  if (!sum) return false;
  images.read_block(workers, own, 0, batch, factors, sum.terms, own_tiles * team.rank(), false);
  team.end_sum([&workers, g, sum, tiles, rank = team.rank(), size = team.size()] {
    const WinogradFactors all_factors(g, tiles);
    const long tasks = all_factors.cut.tasks(), first = tasks * rank / size, last = tasks * (rank + 1) / size;
    workers.reserve_scratch(scratch_winograd_weight_gradient(&workers, g));
    auto task = [&](int index, int worker) {
      all_factors.add_up(first + index, tiles, sum.terms, workers.scratch(worker), sum.to);
    };
    run_tasks(workers, last - first, false, task);
  });
  return true;
}

}  // namespace detail

/// The gradient of `run_conv2d` by its weight, summed over the batch.
inline void run_winograd_weight_gradient(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                                         const float* gradient_of_result, float* weight_gradient, float* workspace,
                                         bool channels_last = false) {
  using namespace detail;
  if (batch == 0) return fill_floats(weight_gradient, 0, g.weight_size());
  workers.reserve_scratch(scratch_winograd_weight_gradient(&workers, g));
  const WinogradFactorImages images(g, input, gradient_of_result, channels_last);
  if (workers.team.size() > 1 && sum_by_team(workers, g, batch, images, weight_gradient)) return;
  const WinogradWeightCut weights(g);
  const WinogradCut cut(g, batch, weights.most_tiles);
  const WinogradFactors factors(g, cut.most_tiles());
  const long parts_of_blocks = smaller(weights.most_parts, cut.blocks), all_sums = weights.tasks() * weights.sums;
  float* const sums = workspace + (weights.most_parts > 1 ? 0 : shared_tiles(g, cut));
  const bool small = batch * g.flops() < inline_flops;
  if (weights.most_parts > 1) {
    auto part_task = [&](int part, int worker) {
      float* const scratch = workers.scratch(worker);
      float* const tiles = scratch + staging_winograd(g, cut.rows);
      const long first = cut.blocks * part / parts_of_blocks, last = cut.blocks * (part + 1) / parts_of_blocks;
      for (long block = first; block < last; ++block) {
        const long samples = samples_of(cut, block, batch);
        for (long unit = 0; unit < 2 * samples; ++unit)
          images.read(cut, block, samples, 1, unit, factors, tiles, 0, scratch);
        const WinogradUnit next = unit_of(cut, block + 1, 1, 0);
        const long next_samples = block + 1 < last ? samples_of(cut, block + 1, batch) : 0;
        for (long point = 0; point < winograd_products; ++point) {
          images.images.template fetch<winograd_in>(point, next, next_samples, g.padding);
          images.upstream.template fetch<winograd_out>(point, next, next_samples);
          for (long task = 0; task < weights.tasks(); ++task) {
            factors.multiply(task, point, tiles_of(cut, block, batch), tiles,
                             sums + part * all_sums + task * weights.sums, block > first);
          }
        }
      }
    };
    run_tasks(workers, parts_of_blocks, small, part_task);
  } else {
    for (long block = 0; block < cut.blocks; ++block) {
      const long tiles = tiles_of(cut, block, batch);
      images.read_block(workers, cut, block, samples_of(cut, block, batch), factors, workspace, 0, small);
      auto panel_task = [&](int task, int worker) {
        if (cut.blocks == 1) return factors.add_up(task, tiles, workspace, workers.scratch(worker), weight_gradient);
        float* const own = sums + task * weights.sums;
        for (long point = 0; point < winograd_products; ++point)
          factors.multiply(task, point, tiles, workspace, own, block > 0);
        if (block + 1 == cut.blocks) factors.write(task, own, 0, factors.channels(task), weight_gradient);
      };
      run_tasks(workers, weights.tasks(), small, panel_task);
    }
    return;
  }
  constexpr long piece = 16, pieces = blocks_of(wide_columns, piece);  // channels of a task
  auto write_task = [&](int index, int) {
    const long task = index / pieces, first = index % pieces * piece, rows = factors.channels(task);
    if (first >= rows) return;
    float* const own = sums + task * weights.sums;
    const long width = weights.columns.width(factors.column(task)),
               count = smaller(piece, weights.rows.width(factors.row(task)) - first);
    for (long part = 1; part < parts_of_blocks; ++part) {
      for (long point = 0; point < winograd_products; ++point) {
        float* const to = own + point * weights.step + first * width;
        add_floats(to, to + part * all_sums, count * width);
      }
    }
    factors.write(task, own, first, count, weight_gradient);
  };
  run_tasks(workers, weights.tasks() * pieces, small, write_task);
}

}  // namespace tenet::cpu
