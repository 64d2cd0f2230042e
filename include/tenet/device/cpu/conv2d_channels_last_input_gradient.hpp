#pragma once

#include <type_traits>

#include "tenet/core/bfloat16.hpp"
#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/channels_last_pairs.hpp"
#include "tenet/device/cpu/channels_last_rows.hpp"
#include "tenet/device/cpu/weight_panels.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

/// The gradient of a convolution by its input, images with their channels last. Positions of the input that leave the
/// same remainders divided by the stride, a phase, meet the same taps: each phase is the product [positions, taps of
/// the phase times out_channels] · [the same, channels], whose left factor is the gradient of the result where it lies.
namespace tenet::cpu {

namespace detail {

/// Input position p = phase + g * stride meets result position (p + padding - k) / stride for each k that leaves no
/// remainder: k = first, first + stride, …, the result positions descending from g + (phase + padding - first) /
/// stride.
constexpr AxisTaps phase_taps(int kernel, int stride, int padding, int phase, int extent) {
  const int first = (phase + padding) % stride;
  return {extent, 1,     (phase + padding - first) / stride, -1, first < kernel ? (kernel - first - 1) / stride + 1 : 0,
          first,  stride};
}

/// The product of one phase; the weights are in panels.
inline GridProduct phase_product(const Conv2dGeometry& g, int phase_y, int phase_x, const float* gradient,
                                 const float* zeros, float* input_gradient) {
  const AxisTaps y = phase_taps(g.kernel_height, g.stride, g.padding, phase_y, g.out_height());
  const AxisTaps x = phase_taps(g.kernel_width, g.stride, g.padding, phase_x, g.out_width());
  const long line = long{1} * g.out_width() * g.out_channels, result_pixel = g.stride * g.channels;
  const long result_line = long{1} * g.stride * g.width * g.channels;
  float* const result = input_gradient + (long{1} * phase_y * g.width + phase_x) * g.channels;
  return {gradient,
          g.result_size(),
          line,
          g.out_channels,
          g.out_channels,
          y,
          x,
          g.kernel_width,
          zeros,
          result,
          g.input_size(),
          result_line,
          result_pixel,
          static_cast<int>(blocks_of(g.width - phase_x, g.stride))};
}

/// Floats of weights in panels of the image's channels, and a pixel of zeros behind them.
constexpr long input_gradient_workspace(const Conv2dGeometry& g) { return input_gradient_panels(g) + g.out_channels; }

/// Lines of the grid that a task finishes at once: results stay in the second-level cache while the phases write them
/// by turns, where the weights fit besides.
constexpr long lines_at_once(const Conv2dGeometry& g, const GridCut& cut) {
  const long line = cut.samples * g.stride * g.width * g.channels;
  if (g.stride == 1 || g.weight_size() / g.channels * wide_columns > 1 << 17) return cut.lines;
  return line < 1 << 16 ? (1 << 16) / line : 1;
}

/// The lines of a task in all phases. The results that no tap meets are zeros.
template <class Factor>
void input_gradient_lines(const Conv2dGeometry& g, const GridTask& task, const float* gradient, const float* weights,
                          float* input_gradient, float* scratch) {
  const PanelCut panels(g.channels);
  const long area = kernel_area(g);
  for (long panel = task.panel0; panel < task.panel1; ++panel) {
    const long first = panels.first(panel), width = panels.width(panel);
    const PanelColumns columns{weights + first * area * g.out_channels, first, width,
                               smaller(width, g.channels - first)};
    for (int phase = 0; phase < g.stride * g.stride; ++phase) {
      const int y = phase / g.stride, x = phase % g.stride;
      GridPart lines = task.lines();
      lines.line1 = static_cast<int>(smaller(lines.line1, blocks_of(g.height - y, g.stride)));
      if (lines.line0 >= lines.line1 || x >= g.width) continue;
      const GridProduct product = phase_product(g, y, x, gradient, weights + input_gradient_panels(g), input_gradient);
      if (product.y.taps == 0 || product.x.taps == 0) continue;
      multiply_grid<Factor>(product, lines, columns, reinterpret_cast<RowRun*>(scratch));
    }
  }
}

/// The gradient with the weights of `input_gradient_workspace`.
template <class Factor>
void input_gradient_channels_last(Workers& workers, const Conv2dGeometry& g, int batch, const float* gradient,
                                  const float* weights, float* input_gradient, Epilogue epilogue) {
  const PanelCut panels(g.channels);
  const long all_lines = blocks_of(g.height, g.stride);
  const GridCut cut(batch, all_lines, long{1} * g.stride * g.width, panels.count);
  const bool gaps = g.kernel_height < g.stride || g.kernel_width < g.stride;
  auto task = [&](int index, int worker) {
    const GridTask all(cut, index, batch, all_lines, panels.count);
    const long step = lines_at_once(g, cut);
    for (GridTask part = all; part.line0 < all.line1; part.line0 += step) {
      part.line1 = smaller(part.line0 + step, all.line1);
      const auto each_run = [&](auto&& range) {
        for_each_run(part, long{1} * g.height * g.width, part.line0 * g.stride * g.width,
                     smaller(part.line1 * g.stride, g.height) * g.width, g.channels, panels.first(part.panel0),
                     smaller(panels.first(part.panel1), g.channels), range);
      };
      if (gaps) each_run([&](long from, long until) { fill_floats(input_gradient + from, 0, until - from); });
      input_gradient_lines<Factor>(g, part, gradient, weights, input_gradient, workers.scratch(worker));
      if (epilogue) each_run(epilogue);
    }
  };
  run_tasks(workers, cut.tasks(), batch * g.flops() < inline_flops, task);
}

}  // namespace detail

/// Floats of scratch a worker for `run_conv2d_input_gradient_channels_last`, of floats or bfloat16.
constexpr long scratch_conv2d_input_gradient_channels_last(const Workers*, const Conv2dGeometry& g) {
  return detail::run_floats(g) + g.taps();
}

/// Floats of workspace for `run_conv2d_input_gradient_channels_last` of such numbers.
template <class Number>
constexpr long workspace_conv2d_input_gradient_channels_last(Conv2dGeometry g) {
  if (!std::is_same_v<Number, float>) g.out_channels /= 2;  // of pairs
  return detail::input_gradient_workspace(g);
}

/// The gradient of `run_conv2d_channels_last` by its input [batch, height, width, channels].
inline void run_conv2d_input_gradient_channels_last(Workers& workers, const Conv2dGeometry& g, int batch,
                                                    const float* gradient_of_result, const float* weight,
                                                    float* input_gradient, Epilogue epilogue = {}) {
  using namespace detail;
  if (batch == 0) return;
  workers.reserve_scratch(scratch_conv2d_input_gradient_channels_last(&workers, g));
  float* const weights = workers.workspace(workspace_conv2d_input_gradient_channels_last<float>(g));
  run_ranges(workers, g.out_channels, g.taps(), [&](long first, long last) {
    for (long o = first; o < last; ++o) pack_input_gradient_weights(g, o, weight + o * g.taps(), weights);
  });
  fill_floats(weights + input_gradient_panels(g), 0, g.out_channels);
  input_gradient_channels_last<float>(workers, g, batch, gradient_of_result, weights, input_gradient, epilogue);
}

/// The same of bfloat16 factors, added up as floats, where `channels_last_takes_bfloat16`.
inline void run_conv2d_input_gradient_channels_last(Workers& workers, const Conv2dGeometry& geometry, int batch,
                                                    const bfloat16* gradient_of_result, const bfloat16* weight,
                                                    float* input_gradient, Epilogue epilogue = {}) {
  using namespace detail;
  if (batch == 0) return;
  Conv2dGeometry g = geometry;
  g.out_channels /= 2;  // of pairs
  workers.reserve_scratch(scratch_conv2d_input_gradient_channels_last(&workers, g));
  float* const weights = workers.workspace(workspace_conv2d_input_gradient_channels_last<bfloat16>(geometry));
  auto task = [&](int o, int worker) {
    float* const pairs = workers.scratch(worker);
    write_pairs(weight + 2 * o * g.taps(), weight + (2 * o + 1) * g.taps(), g.taps(), pairs);
    pack_input_gradient_weights(g, o, pairs, weights);
  };
  run_tasks(workers, g.out_channels, static_cast<double>(g.weight_size()) < inline_elements, task);
  fill_floats(weights + input_gradient_panels(g), 0, g.out_channels);
  input_gradient_channels_last<bfloat16>(workers, g, batch, reinterpret_cast<const float*>(gradient_of_result), weights,
                                         input_gradient, epilogue);
}

}  // namespace tenet::cpu
