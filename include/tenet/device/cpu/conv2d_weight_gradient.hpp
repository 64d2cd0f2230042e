#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/conv2d.hpp"
#include "tenet/device/cpu/patches.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/transpose.hpp"
#include "tenet/device/cpu/workers.hpp"

/// The gradient of a convolution by its weight: patches times the transposed gradient of the result, a sum over all
/// positions of the batch. It is cut by taps and by parts of the batch, as its result is small and its sum long.
namespace tenet::cpu {

namespace detail {

/// How the gradient by the weight is cut: blocks of taps, parts of the batch whose sums are added in order, and chunks
/// of the batch whose transposed gradients are in memory together: of all blocks of taps, or, where there is one, of
/// some samples in a task's cache.
struct WeightGradientCut {
  long tap_blocks, tap_block, parts, chunk, part_samples, sums_row, local_samples;

  constexpr WeightGradientCut(const Conv2dGeometry& g, long batch) {
    sums_row = round_up(g.out_channels, vector_width);
    local_samples = larger_of(1, patch_columns / g.positions());
    const bool local = g.taps() <= block_rows && g.positions() * sums_row <= 1 << 18;
    chunk = local ? batch : larger_of(1, smaller(batch, (1 << 20) / (g.positions() * sums_row)));
    tap_block = smaller(block_rows, round_up(g.taps(), tile_rows));
    const long most = larger_of(
        1, smaller(smaller(chunk, chunk * g.positions() / 256), (1 << 20) / larger_of(g.taps() * sums_row, 1)));
    while (!local && tap_block > 32 && blocks_of(g.taps(), tap_block) * most < 4) {
      tap_block = round_up(tap_block / 2, tile_rows);
    }
    tap_blocks = blocks_of(g.taps(), tap_block);
    tap_block = round_up(blocks_of(g.taps(), tap_blocks), tile_rows);
    tap_blocks = blocks_of(g.taps(), tap_block);
    parts = smaller(blocks_of(16, tap_blocks), most);
    part_samples = blocks_of(chunk, parts);
    if (!local) local_samples = 0;
  }
  /// Floats of the transposed gradients that all tasks share, or that one task has.
  constexpr long shared_floats(const Conv2dGeometry& g) const {
    return local_samples > 0 ? 0 : chunk * g.positions() * sums_row;
  }
  /// Whether a task has the whole sum of its taps.
  constexpr bool finishes(long batch) const { return parts == 1 && chunk >= batch; }
  constexpr long local_floats(const Conv2dGeometry& g) const { return local_samples * g.positions() * sums_row; }
};
inline constexpr long packed_tap_row = patch_columns + 16;

/// Transposes sums [rows, channels], a few result rows at a time, which share pages; the lines of the next ones are
/// fetched ahead, as no stream of writes leads to them.
inline void write_weight_rows(const float* sums, long sums_row, long rows, long channels, float* to, long taps) {
  for (long o = 0; o < channels; o += 16) {
    for (long next = o + 16; next < smaller(o + 32, channels); ++next) {
      for (long i = 0; i < rows; i += 16) __builtin_prefetch(to + next * taps + i, 1);
    }
    transpose_vectors(sums + o, sums_row, rows, smaller(16, channels - o), to + o * taps, taps);
  }
}

}  // namespace detail

constexpr long scratch_conv2d_weight_gradient(const Workers*, const Conv2dGeometry& g) {
  using namespace detail;
  const WeightGradientCut cut(g, 1);
  return block_rows * packed_tap_row + padded_floats(g) + cut.local_floats(g) + block_rows * cut.sums_row;
}

/// Floats of workspace for `run_conv2d_weight_gradient`: the transposed gradients and the sums of parts.
[[gnu::noinline]] inline long workspace_conv2d_weight_gradient(const Workers*, const Conv2dGeometry& g, long batch) {
  const detail::WeightGradientCut cut(g, batch);
  return cut.shared_floats(g) + (cut.finishes(batch) ? 0 : cut.parts * g.taps() * cut.sums_row);
}

/// The gradient of `run_conv2d` by its weight, summed over the batch.
inline void run_conv2d_weight_gradient(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                                       const float* gradient_of_result, float* weight_gradient) {
  using namespace detail;
  if (batch == 0) return fill_floats(weight_gradient, 0, g.weight_size());
  workers.reserve_scratch(scratch_conv2d_weight_gradient(&workers, g));
  const long positions = g.positions(), taps = g.taps();
  const WeightGradientCut cut(g, batch);
  const bool small = batch * g.flops() < inline_flops;
  // The transposed gradient by the weight, [taps, out_channels], of each part of the batch: its rows are patches, which
  // need no rearrangement along the sum.
  float* const transposed = workers.workspace(workspace_conv2d_weight_gradient(&workers, g, batch));
  float* const partial = transposed + cut.shared_floats(g);
  for (long chunk0 = 0; chunk0 < batch; chunk0 += cut.chunk) {
    const long samples = smaller(cut.chunk, batch - chunk0);
    const TransposedChannels shared{transposed, g.out_channels, positions, samples};
    auto transpose_task = [&](int sample, int) {
      shared.fill(gradient_of_result + (chunk0 + sample) * g.result_size(), sample);
    };
    if (cut.local_samples == 0) run_tasks(workers, samples, small, transpose_task);
    auto product_task = [&](int index, int worker) {
      const long tap0 = index % cut.tap_blocks * cut.tap_block, rows = smaller(cut.tap_block, taps - tap0);
      const long part = index / cut.tap_blocks, sample0 = smaller(samples, part * cut.part_samples);
      const long last = smaller(samples, sample0 + cut.part_samples);
      float* const left = workers.scratch(worker);
      float* const padded = left + block_rows * packed_tap_row;
      float* const own = padded + padded_floats(g);
      float* const sums =
          cut.finishes(batch) ? own + cut.local_floats(g) : partial + (part * taps + tap0) * cut.sums_row;
      bool add = chunk0 > 0;
      if (sample0 == last && !add) fill_floats(sums, 0, rows * cut.sums_row);
      const long step = cut.local_samples > 0 ? cut.local_samples : larger_of(last - sample0, 1);
      for (long sample = sample0; sample < last; sample += step) {
        const long count = smaller(step, last - sample), all = count * positions;
        const TransposedChannels local{own, g.out_channels, positions, count};
        const TransposedChannels& right = cut.local_samples > 0 ? local : shared;
        for (long n = 0; n < count && cut.local_samples > 0; ++n) {
          local.fill(gradient_of_result + (chunk0 + sample + n) * g.result_size(), n);
        }
        const long first = cut.local_samples > 0 ? 0 : sample * positions;
        const Patches patches = patches_of(g, input + (chunk0 + sample) * g.input_size());
        const long block = blocks_of(all, blocks_of(all, patch_columns));
        for (long k0 = 0; k0 < all; k0 += block) {
          const long columns = smaller(block, all - k0);
          patches.pack(tap0, rows, k0, columns, PatchPanels::left(packed_tap_row), padded, left);
          const long terms = blocks_of(columns, blocks_of(columns, patch_terms));
          for (long k = 0; k < columns; k += terms, add = true) {
            for (long panel = 0; panel < right.cut.count; ++panel) {
              const long width = right.cut.width(panel);
              tiles(rows, static_cast<int>(width / vector_width), smaller(terms, columns - k), left + k, packed_tap_row,
                    1, right.at(panel, first + k0 + k), width, sums + right.cut.first(panel), cut.sums_row, add);
            }
          }
        }
      }
      if (cut.finishes(batch)) {
        write_weight_rows(sums, cut.sums_row, rows, g.out_channels, weight_gradient + tap0, taps);
      }
    };
    run_tasks(workers, cut.tap_blocks * cut.parts, small, product_task);
  }
  if (cut.finishes(batch)) return;
  auto sum_task = [&](int index, int) {
    const long tap0 = index * block_rows, rows = smaller(block_rows, taps - tap0);
    float* const sum = partial + tap0 * cut.sums_row;
    for (long part = 1; part < cut.parts; ++part) {
      add_floats(sum, sum + part * taps * cut.sums_row, rows * cut.sums_row);
    }
    write_weight_rows(sum, cut.sums_row, rows, g.out_channels, weight_gradient + tap0, taps);
  };
  run_tasks(workers, blocks_of(taps, block_rows), static_cast<double>(cut.parts * g.weight_size()) < inline_elements,
            sum_task);
}

}  // namespace tenet::cpu
