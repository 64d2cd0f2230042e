// Against values worked out by hand.
#include "tenet/device/reference/random.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace {

using Floats = std::vector<float>;
tenet::reference::Serial serial;

}  // namespace

TEST_CASE("reference dropout masks", "[reference]") {
  Floats mask(100000), again(100000);
  const float drop = 0.25f;
  const std::int32_t seed[]{3, 0}, large[]{3, 1};
  run_dropout_mask(serial, 100000, &drop, seed, 4, mask.data());
  run_dropout_mask(serial, 99999, &drop, seed, 4, again.data());
  long dropped = 0, other = 0;
  for (float value : mask) {
    dropped += value == 0;
    other += value != 0 && value != 1 / 0.75f;
  }
  CHECK(static_cast<double>(dropped) / 100000 == Approx(0.25).margin(0.005));
  CHECK(other == 0);
  CHECK(std::equal(mask.begin(), mask.end() - 1, again.begin()));
  run_dropout_mask(serial, 100000, &drop, seed, 5, again.data());
  CHECK(mask != again);
  run_dropout_mask(serial, 100000, &drop, large, 4, again.data());
  CHECK(mask != again);  // the seed's upper half counts
  CHECK((mask[0] == 0) == (tenet::unit_float(tenet::philox(0, 3, 4)[0]) < 0.25f));
}
