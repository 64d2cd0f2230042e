#pragma once

#include <tenet/core/tensor_type.hpp>

namespace tenet {

/// A device's kernels, for programs that keep the values of samples in memory as numbers of type `dtype`. Every kernel
/// still computes with `float`.
template <class Kernels, DType dtype>
struct WithActivations : Kernels {
  static constexpr DType activations = dtype;
};

}  // namespace tenet
