#pragma once

#include <tenet/device/precision.hpp>

/// Policies of what a step computes, and of what it keeps: tags of a `Trainer` and a `Model` (policies.hpp).
namespace tenet {

/// Parameters are updated when all gradients are known. The gradients are kept until the next step.
struct UpdateAfterBackward {
  static constexpr bool keeps_gradients = true;
};

/// Each parameter is updated as soon as its gradient is known, while that is still in cache; a gradient's memory is
/// used again behind it. The same numbers, fewer passes over memory, and nothing to ask for the gradients afterwards.
struct UpdateInBackward {
  static constexpr bool keeps_gradients = false;
};

/// Everything is kept and computed as `float`.
struct Float32 {
  template <class Kernels>
  using KernelsOf = Kernels;
};

/// Mixed precision: activations and their gradients are kept as `bfloat16`, in half the memory, and multiplied so where
/// the device does; what is added up is added as `float`. Parameters, their gradients, optimizer states, statistics and
/// losses stay `float`.
struct BFloat16 {
  template <class Kernels>
  using KernelsOf = WithActivations<Kernels, DType::bfloat16>;
};

namespace detail {
/// Other kernels of a device, those that it calls Named<Kernels>; a device that has none stays with its own.
template <class Kernels, template <class> class Named>
struct OtherKernels {
  using type = Kernels;
};
template <class Kernels, template <class> class Named>
  requires requires { typename Named<Kernels>; }
struct OtherKernels<Kernels, Named> {
  using type = Named<Kernels>;
};
template <class Kernels>
using TensorFloat32Of = typename Kernels::TensorFloat32;
template <class Kernels>
using DirectOf = typename Kernels::Direct;
template <class Kernels>
using FusedOf = typename Kernels::Fused;
template <class Kernels>
using MeasuredOf = typename Kernels::Measured;
}  // namespace detail

/// Everything is kept as `float`, but a GPU may round the factors of products and convolutions to TF32, which has 10
/// binary digits: relative errors of 1e-3, an order of magnitude faster. On other devices the same as `Float32`.
struct TensorFloat32 {
  template <class Kernels>
  using KernelsOf = typename detail::OtherKernels<Kernels, detail::TensorFloat32Of>::type;
};

/// Convolutions by Winograd's algorithm where that is faster: 3x3, stride 1, many channels. Relative errors of 2e-6.
struct WinogradConvolution {
  template <class Kernels>
  using ConvolvingKernels = Kernels;
};

/// Convolutions that multiply as they are defined: two to three times slower for those shapes, relative errors of 5e-7.
struct DirectConvolution {
  template <class Kernels>
  using ConvolvingKernels = typename detail::OtherKernels<Kernels, detail::DirectOf>::type;
};

/// On a GPU cuDNN compiles a convolution and what is behind it (bias, batch norm of inference, a sum, ReLU) into one
/// kernel, which takes it up to a second for each shape and batch, once a program. On a processor, where convolutions
/// do that anyway, the same as `WinogradConvolution`.
struct FusedConvolution {
  template <class Kernels>
  using ConvolvingKernels = typename detail::OtherKernels<Kernels, detail::FusedOf>::type;
};

/// On a GPU each of cuDNN's convolutions is done by the quickest of its kernels: when a shape and batch are met first,
/// up to 16 that give the same bits each time run on the numbers at hand, and the one that took the least time stays.
/// Two processes may choose differently, and so differ in the last bits, which the library's own estimate, taken
/// otherwise, rules out. With `FusedConvolution` up to 6, each of which is compiled. On other devices it changes
/// nothing. (PyTorch's torch.backends.cudnn.benchmark.)
struct CudnnBenchmark {
  template <class Kernels>
  using MeasuringKernels = typename detail::OtherKernels<Kernels, detail::MeasuredOf>::type;
};

/// Kernels are chosen by the library's estimate, which is the same in each process.
struct NoMeasurement {
  template <class Kernels>
  using MeasuringKernels = Kernels;
};

/// The training step's plan takes at most so many bytes a sample for activations: where it would take more, values of
/// the forward pass are computed again in the backward pass instead of being kept.
template <long BytesPerSample>
struct MemoryBound {
  static_assert(BytesPerSample > 0, "MemoryBound<bytes>: a positive number of bytes a sample");
  static constexpr long memory_bound = BytesPerSample;
};

/// What the step needs is kept.
struct MemoryUnbounded {
  static constexpr long memory_bound = 0;
};

/// Batch norm takes its statistics from a worker's part of each batch, as PyTorch's does: workers need not wait for
/// each other before the gradients are there.
struct BatchNormOfWorker {
  static constexpr bool shares_batch = false;
};

/// Batch norm takes its statistics from the whole batch of all replicas and ranks, as one device with all samples does:
/// parts of a batch may be small, even empty. So does any other sum over a batch that the network reads. Of each batch
/// norm four sums of a number a channel go round in every step, for which all workers wait. (PyTorch's SyncBatchNorm.)
struct SyncBatchNorm {
  static constexpr bool shares_batch = true;
};

/// What runs is not recorded, and no code is there for it. The other policy of this axis, `Timeline`, is not part of
/// tenet/tenet.hpp.
struct NoTimeline {
  static constexpr int spans_of_row = 0;
  template <class Kernels>
  using RecordedKernels = Kernels;
  struct Recording {};
};

}  // namespace tenet
