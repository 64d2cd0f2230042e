#pragma once

#include <type_traits>

#include "tenet/core/bfloat16.hpp"
#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/channels_last_pairs.hpp"
#include "tenet/device/cpu/channels_last_patches.hpp"
#include "tenet/device/cpu/channels_last_rows.hpp"
#include "tenet/device/cpu/weight_panels.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

/// The convolution of images with their channels last: input [batch, height, width, channels], weight [out_channels,
/// channels, kernel_height, kernel_width], result [batch, out_height, out_width, out_channels]. It is the product
/// [positions, taps] · [taps, out_channels]; the rows of its left factor are read where they lie.
namespace tenet::cpu {

namespace detail {

/// The product of a convolution; the weights are in panels.
inline GridProduct forward_product(const Conv2dGeometry& g, const float* input, const float* zeros, float* result) {
  const AxisTaps y{g.height, g.stride, -g.padding, 1, g.kernel_height, 0, 1};
  const AxisTaps x{g.width, g.stride, -g.padding, 1, g.kernel_width, 0, 1};
  const long line = long{1} * g.width * g.channels, result_line = long{1} * g.out_width() * g.out_channels;
  return {input,  g.input_size(),  line,        g.channels,     g.channels,   y, x, g.kernel_width, zeros,
          result, g.result_size(), result_line, g.out_channels, g.out_width()};
}

/// Floats of packed weights, and of a pixel of zeros, which is read outside of the image.
constexpr long forward_weights(const Conv2dGeometry& g) { return packed_weights(g) + g.channels; }
inline void pack_forward_weights(Workers& workers, const Conv2dGeometry& g, const float* weight, float* to) {
  run_pack_weights(workers, g, weight, to);
  fill_floats(to + packed_weights(g), 0, g.channels);
}

/// The results' lines of a task, from the weights of `forward_weights`; `scratch`: room for the runs of a tile.
template <class Factor>
void convolve_lines(const Conv2dGeometry& g, const GridTask& task, const float* input, const float* weights,
                    float* result, float* scratch) {
  const PanelCut panels(g.out_channels);
  const GridProduct product = forward_product(g, input, weights + packed_weights(g), result);
  for (long panel = task.panel0; panel < task.panel1; ++panel) {
    const long first = panels.first(panel), width = panels.width(panel);
    multiply_grid<Factor>(product, task.lines(),
                          {weights + first * g.taps(), first, width, smaller(width, g.out_channels - first)},
                          reinterpret_cast<RowRun*>(scratch));
  }
}

/// The same by patches, which are laid to `scratch`.
template <class Factor>
void convolve_patches(const Conv2dGeometry& g, const GridTask& task, const float* input, const float* weights,
                      float* result, float* scratch) {
  const PanelCut panels(g.out_channels);
  const long position = task.sample0 * g.positions() + task.line0 * g.out_width();
  lay_channels_last_patches(g, task.line0, task.line1, input + task.sample0 * g.input_size(), 0, scratch);
  for (long panel = task.panel0; panel < task.panel1; ++panel) {
    const long first = panels.first(panel), width = panels.width(panel);
    multiply_panel<Factor>((task.line1 - task.line0) * g.out_width(), smaller(width, g.out_channels - first), width,
                           g.taps(), scratch, g.taps(), weights + first * g.taps(), width,
                           result + position * g.out_channels + first, g.out_channels, false);
  }
}

/// The convolution with the weights of `forward_weights`.
template <class Factor>
void convolve_channels_last(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                            const float* weights, float* result, Epilogue epilogue) {
  const PanelCut panels(g.out_channels);
  const GridCut cut =
      lays_patches(g) ? patch_cut(g, batch) : GridCut(batch, g.out_height(), g.out_width(), panels.count);
  auto task = [&](int index, int worker) {
    const GridTask part(cut, index, batch, g.out_height(), panels.count);
    (lays_patches(g) ? convolve_patches<Factor> : convolve_lines<Factor>)(g, part, input, weights, result,
                                                                          workers.scratch(worker));
    if (!epilogue) return;
    for_each_run(part, g.positions(), part.line0 * g.out_width(), part.line1 * g.out_width(), g.out_channels,
                 panels.first(part.panel0), smaller(panels.first(part.panel1), g.out_channels), epilogue);
  };
  run_tasks(workers, cut.tasks(), batch * g.flops() < inline_flops, task);
}

/// The weights as pairs of neighbouring channels [out_channels, channels / 2, kernel_height, kernel_width]: where they
/// lie with a kernel of 1x1, or laid to `room`.
inline const float* paired_channels(Workers& workers, const Conv2dGeometry& g, const bfloat16* weight, float* room) {
  const long area = kernel_area(g), channels = g.channels / 2;
  if (area == 1) return reinterpret_cast<const float*>(weight);
  run_ranges(workers, g.out_channels, g.taps(), [&](long first, long last) {
    const long end = last * channels;
    for (long pair = first * channels; pair < end; ++pair) {
      const bfloat16* const from = weight + 2 * pair * area;
      float* const to = room + pair * area;
      if ((end - pair) * area < area + vector_width) {
        write_pairs(from, from + area, area, to);
      } else {  // whole vectors: what they write too much is written later
        for (long i = 0; i < area; i += vector_width) store(to + i, load_pairs(from + i, from + area + i));
      }
    }
  });
  return room;
}

}  // namespace detail

/// Floats of scratch a worker for `run_conv2d_channels_last`.
constexpr long scratch_conv2d_channels_last(const Workers*, const Conv2dGeometry& g) {
  return detail::lays_patches(g) ? detail::patch_floats(g, detail::patch_lines(g)) : detail::run_floats(g);
}

/// Floats of workspace for `run_conv2d_channels_last` of such numbers.
template <class Number>
constexpr long workspace_conv2d_channels_last(const Conv2dGeometry& g) {
  if (std::is_same_v<Number, float>) return detail::forward_weights(g);
  const Conv2dGeometry pairs = detail::of_pairs(g);
  return detail::forward_weights(pairs) + pairs.weight_size();
}

/// result[n, i, j, o] = the sum over c, u, v of weight[o, c, u, v] * input[n, i * stride + u - padding, j * stride + v
/// - padding, c].
inline void run_conv2d_channels_last(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                                     const float* weight, float* result, Epilogue epilogue = {}) {
  using namespace detail;
  if (batch == 0) return;
  workers.reserve_scratch(scratch_conv2d_channels_last(&workers, g));
  float* const weights = workers.workspace(workspace_conv2d_channels_last<float>(g));
  pack_forward_weights(workers, g, weight, weights);
  convolve_channels_last<float>(workers, g, batch, input, weights, result, epilogue);
}

/// The same of bfloat16 factors, added up as floats, where `channels_last_takes_bfloat16`.
inline void run_conv2d_channels_last(Workers& workers, const Conv2dGeometry& geometry, int batch, const bfloat16* input,
                                     const bfloat16* weight, float* result, Epilogue epilogue = {}) {
  using namespace detail;
  if (batch == 0) return;
  const Conv2dGeometry g = of_pairs(geometry);
  workers.reserve_scratch(scratch_conv2d_channels_last(&workers, g));
  float* const weights = workers.workspace(workspace_conv2d_channels_last<bfloat16>(geometry));
  const float* const pairs = paired_channels(workers, geometry, weight, weights + forward_weights(g));
  pack_forward_weights(workers, g, pairs, weights);
  convolve_channels_last<bfloat16>(workers, g, batch, reinterpret_cast<const float*>(input), weights, result, epilogue);
}

}  // namespace tenet::cpu
