#pragma once

#include <cstdint>

#include "tenet/core/random.hpp"
#include "tenet/device/cpu/workers.hpp"

namespace tenet::cpu {

/// mask[i] = 0 with the probability *drop, else 1 / (1 - *drop).
///
/// Element i is decided by word i % 4 of philox(i / 4, seed, salt): the same bits on every device. Probability and seed
/// (its two halves) lie in the device's memory, as all operands do.
inline void run_dropout_mask(Workers& workers, long count, const float* drop, const std::int32_t* seed_halves,
                             std::uint32_t salt, float* mask) {
  const float probability = *drop;
  const std::uint64_t seed = seed_of(seed_halves);
  const float kept = 1.0f / (1.0f - probability);
  auto range = [&](long first, long last) {
    for (long i = first; i < last; i += 4) {
      const auto words = philox(static_cast<std::uint64_t>(i / 4), seed, salt);
      for (long u = 0; u < 4 && i + u < last; ++u) {
        mask[i + u] = unit_float(words[static_cast<std::size_t>(u)]) < probability ? 0.0f : kept;
      }
    }
  };
  detail::run_ranges(workers, count, 4, range, 4);
}

}  // namespace tenet::cpu
