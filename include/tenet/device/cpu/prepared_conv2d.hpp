#pragma once

#include <tenet/device/cpu/convolution.hpp>
#include <tenet/device/cpu/prepared_patches.hpp>

/// Which kernel serves a convolution whose weights may be prepared: chosen by the shape and, where the shape leaves
/// two, by the batch of a run. Weights are prepared for every kernel that may serve, so batches may come in any order.
namespace tenet::cpu {

/// Winograd's product takes less than the direct one once there are enough tiles to read its larger weights for.
constexpr bool prepared_by_winograd(const Conv2dGeometry& g, long batch) {
  return winograd_fits(g) && batch * g.positions() >= 100;
}

namespace detail {
/// Floats that patches take, which come first: none where Winograd serves every batch.
constexpr long prepared_for_patches(const Conv2dGeometry& g) {
  return prepared_by_winograd(g, 1) ? 0 : prepared_patches_weight(g);
}
constexpr long prepared_for_winograd(const Conv2dGeometry& g) {
  return winograd_fits(g) && !winograd_weights_at_once(g) ? workspace_winograd_weights(g) : 0;
}
}  // namespace detail

/// Floats of the prepared weights; 0 where there is nothing to prepare: few channels and few taps need no packing.
template <Conv2dGeometry g>
constexpr long prepared_conv2d_weight(const Workers*, Known<g>) {
  if (convolution_kernel(g) == ConvolutionKernel::few_channels || g.taps() < 64) return 0;
  return detail::prepared_for_patches(g) + detail::prepared_for_winograd(g);
}

/// Prepares weights [out_channels, channels, kernel_height, kernel_width].
template <Conv2dGeometry g>
void run_prepare_conv2d_weight(Workers& workers, Known<g>, const float* weight, float* prepared) {
  if constexpr (detail::prepared_for_patches(g) > 0) run_prepare_patches_weight(workers, g, weight, prepared);
  if constexpr (detail::prepared_for_winograd(g) > 0)
    run_winograd_weights(workers, g, weight, prepared + detail::prepared_for_patches(g));
}

template <Conv2dGeometry g>
constexpr long scratch_prepared_conv2d(const Workers* workers, Known<g>) {
  const long patches = scratch_prepared_patches(workers, g),
             winograd = winograd_fits(g) ? scratch_winograd(workers, g) : 0;
  return patches > winograd ? patches : winograd;
}

/// `run_conv2d` with `prepared` weights; `weight` are the same as they were.
template <Conv2dGeometry g>
void run_prepared_conv2d(Workers& workers, Known<g>, int batch, const float* input, const float* weight,
                         const float* prepared, float* result, Epilogue epilogue = {}) {
  if constexpr (winograd_fits(g)) {
    if (prepared_by_winograd(g, batch)) {
      if constexpr (winograd_weights_at_once(g))
        return run_winograd_conv2d_at_once(workers, g, batch, input, weight, result, false, epilogue);
      else
        return run_winograd_conv2d(workers, g, batch, input, prepared + detail::prepared_for_patches(g), result,
                                   epilogue);
    }
  }
  if constexpr (detail::prepared_for_patches(g) > 0)
    run_conv2d_prepared_patches(workers, g, batch, input, prepared, result, epilogue);
}

}  // namespace tenet::cpu
