#pragma once

#include <tenet/device/arguments.hpp>
#include <tenet/device/reference/attention.hpp>
#include <tenet/device/reference/conv2d.hpp>
#include <tenet/device/reference/copy.hpp>
#include <tenet/device/reference/cross_entropy.hpp>
#include <tenet/device/reference/element.hpp>
#include <tenet/device/reference/embedding.hpp>
#include <tenet/device/reference/layer_norm.hpp>
#include <tenet/device/reference/matmul.hpp>
#include <tenet/device/reference/pool2d.hpp>
#include <tenet/device/reference/random.hpp>
#include <tenet/device/reference/softmax.hpp>

namespace tenet {

struct ReferenceKernels {
  using Lane = float;
  using Executor = reference::Serial;
  using Arguments = KernelArguments;
  using Kernel = void (*)(Executor&, const Arguments&);

  template <Role role, Wiring wiring, auto... functions>
  static constexpr ElementRange element_range = &reference::element_range<role, wiring, functions...>;

  static constexpr const char* name = "reference";
};

/// The plain device: loops that can be read, against which all other devices are tested.
struct Reference {
  using Kernels = ReferenceKernels;
  static constexpr int index = 0;
  static constexpr int threads() { return 1; }
};

}  // namespace tenet
