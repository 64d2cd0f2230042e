#pragma once

#include "turned_device.hpp"

/// The device with channels last, whose loops may store and sum, too: with `fuses`, it does what is behind a
/// convolution as GPUs do, and no loop is left for that.
namespace joining {

template <bool fuses = false>
struct Kernels : turned::Kernels {
  static constexpr bool joins_steps = true, kernels_add_bias = fuses, fuses_convolutions = fuses;
};

template <bool fuses = false>
struct Device {
  using Kernels = joining::Kernels<fuses>;
  static constexpr int index = 0;
  static constexpr int threads() { return 1; }
};

}  // namespace joining
