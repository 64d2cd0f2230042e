#include "tenet/device/cpu/random.hpp"

#include "../agreement.hpp"
#include "tenet/device/reference/random.hpp"

TEST_CASE("dropout masks have the bits of the reference", "[cpu][random]") {
  for (long count : {1L, 7L, 100003L}) {
    check_agreement(count, 0, [&](auto& executor, float* to) { run_dropout_mask(executor, count, 0.01f, 5, 9, to); });
    check_agreement(count, 0, [&](auto& executor, float* to) { run_dropout_mask(executor, count, 0.0f, 5, 9, to); });
  }
}
