#include "tenet/device/cpu/lanes.hpp"

#include <catch2/catch.hpp>

TEST_CASE("a row is visited in vectors, the last one shorter", "[cpu][lanes]") {
  constexpr int most = 3 * tenet::vector_width + 2;
  float from[most], to[most];
  for (int i = 0; i < most; ++i) from[i] = static_cast<float>(i + 1);
  for (int columns = 0; columns <= most; ++columns) {
    for (float& number : to) number = -1;
    int next = 0;
    tenet::cpu::detail::for_each_vector(columns, [&](int c, int lanes) {
      CHECK(c == next);
      CHECK((lanes == tenet::vector_width || c + lanes == columns));
      next = c + lanes;
      tenet::cpu::detail::store_lanes(to + c, tenet::cpu::detail::load_lanes(from + c, lanes), lanes);
    });
    CHECK(next == columns);
    for (int i = 0; i < most; ++i) CHECK(to[i] == (i < columns ? from[i] : -1.0f));
  }
}
