#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/transpose.hpp"
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

/// Whether it reads and writes images where they lie with their channels last.
constexpr bool winograd_takes_channels_last(const Conv2dGeometry& g) {
  return winograd_fits(g) && g.channels % vector_width == 0 && g.out_channels % vector_width == 0;
}

/// Whether weights are so large beside the tiles of a batch that `run_winograd_conv2d_at_once` beats transforming them
/// into memory, 4 times their size, for every step.
constexpr bool winograd_weights_at_once(const Conv2dGeometry& g, long batch) {
  const long numbers = long{1} * g.channels * g.out_channels;
  return numbers >= 1 << 17 || (numbers >= 1 << 16 && batch * g.positions() <= 800);
}

/// The convolution that gives the gradient by the input: of the gradient of the result with the kernel rotated by 180
/// degrees and the channels exchanged.
constexpr Conv2dGeometry exchanged(const Conv2dGeometry& g) {
  return {g.out_channels,
          g.out_height(),
          g.out_width(),
          g.channels,
          g.kernel_height,
          g.kernel_width,
          1,
          g.kernel_height - 1 - g.padding};
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
  constexpr long chunk = 8;  // channels
  float taps[chunk * 9 * vector_width];
  weight += first * out_step + k0 * in_step;
  // A vector of result channels after the other: so many streams of memory the processor fetches ahead.
  for (long o = 0; o < width; o += vector_width, weight += vector_width * out_step) {
    const long valid = smaller(vector_width, g.out_channels - first - o);
    if (valid < vector_width) fill_floats(taps, 0, chunk * 9 * vector_width);
    for (long k = 0; k < terms; k += chunk) {
      const long count = smaller(chunk, terms - k);
      const float* const from = weight + k * in_step;
      if (exchange) {
        for (long c = 0; c < count; ++c)
          transpose_vectors(from + c * in_step, 9, valid, 9, taps + c * 9 * vector_width, vector_width);
      } else {
        transpose_vectors(from, out_step, valid, 9 * count, taps, vector_width);
      }
      for (long c = 0; c < count; ++c) {
        const float* const own = taps + c * 9 * vector_width;
        float* const target = to + (k + c) * width + o;
        transform_tile<WeightTransform<3>>(
            [&](int i, int j) { return load(own + (exchange ? 8 - i * 3 - j : i * 3 + j) * vector_width); },
            [&](int i, int j, Vector value) { store(target + (i * winograd_in + j) * step, value); });
      }
    }
  }
}

/// The products of one point with one panel of weights: to [tiles, width] = (or +=) from [tiles, terms] * weights
/// [terms, width], where `from` and `to` are those of the first tile.
inline void multiply_tiles(long terms, long width, long count, const float* from, const WinogradTiles& from_tiles,
                           const float* weights, float* to, const WinogradTiles& to_tiles, bool accumulate,
                           Ahead ahead) {
  const long from_step = from_tiles.group_step(0), from_row = from_tiles.row_step(0);
  const long to_step = to_tiles.group_step(0), to_row = to_tiles.row_step(0);
  ahead.count = blocks_of(ahead.count, blocks_of(count, from_tiles.group));
  for (; count > 0; count -= from_tiles.group, from += from_step, to += to_step, ahead.from += ahead.count) {
    tiles_fetching(smaller(from_tiles.group, count), static_cast<int>(width / vector_width), terms, from, from_row,
                   weights, width, to, to_row, accumulate, ahead);
  }
}

/// The same of weights that are packed as `run_pack_weights` does: `panel` are those to result channels
/// [first, first + width), [9, channels, width].
inline void transform_packed_weights(const Conv2dGeometry& g, const float* panel, long width, long k0, long terms,
                                     float* to, long step) {
  const long tap = g.channels * width;
  const float* from = panel + k0 * width;
  for (long i = 0; i < terms * width; i += vector_width, from += vector_width, to += vector_width) {
    transform_tile<WeightTransform<3>>(
        [&](int u, int v) { return load(from + (u * 3 + v) * tap); },
        [&](int u, int v, Vector value) { store(to + (u * winograd_in + v) * step, value); });
  }
}

/// The same of pairs of neighbouring channels in bfloat16: `panel` [9, channels / 2, width].
inline void transform_paired_weights(const Conv2dGeometry& g, const float* panel, long width, long k0, long terms,
                                     float* to, long step) {
  const long tap = g.channels / 2 * width;
  const float* from = panel + k0 / 2 * width;
  const auto transform = [&](auto half, float* target) {
    transform_tile<WeightTransform<3>>(
        [&](int u, int v) { return half(load(from + (u * 3 + v) * tap)); },
        [&](int u, int v, Vector value) { store(target + (u * winograd_in + v) * step, value); });
  };
  for (long k = 0; k < terms; k += 2, to += width) {  // and the upper halves' row
    for (long j = 0; j < width; j += vector_width, from += vector_width, to += vector_width) {
      transform([](Vector pairs) { return lower_of_pairs(pairs); }, to);
      transform([](Vector pairs) { return upper_of_pairs(pairs); }, to + width);
    }
  }
}

/// Channels whose weights to one panel are transformed at once: they stay in the second-level cache.
inline constexpr long winograd_weight_channels = 32,
                      winograd_weight_block = winograd_weight_channels * wide_columns + 16;

/// Weights that are transformed where they are used: as they are, or `packed`, perhaps as `pairs` of channels.
struct WinogradSource {
  const float* weight;
  bool exchange, packed, pairs = false;

  void transform(const Conv2dGeometry& g, long first, long width, long k0, long terms, float* to, long step) const {
    if (pairs)
      transform_paired_weights(g, weight + first * g.taps() / 2, width, k0, terms, to, step);
    else if (packed)
      transform_packed_weights(g, weight + first * g.taps(), width, k0, terms, to, step);
    else
      transform_weights(g, weight, exchange, first, width, k0, terms, to, step);
  }
  /// Fetches a part of what is transformed next, before the products of one point with channels from `k0` on: weights
  /// that are not packed lie in runs too short for the processor to do so by itself.
  [[gnu::always_inline]] void fetch(const Conv2dGeometry& g, long first, long width, long k0, long point) const {
    if (packed) return;
    k0 += winograd_weight_channels;
    if (k0 >= g.channels) {
      k0 = 0;
      first += width;
      if (first >= g.out_channels) return;
    }
    const long out_row = 9L * g.channels, in_row = 9L * g.out_channels;
    if (exchange)
      fetch_part(point, weight + k0 * in_row + 9 * first, in_row, winograd_weight_channels, 9 * width);
    else
      fetch_part(point, weight + first * out_row + 9 * k0, out_row, width, 9 * winograd_weight_channels);
  }
  /// What is read next while the products of one point with channels from `k0` on run: a quarter of the next ones' tap.
  Ahead ahead(const Conv2dGeometry& g, long first, long width, long k0, long point) const {
    if (!packed) return {};
    const long in_row = pairs ? 2 : 1, rows = g.channels / in_row, block = winograd_weight_channels / in_row;
    const long next = k0 / in_row + block, part = block * width / 4;
    const long row = next < rows ? next : 9 * rows;  // of this panel, or the next one
    return {weight + first * 9 * rows + (point / 4 * rows + row) * width + point % 4 * part, part};
  }
};

/// The products of one panel at all points, with weights transformed on the way into `scratch`.
inline void multiply_weights(const Conv2dGeometry& g, long first, long width, long count, const float* from,
                             const WinogradTiles& from_tiles, const WinogradSource& source, float* to,
                             const WinogradTiles& to_tiles, float* scratch) {
  for (long k0 = 0; k0 < g.channels; k0 += winograd_weight_channels) {
    const long terms = smaller(winograd_weight_channels, g.channels - k0);
    source.transform(g, first, width, k0, terms, scratch, winograd_weight_block);
    for (long point = 0; point < winograd_products; ++point) {
      source.fetch(g, first, width, k0, point);
      multiply_tiles(terms, width, count, from + point * from_tiles.point_step(0) + k0, from_tiles,
                     scratch + point * winograd_weight_block, to + point * to_tiles.point_step(0) + first, to_tiles,
                     k0 > 0, source.ahead(g, first, width, k0, point));
    }
  }
}

/// The products of one point with transformed weights.
inline void multiply_point(const Conv2dGeometry& g, long point, long count, const float* from,
                           const WinogradTiles& from_tiles, const float* transformed, float* to,
                           const WinogradTiles& to_tiles) {
  const PanelCut panels(g.out_channels);
  const float* const weights = transformed + point * winograd_weight_step(g);
  for (long panel = 0; panel < panels.count; ++panel) {
    const long first = panels.first(panel), width = panels.width(panel);
    for (long k0 = 0; k0 < g.channels; k0 += block_inner) {
      const long terms = smaller(block_inner, g.channels - k0);
      const float* const right = weights + first * g.channels + k0 * width;
      multiply_tiles(terms, width, count, from + point * from_tiles.point_step(0) + k0, from_tiles, right,
                     to + point * to_tiles.point_step(0) + first, to_tiles, k0 > 0,
                     {right + terms * width, terms * width});
    }
  }
}

/// How a convolution is run: blocks of tiles that fit the second-level cache, beside the weights where these do, one a
/// task; or, where weights are large or blocks few, larger ones that all workers share step by step, so that weights
/// are read once a block.
struct WinogradPlan {
  bool shared;
  WinogradCut cut;

  static constexpr long shared_floats = 1 << 21;  // of transformed tiles and results
  static constexpr long local_floats(const Conv2dGeometry& g) {
    return winograd_products * g.channels * g.out_channels <= 1 << 18 ? 1 << 16 : 1 << 18;
  }
  static constexpr long tiles_within(const Conv2dGeometry& g, long floats) {
    const long tile = winograd_products * (g.channels + g.out_channels);
    return larger(floats / tile, 12);
  }
  constexpr WinogradPlan(const Conv2dGeometry& g, long batch, bool at_once)
      : shared(at_once || long{1} * g.channels * g.out_channels >= 1 << 16),
        cut(g, batch, tiles_within(g, local_floats(g))) {
    if (cut.blocks < 4) shared = true;
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

namespace detail {

/// Transforms all weights of a source for `run_winograd_conv2d`, 36 matrices in panels as `multiply_point` reads them.
inline void run_transform_weights(Workers& workers, const Conv2dGeometry& g, const WinogradSource& source,
                                  float* transformed) {
  const PanelCut panels(g.out_channels);
  constexpr long part = 64;
  const long parts = blocks_of(g.channels, part);
  auto task = [&](int index, int) {
    const long first = panels.first(index / parts), width = panels.width(index / parts), k0 = index % parts * part;
    source.transform(g, first, width, k0, smaller(part, g.channels - k0), transformed + first * g.channels + k0 * width,
                     winograd_weight_step(g));
  };
  run_tasks(workers, panels.count * parts, static_cast<double>(g.weight_size()) * 4 < inline_elements, task);
}

}  // namespace detail

/// Transforms weights [out_channels, channels, 3, 3] for `run_winograd_conv2d` with the same `g`. `weight` belongs to
/// the convolution `g`, or, with `exchange`, to that whose `exchanged` geometry is `g`.
inline void run_winograd_weights(Workers& workers, const Conv2dGeometry& g, const float* weight, float* transformed,
                                 bool exchange = false) {
  detail::run_transform_weights(workers, g, {weight, exchange, false}, transformed);
}

namespace detail {

/// The convolution with `transformed` weights, or, where that is null, with those of `source`, transformed on the way.
inline void run_winograd(Workers& workers, const Conv2dGeometry& g, bool channels_last, int batch, const float* input,
                         const float* transformed, const WinogradSource& source, float* result, Epilogue epilogue) {
  workers.reserve_scratch(scratch_winograd(&workers, g));
  const WinogradPlan plan(g, batch, transformed == nullptr);
  const WinogradCut& cut = plan.cut;
  const PanelCut panels(g.out_channels);
  const long together = cut.most_tiles() <= 16 ? cut.most_tiles() : winograd_rows(g.out_channels);
  const WinogradTiles in = WinogradTiles::groups(g.channels, together);
  const WinogradTiles out = WinogradTiles::groups(g.out_channels, together);
  const long staging = larger(staging_winograd(g, cut.rows), winograd_products * winograd_weight_block);
  const WinogradImages<const float> images{input, g.channels, g.height, g.width, channels_last};
  const WinogradImages<float> results{result, g.out_channels, g.out_height(), g.out_width(), channels_last};
  auto read = [&](const WinogradUnit& unit, float* tiles, float* scratch) {
    transform_unit<InputTransform<3>>(images, g.padding, unit, cut.tiles_x, tiles, in, scratch);
  };
  auto write = [&](const WinogradUnit& unit, const float* tiles, float* scratch) {
    write_unit(results, unit, tiles, out, scratch, epilogue);
  };
  if (!plan.shared) {
    auto task = [&](int block, int worker) {
      float* const scratch = workers.scratch(worker);
      float* const from = scratch + staging;
      float* const to = from + in.floats(cut.most_tiles());
      const long samples = samples_of(cut, block, batch), tiles = tiles_of(cut, block, batch);
      for (long n = 0; n < samples; ++n) read(unit_of(cut, block, 1, n), from, scratch);
      const WinogradUnit own = unit_of(cut, block, 1, 0), next = unit_of(cut, block + workers.size(), 1, 0);
      const long next_samples = samples_of(cut, block + workers.size(), batch);
      for (long point = 0; point < winograd_products; ++point) {
        results.template fetch<winograd_out>(point, own, samples);
        images.template fetch<winograd_in>(point, next, next_samples, g.padding);
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
      multiply_weights(g, panels.first(panel), panels.width(panel), tiles, from, in, source, to, out,
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

/// `run_conv2d` with weights from `run_winograd_weights`, of images in either order. The gradient by the input is the
/// same function with `exchanged` geometry, of the gradient of the result and exchanged weights.
inline void run_winograd_conv2d(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                                const float* transformed, float* result, Epilogue epilogue = {},
                                bool channels_last = false) {
  detail::run_winograd(workers, g, channels_last, batch, input, transformed, {}, result, epilogue);
}

/// The same without transformed weights in memory: they are transformed where they are used, once for every block of
/// tiles. With few tiles and many channels that is faster than reading them. `weight`, `exchange`: as for
/// `run_winograd_weights`.
inline void run_winograd_conv2d_at_once(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                                        const float* weight, float* result, bool exchange = false,
                                        Epilogue epilogue = {}, bool channels_last = false) {
  detail::run_winograd(workers, g, channels_last, batch, input, nullptr, {weight, exchange, false}, result, epilogue);
}

/// Whether packed weights are transformed where they are used: there are few of them, or many tiles share them.
constexpr bool winograd_packed_at_once(const Conv2dGeometry& g, long batch) {
  const long numbers = long{1} * g.channels * g.out_channels;
  return numbers >= 1 << 17 || (numbers >= 1 << 14 && batch * g.positions() <= 1024);
}

/// The same with weights packed by `run_pack_weights`: transformed where they are used, or, where there are
/// few or many tiles share them, into the workers' workspace before. `pairs`: of channels, as bfloat16.
inline void run_winograd_conv2d_packed(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                                       const float* packed, float* result, Epilogue epilogue = {},
                                       bool channels_last = false, bool pairs = false) {
  using namespace detail;
  const WinogradSource source{packed, false, true, pairs};
  if (winograd_packed_at_once(g, batch))
    return run_winograd(workers, g, channels_last, batch, input, nullptr, source, result, epilogue);
  float* const transformed = workers.workspace(workspace_winograd_weights(g));
  run_transform_weights(workers, g, source, transformed);
  run_winograd(workers, g, channels_last, batch, input, transformed, {}, result, epilogue);
}

}  // namespace tenet::cpu
