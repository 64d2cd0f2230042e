#pragma once

#include <tenet/core/tensor_type.hpp>

namespace tenet {

namespace detail {

/// A device's kernels, whose programs for one sample read prepared weights of type `dtype`, where there are such.
template <class Kernels, DType dtype>
struct WithFactors : Kernels {};
template <class Kernels, DType dtype>
  requires requires { typename Kernels::OneSample::template WithFactors<dtype>; }
struct WithFactors<Kernels, dtype> : Kernels {
  using OneSample = typename Kernels::OneSample::template WithFactors<dtype>;
};

}  // namespace detail

/// A device's kernels, for programs that keep the values of samples in memory as numbers of type `dtype`. Its products
/// read such numbers where the device multiplies them (`KernelNumbers`); every sum, and all else, is `float`.
template <class Kernels, DType dtype>
struct WithActivations : detail::WithFactors<Kernels, dtype> {
  static constexpr DType activations = dtype;
  struct Arguments : Kernels::Arguments {
    static constexpr DType activations = dtype;
  };
  using Kernel = void (*)(typename Kernels::Executor&, const Arguments&);
};

}  // namespace tenet
