#include "tenet/device/cpu/lane_weight_pass.hpp"

#include "../agreement.hpp"

using namespace tenet;
using namespace tenet::cpu::detail;

TEST_CASE("lanes are added up, for any number of rows", "[cpu][lane_weight_pass]") {
  for (const long count : {1, 3, 4, 5, 18}) {
    const auto from = random_floats((count + 3) * sample_lanes, 1);
    std::vector<float> to(static_cast<std::size_t>(count) + 1, 5);
    sum_lanes(from.data(), count, to.data());
    for (long i = 0; i < count; ++i) {
      double sum = 0;
      for (long lane = 0; lane < sample_lanes; ++lane) sum += double{from[static_cast<std::size_t>(i * 16 + lane)]};
      CHECK(to[static_cast<std::size_t>(i)] == Approx(sum).margin(1e-5));
    }
    CHECK(to.back() == 5);
  }
}

TEST_CASE("a batch is cut into at most eight parts of whole groups", "[cpu][lane_weight_pass]") {
  CHECK(lane_weight_parts(1) == 1);
  CHECK(lane_weight_parts(17) == 2);
  CHECK(lane_weight_parts(1000) == 8);
}
