#pragma once

#include <tenet/core/large_memory.hpp>
#include <tenet/device/cpu/convolution_channels_last.hpp>
#include <tenet/device/cpu/prepared_patches.hpp>
#include <tenet/device/cpu/winograd_few_tiles.hpp>

/// Which kernel serves a convolution whose weights may be prepared: chosen by the shape and, where the shape leaves
/// two, by the batch of a run. Both read weights packed for patches: transformed ones would be four times as many, and
/// reading those from memory takes longer than transforming them.
namespace tenet::cpu {

/// Winograd's product takes less than the direct one once there are enough positions to transform its weights for;
/// bfloat16 are multiplied faster, but not in Winograd's product.
template <ConvolvingWorkers Executor = Workers, class Factor = float>
constexpr bool prepared_by_winograd(const Conv2dGeometry& g, long batch) {
  return convolution_kernel<Executor>(g) == ConvolutionKernel::winograd &&
         batch * g.positions() >= (std::is_same_v<Factor, float> ? 40 : 64);
}

/// Images of few tiles have a kernel of their own, for images with their channels last.
template <ConvolvingWorkers Executor, class Factor>
constexpr bool prepared_by_few_tiles(const Conv2dGeometry& g, long batch) {
  return convolution_kernel<Executor>(g) == ConvolutionKernel::winograd && std::is_same_v<Factor, float> &&
         few_tiles_form(g, batch) != FewTilesForm::none;
}

/// With few positions weights are what takes time: patches are multiplied while the next weights are fetched.
constexpr bool prepared_by_patches(const Conv2dGeometry& g, long batch) { return batch * g.positions() < 128; }

/// In mixed precision: whether the prepared weights are bfloat16, in pairs of channels.
template <ConvolvingWorkers Executor>
constexpr bool prepares_bfloat16(const Conv2dGeometry& g) {
  return multiplies_bfloat16 && takes_channels_last<Executor>(g) && channels_last_takes_bfloat16(g);
}
/// Numbers of images with their channels last: those of the factors, but floats where Winograd's algorithm may serve,
/// whose sums of inputs would be rounded.
template <ConvolvingWorkers Executor, Conv2dGeometry g, class Factor>
using PreparedImage = std::conditional_t<convolution_kernel<Executor>(g) == ConvolutionKernel::winograd, float, Factor>;
/// Factors that the prepared weights may be.
template <class Executor, Conv2dGeometry g, class Factor>
concept PreparesFactors =
    ConvolvingWorkers<Executor> && (std::is_same_v<Factor, float> || prepares_bfloat16<Executor>(g));

/// Floats that the prepared weights take; 0 where there is nothing to prepare: few channels and few taps need no
/// packing.
template <ConvolvingWorkers Executor, Conv2dGeometry g, class Factor>
  requires PreparesFactors<Executor, g, Factor>
constexpr long prepared_conv2d_weight(const Executor*, Known<g>, Factor) {
  if (convolution_kernel<Executor>(g) == ConvolutionKernel::few_channels || g.taps() < 64) return 0;
  constexpr Conv2dGeometry factors = of_factors<Factor>(g);
  return takes_channels_last<Executor>(g) ? detail::forward_weights(factors) : packed_weights(factors);
}

/// Prepares weights [out_channels, channels, kernel_height, kernel_width].
template <ConvolvingWorkers Executor, Conv2dGeometry g>
void run_prepare_conv2d_weight(Executor& workers, Known<g>, float, const float* weight, float* prepared) {
  if constexpr (takes_channels_last<Executor>(g))
    detail::pack_forward_weights(workers, g, weight, prepared);
  else
    run_pack_weights(workers, g, weight, prepared);
}
template <ConvolvingWorkers Executor, Conv2dGeometry g>
void run_prepare_conv2d_weight(Executor& workers, Known<g>, bfloat16, const float* weight, float* prepared) {
  using namespace detail;
  const FloatMemory rounded = take_floats(g.weight_size() / 2), pairs = take_floats(g.weight_size() / 2);
  lay_factors<bfloat16>(weight, g.weight_size(), rounded.get());
  pack_forward_weights(workers, of_pairs(g),
                       paired_channels(workers, g, reinterpret_cast<const bfloat16*>(rounded.get()), pairs.get()),
                       prepared);
}

template <ConvolvingWorkers Executor, Conv2dGeometry g, class Factor>
constexpr long scratch_prepared_conv2d(const Executor* workers, Known<g>, Factor) {
  constexpr bool winograd = convolution_kernel<Executor>(g) == ConvolutionKernel::winograd,
                 rows = takes_channels_last<Executor>(g);
  constexpr Conv2dGeometry factors = of_factors<Factor>(g);
  return detail::larger(
      scratch_prepared_patches(workers, factors),
      detail::larger(winograd ? detail::larger(scratch_winograd(workers, g), scratch_winograd_few_tiles()) : 0,
                     rows ? scratch_conv2d_channels_last(workers, factors) : 0));
}

/// Floats of workspace for a batch.
template <ConvolvingWorkers Executor, Conv2dGeometry g, class Factor>
long workspace_prepared_conv2d(const Executor* workers, Known<g>, Factor, long batch) {
  if (!prepared_by_winograd<Executor, Factor>(g, batch))
    return workspace_prepared_patches(workers, of_factors<Factor>(g), batch);
  return winograd_packed_at_once(g, batch) ? 0 : workspace_winograd_weights(g);
}

template <ConvolvingWorkers Executor, Conv2dGeometry g, class Factor>
long workspace_prepared_conv2d(const Executor* workers, ImagesChannelsLast, Known<g>, Factor factor, long batch) {
  if (prepared_by_few_tiles<Executor, Factor>(g, batch)) return workspace_winograd_few_tiles(g, batch);
  if (!prepared_by_winograd<Executor, Factor>(g, batch) && !prepared_by_patches(g, batch)) return 0;
  return workspace_prepared_conv2d(workers, Known<g>{}, factor, batch);
}

/// `run_conv2d` with `prepared` weights.
template <ConvolvingWorkers Executor, Conv2dGeometry g>
void run_prepared_conv2d(Executor& workers, Known<g>, float, int batch, const float* input, const float* prepared,
                         float* result, Epilogue epilogue = {}) {
  if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::winograd) {
    if (prepared_by_winograd<Executor>(g, batch))
      return run_winograd_conv2d_packed(workers, g, batch, input, prepared, result, epilogue);
  }
  run_conv2d_prepared_patches(workers, g, batch, input, prepared, result, epilogue);
}

namespace detail {

template <ConvolvingWorkers Executor, Conv2dGeometry g, class Factor>
void prepared_channels_last(Executor& workers, int batch, const PreparedImage<Executor, g, Factor>* input,
                            const float* prepared, float* result, Epilogue epilogue) {
  if constexpr (convolution_kernel<Executor>(g) == ConvolutionKernel::winograd) {
    if constexpr (std::is_same_v<Factor, float>)
      if (prepared_by_few_tiles<Executor, Factor>(g, batch))
        return run_winograd_few_tiles(workers, g, batch, input, prepared, result, epilogue);
    if (prepared_by_winograd<Executor, Factor>(g, batch))
      return run_winograd_conv2d_packed(workers, g, batch, input, prepared, result, epilogue, true,
                                        std::is_same_v<Factor, bfloat16>);
  } else if (!prepared_by_patches(g, batch)) {
    constexpr Conv2dGeometry factors = of_factors<Factor>(g);
    workers.reserve_scratch(scratch_conv2d_channels_last(&workers, factors));
    return convolve_channels_last<Factor>(workers, factors, batch, reinterpret_cast<const float*>(input), prepared,
                                          result, epilogue);
  }
  run_conv2d_prepared_patches<Factor>(workers, g, batch, input, prepared, result, epilogue, true);
}

}  // namespace detail

/// The same of images with their channels last.
template <ConvolvingWorkers Executor, Conv2dGeometry g, class Factor>
  requires(takes_channels_last<Executor>(g) && PreparesFactors<Executor, g, Factor>)
void run_prepared_conv2d(Executor& workers, ImagesChannelsLast, Known<g>, Factor, int batch,
                         const PreparedImage<Executor, g, Factor>* input, const float* prepared, float* result,
                         Epilogue epilogue = {}) {
  detail::prepared_channels_last<Executor, g, Factor>(workers, batch, input, prepared, result, epilogue);
}

}  // namespace tenet::cpu
