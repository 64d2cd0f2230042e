#pragma once

#include <tenet/core/tensor_type.hpp>

namespace tenet {

/// A device's kernels, for programs that keep the values of samples in memory as numbers of type `dtype`. Its products
/// read such numbers where the device multiplies them (`KernelNumbers`); every sum, and all else, is `float`.
template <class Kernels, DType dtype>
struct WithActivations : Kernels {
  static constexpr DType activations = dtype;
  struct Arguments : Kernels::Arguments {
    static constexpr DType activations = dtype;
  };
  using Kernel = void (*)(typename Kernels::Executor&, const Arguments&);
};

}  // namespace tenet
