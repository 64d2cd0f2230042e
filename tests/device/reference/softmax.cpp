// Against values worked out by hand.
#include "tenet/device/reference/softmax.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace {

using Floats = std::vector<float>;
tenet::reference::Serial serial;

}  // namespace

TEST_CASE("reference softmax", "[reference]") {
  const Floats x{1000, 1000 + std::log(3.0f), 0, 0, 5, 5};
  Floats y(6);
  run_softmax(serial, 3, 2, 0, x.data(), y.data());
  CHECK(y[0] == Approx(0.25).epsilon(1e-4));
  CHECK(y[1] == Approx(0.75).epsilon(1e-4));
  CHECK(y[4] == 0.5f);
  run_softmax(serial, 3, 2, 2, x.data(), y.data());  // rows see 1, 2 and 1 columns
  CHECK(y == Floats{1, 0, 0.5f, 0.5f, 1, 0});
  run_log_softmax(serial, 3, 2, x.data(), y.data());
  CHECK(y[0] == Approx(std::log(0.25)).epsilon(1e-4));
  CHECK(y[3] == Approx(-std::log(2.0)));
}
