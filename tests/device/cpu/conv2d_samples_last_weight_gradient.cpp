#include "tenet/device/cpu/conv2d_samples_last_weight_gradient.hpp"

#include "../../support/lane_passes.hpp"

using tenet::Conv2dGeometry;
using tenet::cpu::detail::LaneWeightPass;

TEST_CASE("gradients by the weight with samples in the lanes agree with the reference",
          "[cpu][conv2d_samples_last_weight_gradient]") {
  convolutions::for_each(
      convolutions::of_few_channels, {1, 3, 16, 17, 33, 150},
      [](const Conv2dGeometry& g, int batch) { lane_passes::check_weight_pass(LaneWeightPass{g}, batch); });
}

TEST_CASE("gradients by the weight with samples in the lanes need the scratch memory they say",
          "[cpu][conv2d_samples_last_weight_gradient]") {
  constexpr Conv2dGeometry g{1, 28, 28, 6, 5, 5, 1, 2};
  static_assert(scratch_lane_weight_pass(LaneWeightPass{g}, tenet::Layout::samples_last) < 16 * 1024);
  CHECK(scratch_lane_weight_pass(LaneWeightPass{g}, tenet::Layout::standard) ==
        scratch_lane_weight_pass(LaneWeightPass{g}, tenet::Layout::samples_last) +
            16 * (g.input_size() + g.result_size()));
}
