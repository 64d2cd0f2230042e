#include "agreement.hpp"
#include "tenet/device/cuda/random.hpp"
#include "tenet/device/reference/random.hpp"

TEST_CASE("dropout masks have the bits of the reference", "[cuda][random]") {
  for (const long count : {1L, 7L, 32L, 256L, 1000L, 100003L})
    for (const float probability : {0.01f, 0.0f, 0.6f}) {
      CAPTURE(count, probability);
      const std::vector<float> drop{probability};
      const std::vector<std::int32_t> seed{1, 5}, other{-1, 0};
      check_agreement(count, 0, [&](auto& place, float* to) {
        run_dropout_mask(place.executor, count, place.in(drop), place.in(seed), 9, to);
      });
      if (count == 1) continue;
      check_agreement(count, 0, [&](auto& place, float* to) {  // at an address that is no multiple of 16
        run_dropout_mask(place.executor, 1, place.in(drop), place.in(other), 0, to);
        run_dropout_mask(place.executor, count - 1, place.in(drop), place.in(other), 1, to + 1);
      });
    }
}
