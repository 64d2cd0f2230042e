#pragma once

namespace tenet {

/// A device's kernels, for programs that keep the values of samples in memory as numbers of type Element. Every kernel
/// still computes with `float`.
template <class Kernels, class Element>
struct InPrecision : Kernels {
  using Activation = Element;
};

}  // namespace tenet
