#pragma once

#include "tenet/device/cpu/convolution.hpp"

/// Convolutions of few channels in a program, where images may have their samples last (convolution.hpp says which).
/// A batch that is too small for lanes has the kernels of the order of types.
namespace tenet::cpu {

template <class Executor, Conv2dGeometry g>
concept ConvolvesSamplesLast =
    ConvolvingWorkers<Executor> && convolution_kernel<Executor>(g) == ConvolutionKernel::few_channels;

template <ConvolvingWorkers Executor, Conv2dGeometry g>
constexpr long scratch_conv2d(const Executor* workers, SamplesLast, Known<g>, float) {  // of a program: no re-laying
  return detail::larger(detail::scratch_few_samples<g>(workers),
                        scratch_lane_pass(lane_pass<Executor, g, false>(), Layout::samples_last));
}
template <ConvolvingWorkers Executor, Conv2dGeometry g>
constexpr long scratch_conv2d_input_gradient(const Executor* workers, SamplesLast, Known<g>, float) {
  return scratch_conv2d_input_gradient(workers, Known<g>{});
}
template <ConvolvingWorkers Executor, Conv2dGeometry g>
constexpr long scratch_conv2d_weight_gradient(const Executor* workers, SamplesLast, Known<g>, float) {
  return scratch_conv2d_weight_gradient(workers, Known<g>{});
}

template <ConvolvingWorkers Executor, Conv2dGeometry g>
long workspace_conv2d(const Executor* workers, SamplesLast, Known<g>, float, long batch) {
  return lies_in_lanes(batch) ? 0 : detail::workspace_few_samples<g>(workers, batch);
}
template <ConvolvingWorkers Executor, Conv2dGeometry g>
constexpr long workspace_conv2d_input_gradient(const Executor*, SamplesLast, Known<g>, float, long) {
  return 0;
}
template <ConvolvingWorkers Executor, Conv2dGeometry g>
constexpr long workspace_conv2d_weight_gradient(const Executor*, SamplesLast, Known<g>, float, long) {
  return 0;
}

template <class Executor, Conv2dGeometry g>
  requires ConvolvesSamplesLast<Executor, g>
void run_conv2d(Executor& workers, SamplesLast, Known<g>, int batch, const float* input, const float* weight,
                float* result, Epilogue epilogue = {}) {
  if (lies_in_lanes(batch))
    detail::run_lane_pass(workers, lane_pass<Executor, g, false>(), Layout::samples_last, batch, input, weight, result,
                          epilogue);
  else
    detail::run_few_samples<g>(workers, batch, input, weight, result, epilogue);
}

template <class Executor, Conv2dGeometry g>
  requires ConvolvesSamplesLast<Executor, g>
void run_conv2d_input_gradient(Executor& workers, SamplesLast, Known<g>, int batch, const float* gradient_of_result,
                               const float* weight, float* input_gradient, Epilogue epilogue = {}) {
  if (lies_in_lanes(batch))
    detail::run_lane_pass(workers, lane_pass<Executor, g, true>(), Layout::samples_last, batch, gradient_of_result,
                          weight, input_gradient, epilogue);
  else
    run_conv2d_input_gradient(workers, Known<g>{}, batch, gradient_of_result, weight, input_gradient, epilogue);
}

template <class Executor, Conv2dGeometry g>
  requires ConvolvesSamplesLast<Executor, g>
void run_conv2d_weight_gradient(Executor& workers, SamplesLast, Known<g>, int batch, const float* input,
                                const float* gradient_of_result, float* weight_gradient) {
  if (lies_in_lanes(batch))
    detail::run_lane_weight_pass(workers, lane_weight_pass<Executor, g>(), Layout::samples_last, batch, input,
                                 gradient_of_result, weight_gradient);
  else
    run_conv2d_weight_gradient(workers, Known<g>{}, batch, input, gradient_of_result, weight_gradient);
}

}  // namespace tenet::cpu
