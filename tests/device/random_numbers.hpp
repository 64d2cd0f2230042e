#pragma once

#include <cstdint>
#include <vector>

#include "tenet/core/random.hpp"

/// Uniform floats in [-1, 1), the same for one seed.
inline std::vector<float> random_floats(long size, int seed) {
  tenet::Random random(static_cast<std::uint64_t>(seed));
  std::vector<float> result(static_cast<std::size_t>(size));
  for (float& value : result) value = random.uniform(-1, 1);
  return result;
}

/// Uniform integers in [low, high).
inline std::vector<std::int32_t> random_integers(long size, int low, int high, int seed) {
  tenet::Random random(static_cast<std::uint64_t>(seed));
  std::vector<std::int32_t> result(static_cast<std::size_t>(size));
  for (std::int32_t& value : result)
    value = low + static_cast<int>(random.below(static_cast<std::uint32_t>(high - low)));
  return result;
}
