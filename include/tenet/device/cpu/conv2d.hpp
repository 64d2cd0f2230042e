#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/patches.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

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

/// How the gradient by the input is computed for a stride s: as s * s products, one for each remainder of the input's
/// coordinates modulo s, of transposed weights with patches of the gradient, which is padded to planes once.
///
/// Input rows y = a + s * i get from result rows i + (a + padding) / s - t with the tap a' + s * t, where a' is the
/// remainder of a + padding.
struct InputGradientPhase {
  long first_tap, last_shift, grid, taps;  // shifts go down from the last one, tap by tap

  constexpr InputGradientPhase(long remainder, long size, long kernel, long stride, long padding)
      : first_tap((remainder + padding) % stride),
        last_shift((remainder + padding) / stride),
        grid(remainder < size ? (size - remainder + stride - 1) / stride : 0),
        taps(grid > 0 && first_tap < kernel ? (kernel - first_tap + stride - 1) / stride : 0) {}
};

/// The shifts [first, first + count) of one dimension over all remainders.
struct InputGradientShifts {
  long first = 0, count = 0;

  constexpr InputGradientShifts(long size, long kernel, long stride, long padding) {
    bool any = false;
    long last = 0;
    for (long a = 0; a < stride; ++a) {
      const InputGradientPhase phase(a, size, kernel, stride, padding);
      if (phase.taps == 0) continue;
      const long low = phase.last_shift - phase.taps + 1;
      if (!any || low < first) first = low;
      if (!any || phase.last_shift > last) last = phase.last_shift;
      any = true;
    }
    count = any ? last - first + 1 : 0;
  }
};

/// The padded planes of the gradient of the result, in the form of its patches.
constexpr Patches gradient_planes(const Conv2dGeometry& g, const float* gradient_of_result) {
  const InputGradientShifts y(g.height, g.kernel_height, g.stride, g.padding),
      x(g.width, g.kernel_width, g.stride, g.padding);
  return {gradient_of_result,
          g.result_size(),
          g.out_height(),
          g.out_width(),
          static_cast<int>(y.count),
          static_cast<int>(x.count),
          static_cast<int>(y.first),
          static_cast<int>(x.first),
          1,
          1,
          static_cast<int>(blocks_of(g.height, g.stride)),
          static_cast<int>(blocks_of(g.width, g.stride))};
}

/// Sizes of the blocks of the gradient by the input.
struct InputGradientCut {
  long positions, remainders, plane_rows, plane_row, plane;
  ConvolutionCut tasks;
  long phase_columns;

  constexpr InputGradientCut(const Conv2dGeometry& g, long batch)
      : positions(gradient_planes(g, nullptr).positions()),
        remainders(long{1} * g.stride * g.stride),
        plane_rows(gradient_planes(g, nullptr).grid_height + gradient_planes(g, nullptr).taps_y - 1),
        plane_row(gradient_planes(g, nullptr).row_step()),
        plane(plane_rows * plane_row),
        tasks(g.channels, positions, batch, larger_of(remainders, 2)),
        phase_columns(round_up(tasks.samples * positions, vector_width)) {}
  /// Floats of the planes of `samples` samples.
  constexpr long planes_floats(const Conv2dGeometry& g, long samples) const {
    return smaller(patch_terms, g.out_channels) * samples * plane + 2 * vector_width;
  }
};

/// Packs columns [j0, j0 + columns) of `terms` channels of planes, shifted, as a right operand: positions of a grid
/// [rows, width] of each sample.
inline void pack_planes(const float* from, const InputGradientCut& cut, long terms, long samples, long width,
                        long positions, long j0, long columns, float* to) {
  const PatchPanels panels = PatchPanels::right(terms, columns);
  PatchRun runs[patch_columns], *end = runs;
  if (width == cut.plane_row) width = positions;  // rows lie together
  for (long done = 0; done < columns;) {
    const long n = (j0 + done) / positions, position = (j0 + done) % positions, j = position % width;
    const long count = smaller(width - j, columns - done);
    end = panels.runs(done, count, n * cut.plane + position / width * cut.plane_row + j, end);
    done += count;
  }
  for (long k = 0; k < terms; ++k) pack_runs(runs, end, k, from + k * samples * cut.plane, to);
}

/// Writes sums [remainders, positions] of one channel of a sample to its plane: element (y, x) is that of the
/// remainders of y and x modulo the stride; those without taps are 0.
[[gnu::noinline]] inline void interleave_remainders(const Conv2dGeometry& g, const float* sums, long remainder_step,
                                                    long sample, float* plane) {
  const long s = g.stride;
  const float* const end = plane + long{1} * g.height * g.width;
  const auto source = [&](long a, long b, long i) -> const float* {
    const InputGradientPhase y(a, g.height, g.kernel_height, s, g.padding), x(b, g.width, g.kernel_width, s, g.padding);
    return y.taps * x.taps == 0 ? nullptr : sums + (a * s + b) * remainder_step + sample * y.grid * x.grid + i * x.grid;
  };
  for (long y = 0; y < g.height; ++y, plane += g.width) {
    if (s == 2 && g.width > 1) {
      const float *const even = source(y % s, 0, y / s), *const odd = source(y % s, 1, y / s);
      for (long x = 0; x < g.width; x += 2 * vector_width) {
        const Vector a = even != nullptr ? load(even + x / 2) : Vector{},
                     b = odd != nullptr ? load(odd + x / 2) : Vector{};
        float both[2 * vector_width];
        float* const to = end - plane >= x + 2 * vector_width ? plane + x : both;
        store(to, interleave_low(a, b));
        store(to + vector_width, interleave_high(a, b));
        if (to == both) copy_floats(plane + x, both, smaller(2 * vector_width, g.width - x));
      }
      continue;
    }
    for (long b = 0; b < s && b < g.width; ++b) {
      const float* const from = source(y % s, b, y / s);
      for (long x = b, j = 0; x < g.width; x += s, ++j) plane[x] = from != nullptr ? from[j] : 0;
    }
  }
}

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

constexpr long scratch_conv2d(const Workers*, const Conv2dGeometry& g) {
  using namespace detail;
  return packed_patches + padded_floats(g) + ConvolutionCut::sums_floats(g.positions(), 1);
}

constexpr long scratch_conv2d_input_gradient(const Workers*, const Conv2dGeometry& g) {
  using namespace detail;
  if (scatters_patches(g)) return product_scratch + g.taps() * g.positions();
  const InputGradientCut cut(g, 1);
  const long remainders = larger_of(cut.remainders, 2);
  return packed_patches + cut.planes_floats(g, ConvolutionCut::most_samples(cut.positions, remainders)) +
         ConvolutionCut::sums_floats(cut.positions, remainders) + 4 * vector_width;
}

constexpr long scratch_conv2d_weight_gradient(const Workers*, const Conv2dGeometry& g) {
  using namespace detail;
  const WeightGradientCut cut(g, 1);
  return block_rows * packed_tap_row + padded_floats(g) + cut.local_floats(g) + block_rows * cut.sums_row;
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
  auto task = [&](int index, int worker) {
    const long row0 = index % cut.row_blocks * cut.row_block, rows = smaller(cut.row_block, g.out_channels - row0);
    const long sample0 = index / cut.row_blocks * cut.samples, samples = smaller(cut.samples, batch - sample0);
    float* const right = workers.scratch(worker);
    float* const padded = right + packed_patches;
    float* const dense = padded + padded_floats(g);
    const RightPatches patches{patches_of(g, input + sample0 * g.input_size()), padded};
    const long first = sample0 * g.result_size() + row0 * positions, all = samples * positions;
    const long block = block_of_columns(all);
    for (long j0 = 0; j0 < all; j0 += block) {
      const long columns = smaller(block, all - j0);
      float* const sums = direct ? result + first + j0 : dense;
      const long sums_row = direct ? positions : round_up(columns, vector_width);
      for (long k0 = 0; k0 < taps; k0 += terms) {
        const long count = smaller(terms, taps - k0);
        patches.pack(k0, count, j0, columns, right);
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
  run_tasks(workers, cut.tasks(), batch * g.flops() < inline_flops, task);
}

/// The gradient of `run_conv2d` by its input.
inline void run_conv2d_input_gradient(Workers& workers, const Conv2dGeometry& g, int batch,
                                      const float* gradient_of_result, const float* weight, float* input_gradient,
                                      Epilogue epilogue = {}) {
  using namespace detail;
  workers.reserve_scratch(scratch_conv2d_input_gradient(&workers, g));
  const bool small = batch * g.flops() < inline_flops;
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
    run_tasks(workers, blocks_of(batch, group), small, task);
    return;
  }
  const long s = g.stride, plane = long{1} * g.height * g.width, kernel = long{1} * g.kernel_height * g.kernel_width;
  const long gradients = g.out_channels, taps = g.taps();
  // Weights transposed: [channels, kernel, out_channels].
  float* const transposed = workers.workspace(g.weight_size());
  constexpr long piece = 256;
  auto transpose_task = [&](int index, int) {
    const long first = index * piece;
    transpose_vectors(weight + first, taps, gradients, smaller(piece, taps - first), transposed + first * gradients,
                      gradients);
  };
  run_tasks(workers, blocks_of(taps, piece), static_cast<double>(g.weight_size()) < inline_elements, transpose_task);

  const InputGradientCut blocks(g, batch);
  const ConvolutionCut& cut = blocks.tasks;
  const Patches planes = gradient_planes(g, gradient_of_result);
  auto task = [&](int index, int worker) {
    const long row0 = index % cut.row_blocks * cut.row_block, rows = smaller(cut.row_block, g.channels - row0);
    const long sample0 = index / cut.row_blocks * cut.samples, samples = smaller(cut.samples, batch - sample0);
    float* const right = workers.scratch(worker);
    float* const padded = right + packed_patches;
    float* const sums = padded + blocks.planes_floats(g, cut.samples);
    const long sums_row = s * s * blocks.phase_columns;
    for (long o0 = 0; o0 < gradients; o0 += patch_terms) {
      const long terms = smaller(patch_terms, gradients - o0);
      float* to = padded;
      for (long o = 0; o < terms && planes.taps_y * planes.taps_x > 0; ++o) {
        for (long n = 0; n < samples; ++n, to += blocks.plane) {
          planes.pad(gradient_of_result + ((sample0 + n) * gradients + o0 + o) * g.positions(), 0, blocks.plane_rows,
                     to);
        }
      }
      for (long shift = 0; shift < planes.taps_y * planes.taps_x; ++shift) {
        const long shift_y = shift / planes.taps_x, shift_x = shift % planes.taps_x;
        const float* const from = padded + shift_y * blocks.plane_row + shift_x;
        long packed_grid = 0;  // remainders with the same grid share packed patches
        for (long a = 0; a < s * s; ++a) {
          const InputGradientPhase y(a / s, g.height, g.kernel_height, s, g.padding),
              x(a % s, g.width, g.kernel_width, s, g.padding);
          const long t = y.last_shift - planes.first_y - shift_y, r = x.last_shift - planes.first_x - shift_x;
          if (t < 0 || t >= y.taps || r < 0 || r >= x.taps) continue;
          const long tap = (y.first_tap + t * s) * g.kernel_width + x.first_tap + r * s;
          const long all = samples * y.grid * x.grid, block = block_of_columns(all);
          for (long j0 = 0; j0 < all; j0 += block) {
            const long columns = smaller(block, all - j0), grid = y.grid * (g.width + 1) + x.grid;
            if (packed_grid != grid || block < all) {
              pack_planes(from, blocks, terms, samples, x.grid, y.grid * x.grid, j0, columns, right);
              packed_grid = grid;
            }
            multiply_block(rows, columns, terms, transposed + (row0 * kernel + tap) * gradients + o0,
                           kernel * gradients, right, sums + a * blocks.phase_columns + j0, sums_row,
                           o0 > 0 || t + 1 < y.taps || r + 1 < x.taps);
          }
        }
      }
    }
    const long first = sample0 * g.input_size() + row0 * plane;
    for (long n = 0; n < samples; ++n) {
      float* const to = input_gradient + first + n * g.input_size();
      for (long row = 0; row < rows; ++row) {
        interleave_remainders(g, sums + row * sums_row, blocks.phase_columns, n, to + row * plane);
      }
      epilogue(first + n * g.input_size(), first + n * g.input_size() + rows * plane);
    }
  };
  run_tasks(workers, cut.tasks(), small, task);
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
  float* const transposed = workers.workspace(cut.shared_floats(g) + cut.parts * taps * cut.sums_row);
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
