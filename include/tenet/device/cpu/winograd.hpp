#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/winograd_transform.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

/// Winograd's convolution F(4x4, 3x3) (Lavin and Gray, 2015): 36 products of matrices in place of the 144
/// multiplications of a tile of 4x4 results. Relative errors (largest difference over largest value) stay below 1e-5.
namespace tenet::cpu {

/// Whether a convolution can go, and pays to go, by Winograd's algorithm.
constexpr bool winograd_fits(const Conv2dGeometry& g) {
  return g.kernel_height == 3 && g.kernel_width == 3 && g.stride == 1 && g.padding >= 0 && g.padding <= 2 &&
         g.channels >= 16 && g.out_channels >= 16 && g.out_height() >= 3 && g.out_width() >= 3;
}

/// Whether weights are so large beside the tiles of a usual batch that `run_winograd_conv2d_at_once` beats transforming
/// them into memory, 4 times their size, for every step.
constexpr bool winograd_weights_at_once(const Conv2dGeometry& g) {
  return long{1} * g.channels * g.out_channels >= 1 << 17;
}

/// The convolution that gives the gradient by the input: of the gradient of the result with the kernel rotated by 180
/// degrees and the channels exchanged.
constexpr Conv2dGeometry exchanged(const Conv2dGeometry& g) {
  return {g.out_channels, g.out_height(), g.out_width(), g.channels, 3, 3, 1, 2 - g.padding};
}

namespace detail {

/// Floats of one of the 36 matrices of transformed weights.
constexpr long winograd_weight_step(const Conv2dGeometry& g) {
  return g.channels * round_up(g.out_channels, vector_width) + 16;
}

/// Transforms weights from channels [k0, k0 + terms) to result channels [first, first + width): 36 matrices
/// [terms, width], `step` apart. `exchange`: see `run_winograd_weights`.
inline void transform_weights(const Conv2dGeometry& g, const float* weight, bool exchange, long first, long width,
                              long k0, long terms, float* to, long step) {
  const long out_step = exchange ? 9 : 9L * g.channels, in_step = exchange ? 9L * g.out_channels : 9;
  constexpr long most = 8;
  const long chunk = exchange ? 1 : most;    // channels whose taps lie together
  float taps[most * 9 * wide_columns] = {};  // [chunk, 9, width], zero beyond the last result channel
  weight += first * out_step + k0 * in_step;
  for (long k = 0; k < terms; ++k, to += width) {
    const float* const own = taps + k % chunk * 9 * width;
    if (k % chunk == 0) {
      transpose(weight + k * in_step, out_step, smaller(width, g.out_channels - first), 9 * smaller(chunk, terms - k),
                taps, width);
    }
    for (long o = 0; o < width; o += vector_width) {
      transform_tile<WeightTransform>(
          [&](int i, int j) { return load(own + (exchange ? 8 - i * 3 - j : i * 3 + j) * width + o); },
          [&](int i, int j, Vector value) { store(to + (i * winograd_in + j) * step + o, value); });
    }
  }
}

/// The products of one point with one panel of weights: to [tiles, width] = (or +=) from [tiles, terms] * weights
/// [terms, width], where `from` and `to` are those of the first tile.
inline void multiply_tiles(long terms, long width, long count, const float* from, const WinogradTiles& from_tiles,
                           const float* weights, float* to, const WinogradTiles& to_tiles, bool accumulate) {
  const long from_step = from_tiles.group_step(0), from_row = from_tiles.row_step(0);
  const long to_step = to_tiles.group_step(0), to_row = to_tiles.row_step(0);
  for (; count > 0; count -= from_tiles.group, from += from_step, to += to_step) {
    tiles(smaller(from_tiles.group, count), static_cast<int>(width / vector_width), terms, from, from_row, 1, weights,
          width, to, to_row, accumulate);
  }
}

/// Channels whose weights to one panel are transformed at once: they stay in the second-level cache.
inline constexpr long winograd_weight_channels = 64,
                      winograd_weight_block = winograd_weight_channels * wide_columns + 16;

/// The products of one panel at all points, with weights transformed on the way into `scratch`.
inline void multiply_weights(const Conv2dGeometry& g, long first, long width, long count, const float* from,
                             const WinogradTiles& from_tiles, const float* weight, bool exchange, float* to,
                             const WinogradTiles& to_tiles, float* scratch) {
  for (long k0 = 0; k0 < g.channels; k0 += winograd_weight_channels) {
    const long terms = smaller(winograd_weight_channels, g.channels - k0);
    transform_weights(g, weight, exchange, first, width, k0, terms, scratch, winograd_weight_block);
    for (long point = 0; point < winograd_products; ++point) {
      multiply_tiles(terms, width, count, from + point * from_tiles.point_step(0) + k0, from_tiles,
                     scratch + point * winograd_weight_block, to + point * to_tiles.point_step(0) + first, to_tiles,
                     k0 > 0);
    }
  }
}

/// The products of one point with transformed weights.
inline void multiply_point(const Conv2dGeometry& g, long point, long count, const float* from,
                           const WinogradTiles& from_tiles, const float* transformed, float* to,
                           const WinogradTiles& to_tiles) {
  const WinogradPanels panels(g.out_channels);
  const float* const weights = transformed + point * winograd_weight_step(g);
  for (long panel = 0; panel < panels.count; ++panel) {
    const long first = panels.first(panel), width = panels.width(panel);
    for (long k0 = 0; k0 < g.channels; k0 += block_inner) {
      multiply_tiles(smaller(block_inner, g.channels - k0), width, count, from + point * from_tiles.point_step(0) + k0,
                     from_tiles, weights + first * g.channels + k0 * width, to + point * to_tiles.point_step(0) + first,
                     to_tiles, k0 > 0);
    }
  }
}

/// How a convolution is run: blocks of tiles that fit the second-level cache, one a task; or, where weights are large
/// or blocks few, larger ones that all workers share step by step, so that weights are read once a block.
struct WinogradPlan {
  bool shared;
  WinogradCut cut;

  static constexpr long local_floats = 1 << 18, shared_floats = 1 << 21;  // of transformed tiles and results

  static constexpr long tiles_within(const Conv2dGeometry& g, long floats) {
    const long tile = winograd_products * (g.channels + g.out_channels);
    return larger(floats / tile, 32);
  }
  constexpr WinogradPlan(const Conv2dGeometry& g, long batch, bool at_once)
      : shared(at_once || long{1} * g.channels * g.out_channels >= 1 << 16),
        cut(g, batch, tiles_within(g, local_floats)) {
    if (cut.blocks < 8) shared = true;
    if (shared) cut = WinogradCut(g, batch, tiles_within(g, shared_floats));
  }
};

}  // namespace detail

/// Floats of scratch a worker for `run_winograd_conv2d`.
constexpr long scratch_winograd(const Workers*, const Conv2dGeometry& g) {
  using namespace detail;
  const WinogradCut cut(g, 1, WinogradPlan::tiles_within(g, WinogradPlan::shared_floats));
  const long tiles = larger(cut.tiles_x, WinogradPlan::tiles_within(g, WinogradPlan::shared_floats));
  return larger(staging_winograd(g, cut.rows), winograd_products * winograd_weight_block) +
         WinogradTiles::groups(g.channels, winograd_rows(g.out_channels)).floats(tiles) +
         WinogradTiles::groups(g.out_channels, winograd_rows(g.out_channels)).floats(tiles);
}

/// Floats of the transformed weights.
constexpr long workspace_winograd_weights(const Conv2dGeometry& g) {
  return detail::winograd_products * detail::winograd_weight_step(g);
}

/// Transforms weights [out_channels, channels, 3, 3] for `run_winograd_conv2d` with the same `g`. `weight` belongs to
/// the convolution `g`, or, with `exchange`, to that whose `exchanged` geometry is `g`.
inline void run_winograd_weights(Workers& workers, const Conv2dGeometry& g, const float* weight, float* transformed,
                                 bool exchange = false) {
  using namespace detail;
  const WinogradPanels panels(g.out_channels);
  constexpr long part = 16;
  const long parts = blocks_of(g.channels, part);
  auto task = [&](int index, int) {
    const long first = panels.first(index / parts), width = panels.width(index / parts), k0 = index % parts * part;
    transform_weights(g, weight, exchange, first, width, k0, smaller(part, g.channels - k0),
                      transformed + first * g.channels + k0 * width, winograd_weight_step(g));
  };
  run_tasks(workers, panels.count * parts, static_cast<double>(g.weight_size()) * 4 < inline_elements, task);
}

namespace detail {

/// The convolution with `transformed` weights, or, where that is null, with `weight`, transformed on the way.
inline void run_winograd(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                         const float* transformed, const float* weight, bool exchange, float* result,
                         Epilogue epilogue) {
  workers.reserve_scratch(scratch_winograd(&workers, g));
  const WinogradPlan plan(g, batch, transformed == nullptr);
  const WinogradCut& cut = plan.cut;
  const WinogradPanels panels(g.out_channels);
  const long together = winograd_rows(g.out_channels);
  const WinogradTiles in = WinogradTiles::groups(g.channels, together);
  const WinogradTiles out = WinogradTiles::groups(g.out_channels, together);
  const long staging = larger(staging_winograd(g, cut.rows), winograd_products * winograd_weight_block);
  auto read = [&](const WinogradUnit& unit, float* tiles, float* scratch) {
    transform_unit<InputTransform>(g.channels, g.height, g.width, g.padding, unit, cut.tiles_x, input, tiles, in,
                                   scratch);
  };
  auto write = [&](const WinogradUnit& unit, const float* tiles, float* scratch) {
    write_unit(g, unit, tiles, out, result, scratch, epilogue);
  };
  if (!plan.shared) {
    auto task = [&](int block, int worker) {
      float* const scratch = workers.scratch(worker);
      float* const from = scratch + staging;
      float* const to = from + in.floats(cut.most_tiles());
      const long samples = samples_of(cut, block, batch), tiles = tiles_of(cut, block, batch);
      for (long n = 0; n < samples; ++n) read(unit_of(cut, block, 1, n), from, scratch);
      for (long point = 0; point < winograd_products; ++point) {
        multiply_point(g, point, tiles, from, in, transformed, to, out);
      }
      for (long n = 0; n < samples; ++n) write(unit_of(cut, block, 1, n), to, scratch);
    };
    run_tasks(workers, cut.blocks, batch * g.flops() < inline_flops, task);
    return;
  }
  float* const from = workers.scratch(0) + staging;
  float* const to = from + in.floats(cut.most_tiles());
  for (long block = 0; block < cut.blocks; ++block) {
    const long samples = samples_of(cut, block, batch), tiles = tiles_of(cut, block, batch);
    const long parts = samples >= 8 ? 1 : smaller(blocks_of(8, samples), cut.rows);
    const bool small = batch * g.flops() < inline_flops;
    auto read_task = [&](int index, int worker) {
      read(unit_of(cut, block, parts, index), from, workers.scratch(worker));
    };
    auto multiply_task = [&](int point, int) { multiply_point(g, point, tiles, from, in, transformed, to, out); };
    auto panel_task = [&](int panel, int worker) {
      multiply_weights(g, panels.first(panel), panels.width(panel), tiles, from, in, weight, exchange, to, out,
                       workers.scratch(worker));
    };
    auto write_task = [&](int index, int worker) {
      write(unit_of(cut, block, parts, index), to, workers.scratch(worker));
    };
    run_tasks(workers, samples * parts, small, read_task);
    if (transformed != nullptr) {
      run_tasks(workers, winograd_products, small, multiply_task);
    } else {
      run_tasks(workers, panels.count, small, panel_task);
    }
    run_tasks(workers, samples * parts, small, write_task);
  }
}

}  // namespace detail

/// `run_conv2d` with weights from `run_winograd_weights`. The gradient by the input is the same function with
/// `exchanged` geometry, of the gradient of the result and exchanged weights.
inline void run_winograd_conv2d(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                                const float* transformed, float* result, Epilogue epilogue = {}) {
  detail::run_winograd(workers, g, batch, input, transformed, nullptr, false, result, epilogue);
}

/// The same without transformed weights in memory: they are transformed where they are used, once for every block of
/// tiles. With few tiles and many channels that is faster than reading them. `weight`, `exchange`: as for
/// `run_winograd_weights`.
inline void run_winograd_conv2d_at_once(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                                        const float* weight, float* result, bool exchange = false,
                                        Epilogue epilogue = {}) {
  detail::run_winograd(workers, g, batch, input, nullptr, weight, exchange, result, epilogue);
}

namespace detail {

/// How the gradient by the weight is cut: blocks of tiles, which are transformed as a whole, large enough that adding
/// to the sums costs little beside them; then the products. Where the sums are small, a task is a part of the blocks,
/// with sums of its own, so that tiles stay in the cache of one core; else one of the 36 points, so that transformed
/// tiles are read once a block; or, where the sums are large, one panel of channels by one of result channels, whose 36
/// sums stay in the second-level cache for their transform.
struct WinogradWeightCut {
  WinogradPanels rows, columns;
  long most_tiles, most_parts;
  bool by_points;
  static constexpr long step = wide_columns * wide_columns + 16,
                        sums = winograd_products * step;  // floats of a task

  constexpr explicit WinogradWeightCut(const Conv2dGeometry& g)
      : rows(g.channels),
        columns(g.out_channels),
        most_tiles(larger(larger((1 << 18) / winograd_products, long{1} * g.channels * g.out_channels / 2) /
                              (g.channels + g.out_channels),
                          32)),
        most_parts(tasks() * sums <= 1 << 20 ? 4 : 1),
        by_points(tasks() <= 36) {}
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
        transform_tile<WeightGradientTransform>(
            [&](int i, int j) { return load(from + (i * winograd_in + j) * WinogradWeightCut::step); },
            [&](int i, int j, Vector value) { store(target + (i * 3 + j) * columns, value); });
      }
    }
    transpose(taps, columns, 9 * count, out_channels, to + c0 * 9, g.taps());
  }
}

}  // namespace detail

/// Floats of scratch a worker for `run_winograd_weight_gradient`.
constexpr long scratch_winograd_weight_gradient(const Workers*, const Conv2dGeometry& g) {
  const detail::WinogradWeightCut cut(g);
  const long staging = detail::staging_winograd(g, detail::WinogradCut(g, 1, cut.most_tiles).rows);
  return cut.most_parts > 1 ? staging + cut.tiles_floats(g) : detail::larger(staging, cut.sums);
}

/// Floats of `workspace` for `run_winograd_weight_gradient`: transformed tiles and the sums of their products.
constexpr long workspace_winograd_weight_gradient(const Conv2dGeometry& g) {
  using namespace detail;
  const WinogradWeightCut cut(g);
  return (cut.most_parts > 1 ? 0 : cut.tiles_floats(g)) + cut.most_parts * cut.tasks() * cut.sums;
}

/// The gradient of `run_conv2d` by its weight, summed over the batch.
inline void run_winograd_weight_gradient(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                                         const float* gradient_of_result, float* weight_gradient, float* workspace) {
  using namespace detail;
  if (batch == 0) return fill_floats(weight_gradient, 0, g.weight_size());
  workers.reserve_scratch(scratch_winograd_weight_gradient(&workers, g));
  const WinogradWeightCut weights(g);
  const WinogradCut cut(g, batch, weights.most_tiles);
  const WinogradTiles in = WinogradTiles::by_panels(g.channels, cut.most_tiles());
  const WinogradTiles out = WinogradTiles::by_panels(g.out_channels, cut.most_tiles());
  const long parts_of_blocks = smaller(weights.most_parts, cut.blocks), all_sums = weights.tasks() * weights.sums;
  float* const sums = workspace + (weights.most_parts > 1 ? 0 : weights.tiles_floats(g));
  const bool small = batch * g.flops() < inline_flops, at_once = cut.blocks == 1 && !weights.by_points;
  /// Writes channels [c0, c0 + channels) of a task's sums.
  auto write = [&](long task, const float* own, long c0, long channels) {
    const long row = task % weights.rows.count, column = task / weights.rows.count;
    const long c = weights.rows.first(row) + c0, o = weights.columns.first(column);
    const long columns = weights.columns.width(column);
    write_weight_gradient(g, smaller(channels, g.channels - c), columns, smaller(columns, g.out_channels - o),
                          own + c0 * columns, weight_gradient + (o * g.channels + c) * 9);
  };
  /// Transforms unit `index` of a block: first those of the input, then those of the gradient.
  auto read = [&](long block, long parts, long index, float* inputs, float* scratch) {
    const long units = samples_of(cut, block, batch) * parts;
    const WinogradUnit unit = unit_of(cut, block, parts, index % units);
    if (index < units) {
      transform_unit<InputTransform>(g.channels, g.height, g.width, g.padding, unit, cut.tiles_x, input, inputs, in,
                                     scratch);
    } else {
      transform_unit<ResultGradientTransform>(g.out_channels, g.out_height(), g.out_width(), 0, unit, cut.tiles_x,
                                              gradient_of_result, inputs + in.floats(cut.most_tiles()), out, scratch);
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
        for (long point = 0; point < winograd_products; ++point) {
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
      auto point_task = [&](int point, int) {
        for (long task = 0; task < weights.tasks(); ++task) {
          multiply(task, point, tiles, workspace, sums + task * weights.sums, block > 0);
        }
      };
      auto panel_task = [&](int task, int worker) {
        float* const own = at_once ? workers.scratch(worker) : sums + task * weights.sums;
        for (long point = 0; point < winograd_products; ++point) {
          multiply(task, point, tiles, workspace, own, block > 0);
        }
        if (block + 1 == cut.blocks) write(task, own, 0, weights.rows.width(task % weights.rows.count));
      };
      if (weights.by_points) {
        run_tasks(workers, winograd_products, small, point_task);
      } else {
        run_tasks(workers, weights.tasks(), small, panel_task);
      }
    }
  }
  if (weights.most_parts == 1 && !weights.by_points) return;
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
