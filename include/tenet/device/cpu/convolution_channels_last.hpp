#pragma once

#include "tenet/device/cpu/conv2d_channels_last.hpp"
#include "tenet/device/cpu/conv2d_channels_last_input_gradient.hpp"
#include "tenet/device/cpu/conv2d_channels_last_weight_gradient.hpp"
#include "tenet/device/cpu/convolution.hpp"

/// Which kernel serves a convolution in a program, where images may have their channels last: Winograd's where the
/// shape and the batch allow, else tiles whose rows lie in the image. Shapes that are not here keep the order of types
/// (convolution.hpp).
namespace tenet::cpu {

/// Whether images lie with their channels last: there are enough result channels to fill vectors, and no kernel for few
/// channels serves, whose lanes are samples.
template <ConvolvingWorkers Executor = Workers>
constexpr bool takes_channels_last(const Conv2dGeometry& g) {
  return convolution_kernel<Executor>(g) != ConvolutionKernel::few_channels && g.out_channels % vector_width == 0 &&
         (g.channels % vector_width == 0 || g.channels < vector_width);
}
template <ConvolvingWorkers Executor>
constexpr bool winograd_channels_last(const Conv2dGeometry& g) {
  return convolution_kernel<Executor>(g) == ConvolutionKernel::winograd && winograd_takes_channels_last(g);
}
template <ConvolvingWorkers Executor>
constexpr bool winograd_serves(const Conv2dGeometry& g, long batch) {
  return winograd_channels_last<Executor>(g) && batch_pays<Executor>(g, batch);
}
/// In mixed precision: where the direct form serves, whose factors may be bfloat16. Winograd's sums of inputs would be
/// rounded.
template <ConvolvingWorkers Executor>
constexpr bool multiplies_bfloat16_channels_last(const Conv2dGeometry& g) {
  return multiplies_bfloat16 && takes_channels_last<Executor>(g) && !winograd_channels_last<Executor>(g) &&
         channels_last_takes_bfloat16(g);
}

template <class Executor, Conv2dGeometry g, class Number>
concept ConvolvesChannelsLast =
    ConvolvingWorkers<Executor> &&
    (std::is_same_v<Number, float> ? takes_channels_last<Executor>(g) : multiplies_bfloat16_channels_last<Executor>(g));

// Floats of scratch a worker, and of workspace for a batch, by factors of type Number.

template <ConvolvingWorkers Executor, Conv2dGeometry g, class Number>
constexpr long scratch_conv2d(const Executor* workers, ImagesChannelsLast, Known<g>, Number) {
  const long direct = scratch_conv2d_channels_last(workers, std::is_same_v<Number, float> ? g : detail::of_pairs(g));
  return winograd_channels_last<Executor>(g) ? detail::larger(scratch_winograd(workers, g), direct) : direct;
}
template <ConvolvingWorkers Executor, Conv2dGeometry g, class Number>
constexpr long scratch_conv2d_input_gradient(const Executor* workers, ImagesChannelsLast, Known<g>, Number) {
  const long direct = scratch_conv2d_input_gradient_channels_last(workers, g);
  return winograd_channels_last<Executor>(g) ? detail::larger(scratch_winograd(workers, exchanged(g)), direct) : direct;
}
template <ConvolvingWorkers Executor, Conv2dGeometry g, class Number>
constexpr long scratch_conv2d_weight_gradient(const Executor* workers, ImagesChannelsLast, Known<g>, Number) {
  const long direct = scratch_conv2d_weight_gradient_channels_last(workers, g);
  return winograd_channels_last<Executor>(g) ? detail::larger(scratch_winograd_weight_gradient(workers, g), direct)
                                             : direct;
}

template <ConvolvingWorkers Executor, Conv2dGeometry g, class Number>
long workspace_conv2d(const Executor*, ImagesChannelsLast, Known<g>, Number, long batch) {
  if (winograd_serves<Executor>(g, batch)) return detail::workspace_winograd_from(g, batch);
  return batch > 0 ? workspace_conv2d_channels_last<Number>(g) : 0;
}
template <ConvolvingWorkers Executor, Conv2dGeometry g, class Number>
long workspace_conv2d_input_gradient(const Executor*, ImagesChannelsLast, Known<g>, Number, long batch) {
  if (winograd_serves<Executor>(g, batch)) return detail::workspace_winograd_from(exchanged(g), batch);
  return batch > 0 ? workspace_conv2d_input_gradient_channels_last<Number>(g) : 0;
}
template <ConvolvingWorkers Executor, Conv2dGeometry g, class Number>
long workspace_conv2d_weight_gradient(const Executor*, ImagesChannelsLast, Known<g>, Number, long batch) {
  if (winograd_serves<Executor>(g, batch)) return workspace_winograd_weight_gradient(g, batch);
  return workspace_conv2d_weight_gradient_channels_last<Number>(g, batch);
}

template <class Executor, Conv2dGeometry g, class Number>
  requires ConvolvesChannelsLast<Executor, g, Number>
void run_conv2d(Executor& workers, ImagesChannelsLast, Known<g>, int batch, const Number* input, const Number* weight,
                float* result, Epilogue epilogue = {}) {
  if constexpr (winograd_channels_last<Executor>(g)) {
    if (batch_pays<Executor>(g, batch))
      return detail::run_winograd_from<g>(workers, batch, input, weight, false, result, epilogue, true);
  }
  run_conv2d_channels_last(workers, g, batch, input, weight, result, epilogue);
}

template <class Executor, Conv2dGeometry g, class Number>
  requires ConvolvesChannelsLast<Executor, g, Number>
void run_conv2d_input_gradient(Executor& workers, ImagesChannelsLast, Known<g>, int batch,
                               const Number* gradient_of_result, const Number* weight, float* input_gradient,
                               Epilogue epilogue = {}) {
  if constexpr (winograd_channels_last<Executor>(g)) {
    if (batch_pays<Executor>(g, batch))
      return detail::run_winograd_from<exchanged(g)>(workers, batch, gradient_of_result, weight, true, input_gradient,
                                                     epilogue, true);
  }
  run_conv2d_input_gradient_channels_last(workers, g, batch, gradient_of_result, weight, input_gradient, epilogue);
}

template <class Executor, Conv2dGeometry g, class Number>
  requires ConvolvesChannelsLast<Executor, g, Number>
void run_conv2d_weight_gradient(Executor& workers, ImagesChannelsLast, Known<g>, int batch, const Number* input,
                                const Number* gradient_of_result, float* weight_gradient) {
  if constexpr (winograd_channels_last<Executor>(g)) {
    if (batch_pays<Executor>(g, batch))
      return run_winograd_weight_gradient(workers, g, batch, input, gradient_of_result, weight_gradient,
                                          workers.workspace(workspace_winograd_weight_gradient(g, batch)), true);
  }
  run_conv2d_weight_gradient_channels_last(workers, g, batch, input, gradient_of_result, weight_gradient);
}

}  // namespace tenet::cpu
