#include "tenet/device/cpu/embedding.hpp"

#include "../agreement.hpp"
#include "tenet/device/reference/embedding.hpp"

TEST_CASE("embedding agrees with the reference", "[cpu][embedding]") {
  for (int width : {1, 16, 37, 128}) {
    for (long count : {3L, 1000L}) {
      CAPTURE(width, count);
      const int rows = 50;
      const auto tokens = random_integers(count, -1, rows + 1, 1);
      const auto table = random_floats(rows * width, 2), upstream = random_floats(count * width, 3);
      check_agreement(count * width, 0, [&](auto& executor, float* to) {
        run_embedding(executor, count, width, rows, tokens.data(), table.data(), to);
      });
      check_agreement(rows * width, 0, [&](auto& executor, float* to) {
        run_embedding_gradient(executor, count, width, rows, tokens.data(), upstream.data(), to);
      });
    }
  }
}
