#pragma once

#include <cstdint>

#include "tenet/core/random.hpp"
#include "tenet/device/reference/serial.hpp"

namespace tenet::reference {

/// mask[i] = 0 with the given probability, else 1 / (1 - probability).
///
/// Element i is decided by word i % 4 of philox(i / 4, seed, salt): the same bits on every device.
inline void run_dropout_mask(Serial&, long count, float probability, std::uint64_t seed, std::uint32_t salt,
                             float* mask) {
  for (long i = 0; i < count; ++i) {
    const std::uint32_t word = philox(static_cast<std::uint64_t>(i / 4), seed, salt)[static_cast<std::size_t>(i % 4)];
    mask[i] = unit_float(word) < probability ? 0.0f : 1.0f / (1.0f - probability);
  }
}

}  // namespace tenet::reference
