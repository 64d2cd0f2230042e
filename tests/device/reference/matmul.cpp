// Against values worked out by hand.
#include "tenet/device/reference/matmul.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace {

using Floats = std::vector<float>;
tenet::reference::Serial serial;

}  // namespace

TEST_CASE("reference products", "[reference]") {
  const Floats a{1, 2, 3, 4, 5, 6}, b{1, 0, 2, -1, 3, 1};  // [2, 3] and [3, 2]
  Floats c(4);
  run_matmul(serial, {1, 2, 2, 3, false, false, 0, 0}, a.data(), b.data(), c.data());
  CHECK(c == Floats{14, 1, 32, 1});
  const Floats a_transposed{1, 4, 2, 5, 3, 6}, b_transposed{1, 2, 3, 0, -1, 1};
  run_matmul(serial, {1, 2, 2, 3, true, true, 0, 0}, a_transposed.data(), b_transposed.data(), c.data());
  CHECK(c == Floats{14, 1, 32, 1});
  Floats two(2);  // a batch of two products [1, 3] * [3, 1] that share the right operand
  run_matmul(serial, {2, 1, 1, 3, false, false, 3, 0}, a.data(), a.data(), two.data());
  CHECK(two == Floats{14, 32});
  run_matmul(serial, {2, 1, 1, 3, false, false, 3, 0, true}, a.data(), a.data(), two.data());
  CHECK(two[0] == 46);
}

TEST_CASE("reference products with nothing to sum are zero", "[reference]") {
  Floats c{1, 2, 3, 4, 5, 6};
  run_matmul(serial, {1, 2, 3, 0, false, false, 0, 0}, c.data(), c.data(), c.data());
  CHECK(c == Floats(6));
}
