// Against values worked out by hand.
#include "tenet/device/reference/cross_entropy.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace {

using Floats = std::vector<float>;
tenet::reference::Serial serial;

}  // namespace

TEST_CASE("reference cross entropy", "[reference]") {
  const Floats logits{0, 0, 1, 1, 3, 2, 0, 7};  // [4, 2]
  const std::int32_t labels[] = {1, 0, 1, 2};
  Floats loss(4), correct(4), gradient(8);
  run_cross_entropy(serial, 4, 2, logits.data(), labels, loss.data());
  CHECK(loss[0] == Approx(std::log(2.0)));
  CHECK(loss[2] == Approx(1 + std::log(1 + std::exp(-1.0))));
  CHECK(std::isnan(loss[3]));
  run_correct(serial, 4, 2, logits.data(), labels, correct.data());
  CHECK(correct == Floats{0, 1, 0, 0});  // the first maximum wins
  const Floats upstream{2, 4, 1, 1};
  run_cross_entropy_gradient(serial, 4, 2, logits.data(), labels, upstream.data(), gradient.data());
  CHECK(gradient[0] == 1);
  CHECK(gradient[1] == -1);
  CHECK(gradient[2] == -2);
  CHECK(gradient[4] == Approx(1 / (1 + std::exp(-1.0))));
  CHECK(gradient[5] == Approx(-gradient[4]));
  CHECK(std::isnan(gradient[6]));
}
