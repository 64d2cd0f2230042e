#include "tenet/device/cpu/softmax.hpp"

#include "../agreement.hpp"
#include "tenet/device/reference/softmax.hpp"

TEST_CASE("softmax agrees with the reference", "[cpu][softmax]") {
  for (long rows : {1L, 3L, 400L}) {
    for (int columns : {1, 2, 10, 16, 17, 128, 1000}) {
      CAPTURE(rows, columns);
      auto x = random_floats(rows * columns, 1);
      for (float& value : x) value *= 30;
      for (int period : {0, 1, 5, columns, 3 * columns}) {
        CAPTURE(period);
        check_agreement(rows * columns, 1e-6,
                        [&](auto& executor, float* to) { run_softmax(executor, rows, columns, period, x.data(), to); });
      }
      x[0] += 1;  // a single column's log softmax is zero everywhere, which the check refuses
      if (columns == 1) continue;
      check_agreement(rows * columns, 1e-6,
                      [&](auto& executor, float* to) { run_log_softmax(executor, rows, columns, x.data(), to); });
    }
  }
}
