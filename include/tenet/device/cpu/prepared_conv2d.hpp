#pragma once

#include <tenet/device/cpu/convolution_channels_last.hpp>
#include <tenet/device/cpu/prepared_patches.hpp>

/// Which kernel serves a convolution whose weights may be prepared: chosen by the shape and, where the shape leaves
/// two, by the batch of a run. Both read weights packed for patches: transformed ones would be four times as many, and
/// reading those from memory takes longer than transforming them.
namespace tenet::cpu {

/// Winograd's product takes less than the direct one once there are enough positions to transform its weights for.
template <ConvolvingWorkers Executor = Workers>
constexpr bool prepared_by_winograd(const Conv2dGeometry& g, long batch) {
  return convolution_kernel<Executor>(g) == ConvolutionKernel::winograd && batch * g.positions() >= 40;
}

/// With few positions weights are what takes time: patches are multiplied while the next weights are fetched.
constexpr bool prepared_by_patches(const Conv2dGeometry& g, long batch) { return batch * g.positions() < 128; }

/// Floats of the prepared weights; 0 where there is nothing to prepare: few channels and few taps need no packing.
template <ConvolvingWorkers Executor, Conv2dGeometry g>
constexpr long prepared_conv2d_weight(const Executor*, Known<g>) {
  if (convolution_kernel<Executor>(g) == ConvolutionKernel::few_channels || g.taps() < 64) return 0;
  return takes_channels_last<Executor>(g) ? detail::forward_weights(g) : packed_weights(g);
}

/// Prepares weights [out_channels, channels, kernel_height, kernel_width].
template <ConvolvingWorkers Executor, Conv2dGeometry g>
void run_prepare_conv2d_weight(Executor& workers, Known<g>, const float* weight, float* prepared) {
  if constexpr (takes_channels_last<Executor>(g))
    detail::pack_forward_weights(workers, g, weight, prepared);
  else
    run_pack_weights(workers, g, weight, prepared);
}

template <ConvolvingWorkers Executor, Conv2dGeometry g>
constexpr long scratch_prepared_conv2d(const Executor* workers, Known<g>) {
  constexpr bool winograd = convolution_kernel<Executor>(g) == ConvolutionKernel::winograd,
                 rows = takes_channels_last<Executor>(g);
  return detail::larger(
      scratch_prepared_patches(workers, g),
      detail::larger(winograd ? scratch_winograd(workers, g) : 0, rows ? scratch_conv2d_channels_last(workers, g) : 0));
}

/// Floats of workspace for a batch.
template <ConvolvingWorkers Executor, Conv2dGeometry g>
long workspace_prepared_conv2d(const Executor* workers, Known<g>, long batch) {
  if (!prepared_by_winograd<Executor>(g, batch)) return workspace_prepared_patches(workers, g, batch);
  return winograd_packed_at_once(g, batch) ? 0 : workspace_winograd_weights(g);
}

template <ConvolvingWorkers Executor, Conv2dGeometry g>
long workspace_prepared_conv2d(const Executor* workers, ImagesChannelsLast, Known<g>, long batch) {
  if (!prepared_by_winograd<Executor>(g, batch) && !prepared_by_patches(g, batch)) return 0;
  return workspace_prepared_conv2d(workers, Known<g>{}, batch);
}

/// `run_conv2d` with `prepared` weights; those as they were are not read.
template <ConvolvingWorkers Executor, Conv2dGeometry g>
void run_prepared_conv2d(Executor& workers, Known<g>, int batch, const float* input, const float*,
                         const float* prepared, float* result, Epilogue epilogue = {}) {
  if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::winograd) {
    if (prepared_by_winograd<Executor>(g, batch))
      return run_winograd_conv2d_packed(workers, g, batch, input, prepared, result, epilogue);
  }
  run_conv2d_prepared_patches(workers, g, batch, input, prepared, result, epilogue);
}

/// The same of images with their channels last.
template <ConvolvingWorkers Executor, Conv2dGeometry g>
  requires(takes_channels_last<Executor>(g))
void run_prepared_conv2d(Executor& workers, ImagesChannelsLast, Known<g>, int batch, const float* input, const float*,
                         const float* prepared, float* result, Epilogue epilogue = {}) {
  if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::winograd) {
    if (prepared_by_winograd<Executor>(g, batch))
      return run_winograd_conv2d_packed(workers, g, batch, input, prepared, result, epilogue, true);
  }
  if (prepared_by_patches(g, batch))
    return run_conv2d_prepared_patches(workers, g, batch, input, prepared, result, epilogue, true);
  workers.reserve_scratch(scratch_conv2d_channels_last(&workers, g));
  detail::convolve_channels_last<float>(workers, g, batch, input, prepared, result, epilogue);
}

}  // namespace tenet::cpu
