#pragma once

#include <tenet/device/cuda.hpp>
#include <tenet/device/cuda/host_stream.hpp>

namespace tenet {

/// The programs and kernels of `Cuda`, run by the processor through one of Thrust's systems: for machines without a
/// GPU, and for a debugger. What libraries do on a GPU (products, convolutions) is done by plain kernels.
template <class HostStream = gpu::SerialHost>
struct CudaOnHost {
  using Kernels = CudaKernels<HostStream>;
  static constexpr int index = 0;
  static constexpr int threads() { return 1; }
};

}  // namespace tenet
