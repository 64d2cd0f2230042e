// Against values worked out by hand.
#include "tenet/device/reference/copy.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace {

using Floats = std::vector<float>;
tenet::reference::Serial serial;

}  // namespace

TEST_CASE("reference copies and sums", "[reference]") {
  const Floats x{1, 2, 3, 4, 5, 6};
  Floats y(6);
  run_strided_copy(serial, {2, {3, 2}, {1, 3}, {2, 1}, 0, 0, false}, 1, x.data(), y.data());  // transposed
  CHECK(y == Floats{1, 4, 2, 5, 3, 6});
  run_strided_copy(serial, {1, {1}, {2}, {1}, 1, 3, true}, 3, x.data(), y.data());  // three samples
  CHECK(y == Floats{1, 4, 2, 2, 4, 6});
  Floats sums(3, 100.0f);
  run_strided_sum(serial, {2, {1, 2}, {2, 1}, {0, 1}, 0, 1, true}, 3, x.data(), sums.data(), 3);
  CHECK(sums == Floats{0, 9, 12});
}
