#include "tenet/device/cpu/conv2d_samples_last.hpp"

#include "../../support/lane_passes.hpp"

using tenet::Conv2dGeometry;
using tenet::cpu::detail::LanePass;

TEST_CASE("convolutions with samples in the lanes agree with the reference", "[cpu][conv2d_samples_last]") {
  convolutions::for_each(convolutions::of_few_channels, {1, 3, 17, 33}, [](const Conv2dGeometry& g, int batch) {
    lane_passes::check_pass(LanePass{g, false}, false, batch, 2e-6);
  });
}

TEST_CASE("gradients by the input with samples in the lanes agree with the reference", "[cpu][conv2d_samples_last]") {
  convolutions::for_each(convolutions::of_few_channels, {1, 3, 17, 33}, [](const Conv2dGeometry& g, int batch) {
    lane_passes::check_pass(LanePass{g, true}, true, batch, 2e-6);
  });
}

TEST_CASE("convolutions with samples in the lanes give the same bits in any bands", "[cpu][conv2d_samples_last]") {
  for (const bool gradient : {false, true}) {
    lane_passes::check_bands(LanePass{{6, 14, 14, 16, 5, 5, 1, 0}, gradient});
    lane_passes::check_bands(LanePass{{4, 13, 11, 9, 3, 3, 2, 1}, gradient});
  }
}

TEST_CASE("convolutions with samples in the lanes need the scratch memory they say", "[cpu][conv2d_samples_last]") {
  constexpr Conv2dGeometry g{1, 28, 28, 6, 5, 5, 1, 2};
  static_assert(scratch_lane_pass(LanePass{g, false}, tenet::Layout::samples_last) < 512);
  static_assert(scratch_lane_pass(LanePass{g, true}, tenet::Layout::samples_last) < 1024);
  static_assert(scratch_lane_pass(LanePass{g, false}, tenet::Layout::standard) >
                16 * (g.input_size() + g.result_size()));
  CHECK(tenet::cpu::few_channels_fits(g));
  CHECK_FALSE(tenet::cpu::few_channels_fits({64, 28, 28, 64, 3, 3, 1, 1}));
}
