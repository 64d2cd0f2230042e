#include "tenet/device/cpu/cross_entropy.hpp"

#include "../agreement.hpp"
#include "tenet/device/reference/cross_entropy.hpp"

TEST_CASE("cross entropy agrees with the reference", "[cpu][cross_entropy]") {
  for (long rows : {1L, 5L, 700L}) {
    for (int classes : {2, 10, 16, 33, 1000}) {
      CAPTURE(rows, classes);
      auto logits = random_floats(rows * classes, 1);
      for (float& value : logits) value = std::round(value * 20);     // with equal largest elements
      const auto labels = random_integers(rows, -1, classes + 1, 2);  // some out of range
      const auto upstream = random_floats(rows, 3);
      check_agreement(rows, 2e-6, [&](auto& executor, float* to) {
        run_cross_entropy(executor, rows, classes, logits.data(), labels.data(), to);
      });
      check_agreement(rows * classes, 1e-6, [&](auto& executor, float* to) {
        run_cross_entropy_gradient(executor, rows, classes, logits.data(), labels.data(), upstream.data(), to);
      });
      if (rows < 700 || classes > 100) continue;  // no row would be right
      check_agreement(rows, 0, [&](auto& executor, float* to) {
        run_correct(executor, rows, classes, logits.data(), labels.data(), to);
      });
    }
  }
}
