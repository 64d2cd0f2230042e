#pragma once

#include <cstdint>
#include <tenet/core/host_device.hpp>

/// Arithmetic of indices in kernels.
namespace tenet::gpu::detail {

struct Divided {
  long quotient, rest;
};

/// i / by and i % by of numbers that are not negative. 64-bit divisions take a hundred instructions on a GPU: numbers
/// below 2^31 do without.
TENET_HOST_DEVICE inline Divided divided(long i, long by) {
  if ((i | by) <= 0x7fffffff) {
    const auto dividend = static_cast<std::uint32_t>(i), divisor = static_cast<std::uint32_t>(by);
    const std::uint32_t quotient = dividend / divisor;
    return {static_cast<long>(quotient), static_cast<long>(dividend - quotient * divisor)};
  }
  const long quotient = i / by;
  return {quotient, i - quotient * by};
}

}  // namespace tenet::gpu::detail
