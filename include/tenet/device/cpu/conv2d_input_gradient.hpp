#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/core/vector.hpp"
#include "tenet/device/cpu/conv2d.hpp"
#include "tenet/device/cpu/patches.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/transpose.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

/// The gradient of a convolution by its input: with few channels a product whose result, the gradients of patches, is
/// added where they overlap; else the products of conv2d.hpp, of transposed weights with the gradient's patches, one
/// for each remainder of the coordinates modulo the stride.
namespace tenet::cpu {

namespace detail {

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

/// A tap of the kernel as the gradient by the input meets it: shift by shift, in each one remainder by remainder.
struct InputGradientTap {
  long remainder, tap, from;     // of `from`: of the shifted gradients in their planes
  long grid_height, grid_width;  // positions of the remainder
  bool first;                    // of the remainder's taps
  bool packs;                    // its shifted gradients differ from those of the tap before

  constexpr long positions() const { return grid_height * grid_width; }
};

/// Calls visit(tap) for all taps.
template <class Visit>
void for_each_input_gradient_tap(const Conv2dGeometry& g, const InputGradientCut& cut, Visit visit) {
  const Patches planes = gradient_planes(g, nullptr);
  for (long shift_y = 0; shift_y < planes.taps_y; ++shift_y) {
    for (long shift_x = 0; shift_x < planes.taps_x; ++shift_x) {
      long height = 0, width = 0;  // of the grid before
      for (long a = 0; a < cut.remainders; ++a) {
        const InputGradientPhase y(a / g.stride, g.height, g.kernel_height, g.stride, g.padding),
            x(a % g.stride, g.width, g.kernel_width, g.stride, g.padding);
        const long t = y.last_shift - planes.first_y - shift_y, r = x.last_shift - planes.first_x - shift_x;
        if (t < 0 || t >= y.taps || r < 0 || r >= x.taps) continue;
        visit(InputGradientTap{a, (y.first_tap + t * g.stride) * g.kernel_width + x.first_tap + r * g.stride,
                               shift_y * cut.plane_row + shift_x, y.grid, x.grid, t + 1 == y.taps && r + 1 == x.taps,
                               y.grid != height || x.grid != width});
        height = y.grid;
        width = x.grid;
      }
    }
  }
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
        const Vector a = even != nullptr ? load(even + x / 2) : zero_lanes(),
                     b = odd != nullptr ? load(odd + x / 2) : zero_lanes();
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

}  // namespace detail

constexpr long scratch_conv2d_input_gradient(const Workers*, const Conv2dGeometry& g) {
  using namespace detail;
  if (scatters_patches(g)) return product_scratch + g.taps() * g.positions();
  const InputGradientCut cut(g, 1);
  const long remainders = larger_of(cut.remainders, 2);
  return packed_patches + cut.planes_floats(g, ConvolutionCut::most_samples(cut.positions, remainders)) +
         ConvolutionCut::sums_floats(cut.positions, remainders) + 4 * vector_width;
}

namespace detail {
/// Floats of the shifted gradients that tasks of the same samples share, packed before: where these stay in cache.
constexpr long shared_gradients(const Conv2dGeometry& g, const InputGradientCut& cut) {
  const long all = cut.tasks.groups * g.out_channels * g.kernel_height * g.kernel_width * cut.phase_columns;
  return cut.tasks.row_blocks > 1 && all <= most_shared_patches ? all : 0;
}
}  // namespace detail

/// Floats of workspace for `run_conv2d_input_gradient`: the transposed weights, and gradients that tasks share.
[[gnu::noinline]] inline long workspace_conv2d_input_gradient(const Workers*, const Conv2dGeometry& g, long batch) {
  using namespace detail;
  if (scatters_patches(g)) return 0;
  return round_up(g.weight_size(), vector_width) + shared_gradients(g, InputGradientCut(g, batch));
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
  const InputGradientCut blocks(g, batch);
  const ConvolutionCut& cut = blocks.tasks;
  const Patches planes = gradient_planes(g, gradient_of_result);
  const long all_taps = kernel * blocks.phase_columns;  // floats of one result channel
  const bool share = shared_gradients(g, blocks) > 0;
  // Weights transposed: [channels, kernel, out_channels].
  float* const transposed = workers.workspace(workspace_conv2d_input_gradient(&workers, g, batch));
  float* const shared = transposed + round_up(g.weight_size(), vector_width);
  constexpr long piece = 256;
  auto transpose_task = [&](int index, int) {
    const long first = index * piece;
    transpose_vectors(weight + first, taps, gradients, smaller(piece, taps - first), transposed + first * gradients,
                      gradients);
  };
  run_tasks(workers, blocks_of(taps, piece), static_cast<double>(g.weight_size()) < inline_elements, transpose_task);

  const auto samples_of_group = [&](long group) { return smaller(cut.samples, batch - group * cut.samples); };
  /// Pads the gradients of result channels [o0, o0 + terms).
  const auto pad = [&](long group, long o0, long terms, float* to) {
    for (long o = 0; o < terms && planes.taps_y * planes.taps_x > 0; ++o) {
      for (long n = group * cut.samples; n < group * cut.samples + samples_of_group(group); ++n, to += blocks.plane) {
        planes.pad(gradient_of_result + (n * gradients + o0 + o) * g.positions(), 0, blocks.plane_rows, to);
      }
    }
  };
  auto pack_task = [&](int index, int worker) {
    const long group = index % cut.groups, o0 = index / cut.groups * patch_terms, samples = samples_of_group(group);
    const long terms = smaller(patch_terms, gradients - o0);
    float* const padded = workers.scratch(worker);
    float* to = shared + (group * gradients + o0) * all_taps;
    pad(group, o0, terms, padded);
    for_each_input_gradient_tap(g, blocks, [&](const InputGradientTap& tap) {
      if (!tap.packs) return;
      const long all = samples * tap.positions(), block = block_of_columns(all);
      for (long j0 = 0; j0 < all; j0 += block) {
        pack_planes(padded + tap.from, blocks, terms, samples, tap.grid_width, tap.positions(), j0,
                    smaller(block, all - j0), to + j0 * terms);
      }
      to += terms * blocks.phase_columns;
    });
  };
  auto task = [&](int index, int worker) {
    const long row0 = index % cut.row_blocks * cut.row_block, rows = smaller(cut.row_block, g.channels - row0);
    const long group = index / cut.row_blocks, sample0 = group * cut.samples, samples = samples_of_group(group);
    float* const own = workers.scratch(worker);
    float* const padded = own + packed_patches;
    float* const sums = padded + blocks.planes_floats(g, cut.samples);
    const long sums_row = s * s * blocks.phase_columns;
    for (long o0 = 0; o0 < gradients; o0 += patch_terms) {
      const long terms = smaller(patch_terms, gradients - o0);
      if (!share) pad(group, o0, terms, padded);
      float* right = share ? shared + (group * gradients + o0) * all_taps - terms * blocks.phase_columns : own;
      for_each_input_gradient_tap(g, blocks, [&](const InputGradientTap& tap) {
        if (share && tap.packs) right += terms * blocks.phase_columns;
        const long all = samples * tap.positions(), block = block_of_columns(all);
        for (long j0 = 0; j0 < all; j0 += block) {
          const long columns = smaller(block, all - j0);
          if (!share && (tap.packs || block < all)) {
            pack_planes(padded + tap.from, blocks, terms, samples, tap.grid_width, tap.positions(), j0, columns, own);
          }
          multiply_block(rows, columns, terms, transposed + (row0 * kernel + tap.tap) * gradients + o0,
                         kernel * gradients, share ? right + j0 * terms : own,
                         sums + tap.remainder * blocks.phase_columns + j0, sums_row, o0 > 0 || !tap.first);
        }
      });
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
  if (share) run_tasks(workers, cut.groups * blocks_of(gradients, patch_terms), small, pack_task);
  run_tasks(workers, cut.tasks(), small, task);
}

}  // namespace tenet::cpu
