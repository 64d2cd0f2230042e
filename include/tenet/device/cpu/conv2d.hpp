#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/patches.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

/// The convolution as a product of its weights with patches (patches.hpp), and what its gradients, which are such
/// products too (conv2d_input_gradient.hpp, conv2d_weight_gradient.hpp), share with it: the cut into tasks, the product
/// of a packed block, the patches of an input.
namespace tenet::cpu {

namespace detail {

/// How a convolution of `batch` samples with `rows` channels and `positions` columns each, for each of `remainders`, is
/// cut into tasks: some samples, whose columns waste few lanes of the last vector, by some channels. More tasks pack
/// the same patches, or read the same weights, more often: 4 are enough.
struct ConvolutionCut {
  long samples, groups, row_block, row_blocks;
  static constexpr long most_sums = 1 << 17;  // floats, in cache

  constexpr ConvolutionCut(long rows, long positions, long batch, long remainders = 1) {
    row_block = round_up(rows, tile_rows);
    const long most = smaller(batch, most_samples(positions, remainders));
    samples = most > 0 ? blocks_of(batch, blocks_of(batch, most)) : 1;
    while (samples > 1 && samples * positions >= 256 &&
           (blocks_of(batch, samples) < 4 || row_block * sums_row(positions, remainders) > most_sums)) {
      samples = (samples + 1) / 2;
    }
    groups = blocks_of(batch, samples);
    while (row_block >= 64 &&
           (groups * blocks_of(rows, row_block) < 4 || row_block * sums_row(positions, remainders) > most_sums)) {
      row_block = round_up(row_block / 2, tile_rows);
    }
    row_blocks = blocks_of(rows, row_block);
  }
  /// So many that few lanes are wasted; of several remainders, as many as the cache holds sums and padded planes of.
  static constexpr long most_samples(long positions, long remainders) {
    return larger_of((remainders > 1 ? 2048 / remainders : 2 * patch_columns) / positions, 1);
  }
  /// Columns of the sums of a task: a block at a time, or, for several remainders, all of them.
  constexpr long sums_row(long positions, long remainders) const {
    const long columns = round_up(samples * positions, vector_width);
    return remainders > 1 ? columns * remainders : smaller(columns, patch_columns);
  }
  /// Floats of the sums of any task.
  static constexpr long sums_floats(long positions, long remainders) {
    const long least = remainders > 1 ? remainders * round_up(positions, vector_width) : patch_columns;
    return larger_of(most_sums, 64 * larger_of(least, remainders * (256 + vector_width)));
  }
  constexpr long tasks() const { return groups * row_blocks; }
};

/// Columns of a block: `columns` in as many as needed.
constexpr long block_of_columns(long columns) {
  return smaller(columns, round_up(blocks_of(columns, blocks_of(columns, patch_columns)), vector_width));
}

/// sums [rows, columns] = (or +=) left [rows, terms] * right, [terms, columns] packed in panels; `columns` is rounded
/// up to whole vectors. The left rows are read where they lie, `left_row` apart.
[[gnu::noinline]] inline void multiply_block(long rows, long columns, long terms, const float* left, long left_row,
                                             const float* right, float* sums, long sums_row, bool accumulate) {
  const PanelCut cut(columns);
  for (long panel = 0; panel < cut.count; ++panel) {
    const long first = cut.first(panel), width = cut.width(panel);
    tiles(rows, static_cast<int>(width / vector_width), terms, left, left_row, 1, right + first * terms, width,
          sums + first, sums_row, accumulate);
  }
}

/// Floats of a packed block of patches, and of their padded channels.
inline constexpr long packed_patches = patch_terms * patch_columns;
/// Floats of the patches of a batch that stay in cache between tasks.
inline constexpr long most_shared_patches = 1 << 21;
constexpr long padded_floats(const Conv2dGeometry& g) {
  return round_up(
      larger_of(padded_floats(g.out_height(), g.out_width(), g.stride, g.kernel_height, g.kernel_width, patch_columns),
                padded_floats(1, static_cast<int>(g.positions()), 1, 1, 1, patch_columns)),
      vector_width);
}

/// The patches of a convolution's input.
inline Patches patches_of(const Conv2dGeometry& g, const float* input) {
  Patches patches{input,      g.input_size(), g.height, g.width,  g.kernel_height, g.kernel_width,
                  -g.padding, -g.padding,     1,        g.stride, g.out_height(),  g.out_width()};
  if (g.taps() == g.channels && g.stride == 1 && g.padding == 0) {  // 1x1: a plane is one row
    patches.height = patches.grid_height = 1;
    patches.width = patches.grid_width = static_cast<int>(g.positions());
  }
  return patches;
}

}  // namespace detail

constexpr long scratch_conv2d(const Workers*, const Conv2dGeometry& g) {
  using namespace detail;
  return packed_patches + padded_floats(g) + ConvolutionCut::sums_floats(g.positions(), 1);
}

/// Floats of workspace for `run_conv2d`: the patches that tasks of the same samples share, where these stay in cache.
[[gnu::noinline]] inline long workspace_conv2d(const Workers*, const Conv2dGeometry& g, long batch) {
  const detail::ConvolutionCut cut(g.out_channels, g.positions(), batch);
  const long all = cut.groups * g.taps() * detail::round_up(cut.samples * g.positions(), vector_width);
  return cut.row_blocks > 1 && all <= detail::most_shared_patches ? all : 0;
}

/// result[n, o, i, j] = the sum over c, u, v of weight[o, c, u, v] * input[n, c, i * stride + u - padding,
/// j * stride + v - padding].
inline void run_conv2d(Workers& workers, const Conv2dGeometry& g, int batch, const float* input, const float* weight,
                       float* result, Epilogue epilogue = {}) {
  using namespace detail;
  workers.reserve_scratch(scratch_conv2d(&workers, g));
  const long positions = g.positions(), taps = g.taps();
  const ConvolutionCut cut(g.out_channels, positions, batch);
  const long terms = blocks_of(taps, blocks_of(taps, patch_terms));
  const bool direct = cut.samples == 1 && positions % vector_width == 0;
  const long shared_floats = workspace_conv2d(&workers, g, batch);
  const bool share = shared_floats > 0;  // patches are packed before
  float* const shared = share ? workers.workspace(shared_floats) : nullptr;
  const auto samples_of_group = [&](long group) { return smaller(cut.samples, batch - group * cut.samples); };
  const auto patches_of_group = [&](long group, int worker) {
    return RightPatches{patches_of(g, input + group * cut.samples * g.input_size()),
                        workers.scratch(worker) + packed_patches};
  };
  const auto shared_at = [&](long group, long j0, long columns, long k0) {
    return shared + (group * round_up(cut.samples * positions, vector_width) + j0) * taps +
           k0 * round_up(columns, vector_width);
  };
  const long parts = blocks_of(taps, terms);
  auto pack_task = [&](int index, int worker) {
    const long group = index / parts, k0 = index % parts * terms, all = samples_of_group(group) * positions;
    const long block = block_of_columns(all);
    for (long j0 = 0; j0 < all; j0 += block) {
      const long columns = smaller(block, all - j0);
      patches_of_group(group, worker)
          .pack(k0, smaller(terms, taps - k0), j0, columns, shared_at(group, j0, columns, k0));
    }
  };
  auto task = [&](int index, int worker) {
    const long row0 = index % cut.row_blocks * cut.row_block, rows = smaller(cut.row_block, g.out_channels - row0);
    const long group = index / cut.row_blocks, sample0 = group * cut.samples, samples = samples_of_group(group);
    float* const dense = workers.scratch(worker) + packed_patches + padded_floats(g);
    const long first = sample0 * g.result_size() + row0 * positions, all = samples * positions;
    const long block = block_of_columns(all);
    for (long j0 = 0; j0 < all; j0 += block) {
      const long columns = smaller(block, all - j0);
      float* const sums = direct ? result + first + j0 : dense;
      const long sums_row = direct ? positions : round_up(columns, vector_width);
      for (long k0 = 0; k0 < taps; k0 += terms) {
        const long count = smaller(terms, taps - k0);
        float* const right = share ? shared_at(group, j0, columns, k0) : workers.scratch(worker);
        if (!share) patches_of_group(group, worker).pack(k0, count, j0, columns, right);
        multiply_block(rows, columns, count, weight + row0 * taps + k0, taps, right, sums, sums_row, k0 > 0);
      }
      if (direct) continue;
      for (long done = 0; done < columns;) {
        const long sample = (j0 + done) / positions, position = (j0 + done) % positions;
        const long count = smaller(columns - done, positions - position);
        float* const to = result + first + sample * g.result_size() + position;
        for (long row = 0; row < rows; ++row) copy_floats(to + row * positions, sums + row * sums_row + done, count);
        done += count;
      }
    }
    for (long n = 0; n < samples; ++n) {
      epilogue(first + n * g.result_size(), first + n * g.result_size() + rows * positions);
    }
  };
  const bool small = batch * g.flops() < inline_flops;
  if (share) run_tasks(workers, cut.groups * parts, small, pack_task);
  run_tasks(workers, cut.tasks(), small, task);
}

}  // namespace tenet::cpu
