#include "tenet/device/cpu/random.hpp"

#include "../agreement.hpp"
#include "tenet/device/reference/random.hpp"

TEST_CASE("dropout masks have the bits of the reference", "[cpu][random]") {
  for (long count : {1L, 7L, 100003L}) {
    const std::int32_t seed[]{5, 0};
    for (const float drop : {0.01f, 0.0f})
      check_agreement(count, 0,
                      [&](auto& executor, float* to) { run_dropout_mask(executor, count, &drop, seed, 9, to); });
  }
}
