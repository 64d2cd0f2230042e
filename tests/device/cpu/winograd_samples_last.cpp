#include "tenet/device/cpu/winograd_samples_last.hpp"

#include "../../support/lane_passes.hpp"

using tenet::Conv2dGeometry;
using tenet::cpu::detail::WinogradLanePass;

namespace {

/// Calls check(pass) with the pass of a shape, of those whose sums fill the registers.
template <bool gradient, class Check>
void with_pass(const Conv2dGeometry& g, Check check) {
  const int rows = gradient ? g.channels : g.out_channels;
  if (g.kernel_height == 5)
    check(WinogradLanePass<5, gradient, 3>{g});
  else if (tenet::cpu::detail::winograd_lane_block(6, rows) == 4)
    check(WinogradLanePass<3, gradient, 4>{g});
  else
    check(WinogradLanePass<3, gradient, 3>{g});
}

}  // namespace

TEST_CASE("convolutions along the lines agree with the reference", "[cpu][winograd_samples_last]") {
  convolutions::for_each(lane_passes::by_lines, {1, 3, 17, 33}, [](const Conv2dGeometry& g, int batch) {
    with_pass<false>(g, [&](auto pass) { lane_passes::check_pass(pass, false, batch, 1e-5); });
    with_pass<true>(g, [&](auto pass) { lane_passes::check_pass(pass, true, batch, 1e-5); });
  });
}

TEST_CASE("convolutions along the lines give the same bits in any bands", "[cpu][winograd_samples_last]") {
  for (const Conv2dGeometry& g : lane_passes::by_lines) {
    CAPTURE(g.channels, g.height, g.width, g.kernel_height, g.padding);
    with_pass<false>(g, [](auto pass) { lane_passes::check_bands(pass); });
    with_pass<true>(g, [](auto pass) { lane_passes::check_bands(pass); });
  }
}

TEST_CASE("convolutions along the lines serve where they multiply much less", "[cpu][winograd_samples_last]") {
  using tenet::cpu::winograd_in_lanes_fits;
  constexpr bool wide = tenet::vector_width == tenet::sample_lanes;
  CHECK(winograd_in_lanes_fits({6, 14, 14, 16, 5, 5, 1, 0}) == wide);
  CHECK(winograd_in_lanes_fits({8, 28, 28, 16, 3, 3, 1, 1}) == wide);
  CHECK_FALSE(winograd_in_lanes_fits({1, 28, 28, 6, 5, 5, 1, 2}));   // one channel: transforms are all there is
  CHECK_FALSE(winograd_in_lanes_fits({8, 5, 5, 8, 3, 3, 1, 1}));     // three of eight results are outside
  CHECK_FALSE(winograd_in_lanes_fits({8, 28, 28, 16, 3, 3, 2, 1}));  // stride
  CHECK_FALSE(winograd_in_lanes_fits({8, 28, 28, 16, 5, 3, 1, 1}));  // not square
  CHECK_FALSE(winograd_in_lanes_fits({8, 28, 28, 16, 7, 7, 1, 3}));  // seven taps
  CHECK_FALSE(winograd_in_lanes_fits({8, 28, 28, 16, 3, 3, 1, 3}));  // results of nothing but padding
}
