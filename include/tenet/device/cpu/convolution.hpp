#pragma once

#include "tenet/device/cpu/conv2d.hpp"
#include "tenet/device/cpu/conv2d_input_gradient.hpp"
#include "tenet/device/cpu/conv2d_samples_last.hpp"
#include "tenet/device/cpu/conv2d_samples_last_weight_gradient.hpp"
#include "tenet/device/cpu/conv2d_weight_gradient.hpp"
#include "tenet/device/cpu/long_row.hpp"
#include "tenet/device/cpu/winograd.hpp"
#include "tenet/device/cpu/winograd_samples_last.hpp"
#include "tenet/device/cpu/winograd_samples_last_weight_gradient.hpp"
#include "tenet/device/cpu/winograd_weight_gradient.hpp"

/// Which kernel serves a convolution: chosen where its shape is known, so that a program compiles those it runs.
namespace tenet::cpu {

enum class ConvolutionKernel {
  patches,       ///< a product with patches that exist only in packed blocks
  winograd,      ///< 36 products for tiles of 4 x 4 results: 3 x 3, stride 1, many channels
  few_channels,  ///< sixteen samples in the lanes of vectors: few channels, which fill no vector (`lane_pass`)
};

/// Workers of programs whose convolutions are to multiply as they are defined, without Winograd's algorithm.
class DirectWorkers : public Workers {
 public:
  using Workers::Workers;
};

template <class Executor>
concept ConvolvingWorkers = std::is_base_of_v<Workers, Executor>;

template <ConvolvingWorkers Executor = Workers>
constexpr ConvolutionKernel convolution_kernel(const Conv2dGeometry& g) {
  constexpr bool direct = std::is_base_of_v<DirectWorkers, Executor>;
  return !direct && winograd_fits(g) ? ConvolutionKernel::winograd
         : few_channels_fits(g)      ? ConvolutionKernel::few_channels
                                     : ConvolutionKernel::patches;
}

/// Whether a batch is large enough for the kernel of its shape; else patches serve it, or, of few channels, the long
/// row. Winograd transforms all weights at each call, which takes as long as the direct multiplications of some 20
/// positions. Sixteen samples in lanes take as long as one.
template <ConvolvingWorkers Executor = Workers>
constexpr bool batch_pays(const Conv2dGeometry& g, long batch) {
  return convolution_kernel<Executor>(g) == ConvolutionKernel::winograd ? batch * g.positions() >= 32
                                                                        : lies_in_lanes(batch);
}

namespace detail {
/// Winograd's convolution of weights as they are; `g` is the exchanged geometry for the gradient by the input.
template <Conv2dGeometry g>
void run_winograd_from(Workers& workers, int batch, const float* input, const float* weight, bool exchange,
                       float* result, Epilogue epilogue, bool channels_last = false) {
  if (winograd_weights_at_once(g, batch))
    return run_winograd_conv2d_at_once(workers, g, batch, input, weight, result, exchange, epilogue, channels_last);
  float* const transformed = workers.workspace(workspace_winograd_weights(g));
  run_winograd_weights(workers, g, weight, transformed, exchange);
  run_winograd_conv2d(workers, g, batch, input, transformed, result, epilogue, channels_last);
}
constexpr long workspace_winograd_from(const Conv2dGeometry& g, long batch) {
  return winograd_weights_at_once(g, batch) ? 0 : workspace_winograd_weights(g);
}
}  // namespace detail

/// The pass of a convolution of few channels, forward or its gradient by the input (lane_pass.hpp): by Winograd's
/// algorithm along the lines, or direct.
template <ConvolvingWorkers Executor, Conv2dGeometry g, bool gradient>
constexpr auto lane_pass() {
  if constexpr (!std::is_base_of_v<DirectWorkers, Executor> && winograd_in_lanes_fits(g))
    return detail::WinogradLanePassOf<g, gradient>{g};
  else
    return detail::LanePass{g, gradient};
}
/// That of the gradient by the weight (lane_weight_pass.hpp).
template <ConvolvingWorkers Executor, Conv2dGeometry g>
constexpr auto lane_weight_pass() {
  if constexpr (!std::is_base_of_v<DirectWorkers, Executor> && winograd_in_lanes_fits(g))
    return detail::WinogradLaneWeightPass<g.kernel_height>{g};
  else
    return detail::LaneWeightPass{g};
}

namespace detail {
// The forward pass of few samples with few channels.

template <Conv2dGeometry g>
constexpr long scratch_few_samples(const Workers* workers) {
  return long_row_fits(g) ? scratch_conv2d_long_row(g) : scratch_conv2d(workers, g);
}
template <Conv2dGeometry g>
long workspace_few_samples(const Workers* workers, long batch) {
  return long_row_fits(g) ? 0 : workspace_conv2d(workers, g, batch);
}
template <Conv2dGeometry g>
void run_few_samples(Workers& workers, int batch, const float* input, const float* weight, float* result,
                     Epilogue epilogue) {
  if constexpr (long_row_fits(g))
    run_conv2d_long_row(workers, g, batch, input, weight, result, epilogue);
  else
    run_conv2d(workers, g, batch, input, weight, result, epilogue);
}
}  // namespace detail

template <ConvolvingWorkers Executor, Conv2dGeometry g>
constexpr long scratch_conv2d(const Executor* workers, Known<g>) {
  if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::winograd)
    return detail::larger(scratch_winograd(workers, g), scratch_conv2d(workers, g));
  else if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::few_channels)
    return detail::larger(scratch_lane_pass(lane_pass<Executor, g, false>(), Layout::standard),
                          detail::scratch_few_samples<g>(workers));
  else
    return scratch_conv2d(workers, g);
}

template <ConvolvingWorkers Executor, Conv2dGeometry g>
constexpr long scratch_conv2d_input_gradient(const Executor* workers, Known<g>) {
  if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::winograd)
    return detail::larger(scratch_winograd(workers, exchanged(g)), scratch_conv2d_input_gradient(workers, g));
  else if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::few_channels)
    return scratch_lane_pass(lane_pass<Executor, g, true>(), Layout::standard);
  else
    return scratch_conv2d_input_gradient(workers, g);
}

template <ConvolvingWorkers Executor, Conv2dGeometry g>
constexpr long scratch_conv2d_weight_gradient(const Executor* workers, Known<g>) {
  if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::winograd)
    return detail::larger(scratch_winograd_weight_gradient(workers, g), scratch_conv2d_weight_gradient(workers, g));
  else if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::few_channels)
    return scratch_lane_weight_pass(lane_weight_pass<Executor, g>(), Layout::standard);
  else
    return scratch_conv2d_weight_gradient(workers, g);
}

// Floats of workspace for a batch.

template <ConvolvingWorkers Executor, Conv2dGeometry g>
long workspace_conv2d(const Executor* workers, Known<g>, long batch) {
  constexpr ConvolutionKernel kernel = convolution_kernel<Executor>(g);
  if constexpr (kernel == ConvolutionKernel::few_channels)
    return batch_pays<Executor>(g, batch) ? 0 : detail::workspace_few_samples<g>(workers, batch);
  else
    return kernel == ConvolutionKernel::patches || !batch_pays<Executor>(g, batch)
               ? workspace_conv2d(workers, g, batch)
               : detail::workspace_winograd_from(g, batch);
}

template <ConvolvingWorkers Executor, Conv2dGeometry g>
long workspace_conv2d_input_gradient(const Executor* workers, Known<g>, long batch) {
  constexpr ConvolutionKernel kernel = convolution_kernel<Executor>(g);
  if (kernel == ConvolutionKernel::few_channels) return 0;
  if (kernel == ConvolutionKernel::patches || !batch_pays<Executor>(g, batch))
    return workspace_conv2d_input_gradient(workers, g, batch);
  return detail::workspace_winograd_from(exchanged(g), batch);
}

template <ConvolvingWorkers Executor, Conv2dGeometry g>
long workspace_conv2d_weight_gradient(const Executor* workers, Known<g>, long batch) {
  constexpr ConvolutionKernel kernel = convolution_kernel<Executor>(g);
  if (kernel == ConvolutionKernel::few_channels) return 0;
  if (kernel == ConvolutionKernel::patches || !batch_pays<Executor>(g, batch))
    return workspace_conv2d_weight_gradient(workers, g, batch);
  return workspace_winograd_weight_gradient(g, batch);
}

template <ConvolvingWorkers Executor, Conv2dGeometry g>
void run_conv2d(Executor& workers, Known<g>, int batch, const float* input, const float* weight, float* result,
                Epilogue epilogue = {}) {
  if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::few_channels) {
    if (batch_pays<Executor>(g, batch))
      detail::run_lane_pass(workers, lane_pass<Executor, g, false>(), Layout::standard, batch, input, weight, result,
                            epilogue);
    else
      detail::run_few_samples<g>(workers, batch, input, weight, result, epilogue);
  } else {
    if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::winograd) {
      if (batch_pays<Executor>(g, batch))
        return detail::run_winograd_from<g>(workers, batch, input, weight, false, result, epilogue);
    }
    run_conv2d(workers, g, batch, input, weight, result, epilogue);
  }
}

// Gradients of few channels have one kernel for every batch: small batches are trained seldom, and what is not called
// is not compiled.

template <ConvolvingWorkers Executor, Conv2dGeometry g>
void run_conv2d_input_gradient(Executor& workers, Known<g>, int batch, const float* gradient_of_result,
                               const float* weight, float* input_gradient, Epilogue epilogue = {}) {
  if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::few_channels) {
    detail::run_lane_pass(workers, lane_pass<Executor, g, true>(), Layout::standard, batch, gradient_of_result, weight,
                          input_gradient, epilogue);
  } else {
    if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::winograd) {
      if (batch_pays<Executor>(g, batch))
        return detail::run_winograd_from<exchanged(g)>(workers, batch, gradient_of_result, weight, true, input_gradient,
                                                       epilogue);
    }
    run_conv2d_input_gradient(workers, g, batch, gradient_of_result, weight, input_gradient, epilogue);
  }
}

template <ConvolvingWorkers Executor, Conv2dGeometry g>
void run_conv2d_weight_gradient(Executor& workers, Known<g>, int batch, const float* input,
                                const float* gradient_of_result, float* weight_gradient) {
  if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::few_channels) {
    detail::run_lane_weight_pass(workers, lane_weight_pass<Executor, g>(), Layout::standard, batch, input,
                                 gradient_of_result, weight_gradient);
  } else {
    if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::winograd) {
      if (batch_pays<Executor>(g, batch))
        return run_winograd_weight_gradient(workers, g, batch, input, gradient_of_result, weight_gradient,
                                            workers.workspace(workspace_winograd_weight_gradient(g, batch)));
    }
    run_conv2d_weight_gradient(workers, g, batch, input, gradient_of_result, weight_gradient);
  }
}

}  // namespace tenet::cpu
