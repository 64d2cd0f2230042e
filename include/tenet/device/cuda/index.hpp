#pragma once

#include <cstdint>
#include <tenet/core/host_device.hpp>

/// Arithmetic of indices in kernels. A division takes twenty instructions on a GPU, of 64 bits a hundred.
namespace tenet::gpu::detail {

struct Divided {
  long quotient, rest;
};

/// i / by and i % by of numbers that are not negative; those below 2^31 take no division of 64 bits.
TENET_HOST_DEVICE inline Divided divided(long i, long by) {
  if ((i | by) <= 0x7fffffff) {
    const auto dividend = static_cast<std::uint32_t>(i), divisor = static_cast<std::uint32_t>(by);
    const std::uint32_t quotient = dividend / divisor;
    return {static_cast<long>(quotient), static_cast<long>(dividend - quotient * divisor)};
  }
  const long quotient = i / by;
  return {quotient, i - quotient * by};
}

__extension__ using Wide = unsigned __int128;

/// A number by which many indices are divided, below 2^62: by a multiplication and a shift, without a branch. With s =
/// ceil(log2 by) and m = ceil(2^(63 + s) / by), i / by = i·m / 2^(63 + s), both rounded down: m·by is too large by e <
/// by <= 2^s, so the quotient is by i·e / (by·2^(63 + s)) < 1 / by. (Granlund and Montgomery, Division by invariant
/// integers using multiplication, PLDI 1994.)
struct Divisor {
  long by = 0;
  std::uint64_t factor = 0;
  int shift = 0;

  Divisor() = default;
  explicit constexpr Divisor(long divisor) : by(divisor) {
    if (by <= 0) return;
    while ((1l << shift) < by) ++shift;
    const auto number = static_cast<Wide>(by);
    factor = static_cast<std::uint64_t>(((Wide{1} << (63 + shift)) + number - 1) / number);
  }
};

TENET_HOST_DEVICE inline Divided divided(long i, const Divisor& divisor) {
  const Wide product = Wide{2 * static_cast<std::uint64_t>(i)} * divisor.factor;
  const long quotient = static_cast<long>(static_cast<std::uint64_t>(product >> 64) >> divisor.shift);
  return {quotient, i - quotient * divisor.by};
}

}  // namespace tenet::gpu::detail
