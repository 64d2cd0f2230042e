#pragma once

#include <tenet/device/arguments.hpp>
#include <tenet/device/cuda/attention.hpp>
#include <tenet/device/cuda/conv2d.hpp>
#include <tenet/device/cuda/copy.hpp>
#include <tenet/device/cuda/cross_entropy.hpp>
#include <tenet/device/cuda/element.hpp>
#include <tenet/device/cuda/embedding.hpp>
#include <tenet/device/cuda/launch.hpp>
#include <tenet/device/cuda/layer_norm.hpp>
#include <tenet/device/cuda/matmul.hpp>
#include <tenet/device/cuda/pool2d.hpp>
#include <tenet/device/cuda/random.hpp>
#include <tenet/device/cuda/softmax.hpp>

namespace tenet {

/// The kernels of a GPU, started by an executor: that of a GPU, or one that runs them on the host (to prove them).
/// With `tensor_float32` libraries may round factors to TF32; with `fused` cuDNN compiles what is behind a convolution
/// into its kernel; with `measured` its kernels are chosen by the time that they take.
template <class Executor_, bool tensor_float32 = false, bool fused = false, bool measured = false>
struct CudaKernels {
  using Lane = float;
  using Executor = Executor_;
  using Arguments = KernelArguments;
  using Kernel = void (*)(Executor&, const Arguments&);

  template <Role role, Wiring wiring, auto... functions>
  static constexpr ElementRange element_range = &gpu::element_range<Executor, role, wiring, functions...>;

  static constexpr const char* name = "cuda";
  static constexpr bool uses_tensor_float32 = tensor_float32;
  static constexpr bool turns_images = true;
  static constexpr bool reads_repeated_rows = true;
  static constexpr bool joins_steps = true;
  static constexpr bool kernels_add_bias = true;
  static constexpr bool fuses_convolutions = fused;
  static constexpr bool measures_convolutions = measured;
  using TensorFloat32 = CudaKernels<Executor, true, fused, measured>;
  using Fused = CudaKernels<Executor, tensor_float32, true, measured>;
  using Measured = CudaKernels<Executor, tensor_float32, fused, true>;
};

/// GPU number Index of this machine. Files that use it are compiled as CUDA C++ (nvcc, ".cu").
template <int Index = 0>
struct Cuda {
  static_assert(Index >= 0, "Cuda<index>: the GPU's number, from 0");
  using Kernels = CudaKernels<gpu::Stream>;
  static constexpr int index = Index;
  static constexpr int threads() { return 1; }
};

}  // namespace tenet
