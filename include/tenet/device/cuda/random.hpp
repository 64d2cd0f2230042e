#pragma once

#include <cstdint>
#include <tenet/core/random.hpp>
#include <tenet/device/cuda/neighbours.hpp>
#include <tenet/device/cuda/team.hpp>

namespace tenet::gpu {

namespace detail {

/// Elements 4i to 4i + 3 of a mask: one call of Philox.
struct DropoutMask {
  long count;
  const float* drop;
  const std::int32_t* seed;
  std::uint32_t salt;
  float* mask;
  bool in_fours;  ///< the mask is aligned as fours are

  TENET_HOST_DEVICE void operator()(long i) const {
    const std::array<std::uint32_t, 4> words = philox(static_cast<std::uint64_t>(i), seed_of(seed), salt);
    const float probability = *drop, kept = 1.0f / (1.0f - probability);
    float four[4];
    for (int j = 0; j < 4; ++j) four[j] = unit_float(words[static_cast<std::size_t>(j)]) < probability ? 0.0f : kept;
    if (in_fours && 4 * i + 4 <= count)
      store_neighbours<4>(mask + 4 * i, four);
    else
      for (int j = 0; j < 4 && 4 * i + j < count; ++j) mask[4 * i + j] = four[j];
  }
};

}  // namespace detail

/// mask[i] = 0 with the probability *drop, else 1 / (1 - *drop).
///
/// Element i is decided by word i % 4 of philox(i / 4, seed, salt): the same bits on every device. Probability and seed
/// (its two halves) lie in the device's memory, as all operands do.
template <class Executor>
void run_dropout_mask(Executor& executor, long count, const float* drop, const std::int32_t* seed, std::uint32_t salt,
                      float* mask) {
  const bool in_fours = detail::is_aligned<float, 4>(mask);
  for_each(executor, (count + 3) / 4, detail::DropoutMask{count, drop, seed, salt, mask, in_fours});
}

}  // namespace tenet::gpu
