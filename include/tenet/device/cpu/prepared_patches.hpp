#pragma once

#include <cstring>
#include <tenet/core/geometry.hpp>
#include <tenet/device/cpu/channels_last_pairs.hpp>
#include <tenet/device/cpu/weight_panels.hpp>
#include <tenet/device/cpu/workers.hpp>
#include <tenet/device/epilogue.hpp>
#include <type_traits>

/// Convolutions for inference, whose weights are brought into the order of the products once: then small batches are
/// not spent on packing. The product is [positions, taps] · [taps, out channels]: results of few positions, as in the
/// last layers of a network, still fill the vectors.
namespace tenet::cpu {

namespace detail {

/// How a batch is cut: groups of samples, whose patches fit the caches, rows of patches (positions) into blocks of
/// whole tiles, and each sample's rows of results into parts that are laid out by one task. A function of shape and
/// batch.
struct PatchRows {
  long row_floats, group, groups, block, rows_per_part, parts;
  /// Terms that are multiplied at once. With few positions weights are what takes time: they come from memory, so that
  /// a block of them and the next one, which is fetched meanwhile, share the first-level cache.
  long terms;

  constexpr PatchRows(const Conv2dGeometry& g, long batch) {
    row_floats = g.taps() + vector_width;  // not a power of two: rows that are read together fall into different sets
    const long within = (1 << 19) / (g.positions() * row_floats);  // of the second-level cache
    group = within > 1 ? smaller(batch, within) : 1;
    groups = blocks_of(batch, group);
    group = blocks_of(batch, groups);
    const long rows = group * g.positions();
    block = round_up(blocks_of(rows, blocks_of(rows, 64)), tile_rows);
    rows_per_part = group >= 4 ? g.out_height() : blocks_of(g.out_height(), 4);
    parts = blocks_of(g.out_height(), rows_per_part);
    terms = floats(g) <= 1 << 18 ? 64 : 256;
  }
  constexpr long floats(const Conv2dGeometry& g) const { return group * g.positions() * row_floats; }
};

/// Floats of the rows of the padded image that `result_rows` rows of results read, channels last.
constexpr long staged_floats(const Conv2dGeometry& g, long result_rows) {
  return g.lines_met(result_rows) * (g.width + 2 * g.padding) * g.channels;
}

/// Numbers of an image as the factors of products: as they are, or rounded to bfloat16.
template <class Factor, class Number>
void lay_factors(const Number* from, long count, float* to) {
  if constexpr (std::is_same_v<Factor, Number>) {
    std::memcpy(to, from, sizeof(Number) * static_cast<std::size_t>(count));
  } else {
    auto* const rounded = reinterpret_cast<Factor*>(to);
    long i = 0;
    for (; i + vector_width <= count; i += vector_width) store(rounded + i, load(from + i));
    if (i < count) store_partial(rounded + i, load_partial(from + i, static_cast<int>(count - i)), count - i);
  }
}

/// Lays out the patches of the rows of results [y0, y1) of one sample: `image` is that sample, `to` the patch of its
/// first position. `g` is that of the factors, pairs of channels if these are bfloat16: then channels are last.
template <class Factor, class Number>
void lay_patches(const Conv2dGeometry& g, bool channels_last, long y0, long y1, const Number* image, float* staged,
                 float* to, long row_floats) {
  const long staged_width = g.width + 2 * g.padding, line = staged_width * g.channels;
  const long top = y0 * g.stride - g.padding, count = g.lines_met(y1 - y0);
  const long from = top > 0 ? top : 0, until = smaller(top + count, g.height);
  if (g.padding > 0) std::memset(staged, 0, sizeof(float) * static_cast<std::size_t>(count * line));
  for (long y = from; y < until; ++y) {
    float* const staged_line = staged + (y - top) * line + g.padding * g.channels;
    if constexpr (std::is_same_v<Factor, float>)
      if (!channels_last) {
        transpose_vectors(image + y * g.width, long{1} * g.height * g.width, g.channels, g.width, staged_line,
                          g.channels);
        continue;
      }
    const long numbers = long{1} * g.width * g.channels * Term<Factor>::products;
    lay_factors<Factor>(image + y * numbers, numbers, staged_line);
  }
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(g.kernel_width * g.channels);
  for (long y = y0; y < y1; ++y) {
    for (long x = 0; x < g.out_width(); ++x) {
      float* patch = to + (y * g.out_width() + x) * row_floats;
      const float* source = staged + (y - y0) * g.stride * line + x * g.stride * g.channels;
      for (int ky = 0; ky < g.kernel_height; ++ky, source += line, patch += g.kernel_width * g.channels)
        std::memcpy(patch, source, bytes);
    }
  }
}

}  // namespace detail

/// The geometry of a product's factors.
template <class Factor>
constexpr Conv2dGeometry of_factors(const Conv2dGeometry& g) {
  return detail::Term<Factor>::products == 2 ? detail::of_pairs(g) : g;
}

/// Floats of scratch a worker for `run_conv2d_prepared_patches`, by the geometry of its factors.
constexpr long scratch_prepared_patches(const Workers*, const Conv2dGeometry& g) {
  const long staged = detail::staged_floats(g, g.out_height()), sums = 64 * detail::wide_columns;
  return staged > sums ? staged : sums;
}

/// Floats of workspace for `run_conv2d_prepared_patches`: the patches of a group of samples. The geometry of factors.
[[gnu::noinline]] inline long workspace_prepared_patches(const Workers*, const Conv2dGeometry& g, long batch) {
  return detail::PatchRows(g, batch).floats(g);
}

/// `run_conv2d` with weights from `run_pack_weights`, of images in either order. With bfloat16 as the factors the
/// weights are pairs of neighbouring channels; channels are last in images then, of floats, which are rounded, or of
/// bfloat16.
template <class Factor = float, class Number = float>
void run_conv2d_prepared_patches(Workers& workers, const Conv2dGeometry& geometry, int batch, const Number* input,
                                 const float* prepared, float* result, Epilogue epilogue = {},
                                 bool channels_last = false) {
  using namespace detail;
  const Conv2dGeometry g = of_factors<Factor>(geometry);
  if (batch == 0) return;
  workers.reserve_scratch(scratch_prepared_patches(&workers, g));
  const PanelCut panels(g.out_channels);
  const PatchRows cut(g, batch);
  const long positions = g.positions();
  const bool small = batch * g.flops() < inline_flops;
  float* const patches = workers.workspace(cut.floats(g));
  for (long group = 0; group < cut.groups; ++group) {
    const long n0 = group * cut.group, samples = smaller(cut.group, batch - n0), rows = samples * positions;
    if (samples <= 0) break;
    auto lay_task = [&](int index, int worker) {
      const long n = index / cut.parts, y0 = index % cut.parts * cut.rows_per_part;
      lay_patches<Factor>(g, channels_last, y0, smaller(y0 + cut.rows_per_part, g.out_height()),
                          input + (n0 + n) * geometry.input_size(), workers.scratch(worker),
                          patches + n * positions * cut.row_floats, cut.row_floats);
    };
    run_tasks(workers, samples * cut.parts, small, lay_task);

    const long blocks = blocks_of(rows, cut.block);
    auto multiply_task = [&](int index, int worker) {
      const long panel = index / blocks, row0 = index % blocks * cut.block;
      const long count = smaller(cut.block, rows - row0), first = panels.first(panel), width = panels.width(panel);
      const long present = smaller(width, g.out_channels - first);
      const float* const weights = prepared + first * g.taps();
      float* const rows_of_result = result + (n0 * positions + row0) * g.out_channels + first;
      const bool direct = channels_last && present == width;  // tiles write where the results lie
      float* const sums = direct ? rows_of_result : workers.scratch(worker);
      const long sums_row = direct ? g.out_channels : width;
      for (long k0 = 0; k0 < g.taps(); k0 += cut.terms) {
        const long terms = smaller(cut.terms, g.taps() - k0);
        const float* const right = weights + k0 * width;
        tiles_fetching<Factor>(count, static_cast<int>(width / vector_width), terms,
                               patches + row0 * cut.row_floats + k0, cut.row_floats, right, width, sums, sums_row,
                               k0 > 0, {right + terms * width, terms * width});
      }
      if (channels_last) {
        const long at = rows_of_result - result;
        for (long row = 0; row < count && !direct; ++row)
          copy_floats(rows_of_result + row * g.out_channels, sums + row * width, present);
        if (present == g.out_channels) return epilogue(at, at + count * present);
        for (long row = 0; row < count; ++row) epilogue(at + row * g.out_channels, at + row * g.out_channels + present);
        return;
      }
      for (long row = row0; row < row0 + count;) {  // one sample after the other
        const long n = row / positions, position = row % positions;
        const long length = smaller(positions - position, row0 + count - row);
        const long at = ((n0 + n) * g.out_channels + first) * positions + position;
        transpose_vectors(sums + (row - row0) * width, width, length, present, result + at, positions);
        if (length == positions)
          epilogue(at, at + present * positions);
        else
          for (long c = 0; c < present; ++c) epilogue(at + c * positions, at + c * positions + length);
        row += length;
      }
    };
    run_tasks(workers, panels.count * blocks, small, multiply_task);
  }
}

}  // namespace tenet::cpu
