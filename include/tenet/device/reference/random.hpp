#pragma once

#include <cstdint>

#include "tenet/core/random.hpp"
#include "tenet/device/reference/serial.hpp"

namespace tenet::reference {

/// mask[i] = 0 with the probability *drop, else 1 / (1 - *drop).
///
/// Element i is decided by word i % 4 of philox(i / 4, seed, salt): the same bits on every device. Probability and seed
/// (its two halves) lie in the device's memory, as all operands do.
inline void run_dropout_mask(Serial&, long count, const float* drop, const std::int32_t* seed_halves,
                             std::uint32_t salt, float* mask) {
  const float probability = *drop;
  const std::uint64_t seed = seed_of(seed_halves);
  for (long i = 0; i < count; ++i) {
    const std::uint32_t word = philox(static_cast<std::uint64_t>(i / 4), seed, salt)[static_cast<std::size_t>(i % 4)];
    mask[i] = unit_float(word) < probability ? 0.0f : 1.0f / (1.0f - probability);
  }
}

}  // namespace tenet::reference
