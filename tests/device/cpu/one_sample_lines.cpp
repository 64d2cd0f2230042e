#include "tenet/device/cpu/one_sample_lines.hpp"

#include "../../support/convolutions.hpp"
#include "tenet/device/cpu/one_sample_conv2d.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using namespace tenet;

/// The algorithm against the reference, whether it pays or not; it writes nothing behind its room.
template <Conv2dGeometry g>
void check_lines() {
  CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.padding);
  const auto input = random_floats(g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
  std::vector<float> room(static_cast<std::size_t>(cpu::detail::OneSampleLines<g>::floats) + 16, 7.0f);
  const double error = convolutions::relative_error(
      g.result_size(), [&](auto& serial, float* to) { run_conv2d(serial, g, 1, input.data(), weight.data(), to); },
      [&](cpu::Workers&, float* to) { cpu::detail::convolve_lines<g>(input.data(), weight.data(), to, room.data()); });
  CHECK(error < 1e-5);
  CHECK(std::count(room.end() - 16, room.end(), 7.0f) == 16);
}

}  // namespace

TEST_CASE("the convolution of one sample along the lines agrees with the reference", "[cpu][one_sample_lines]") {
  check_lines<Conv2dGeometry{6, 14, 14, 16, 5, 5, 1, 0}>();
  check_lines<Conv2dGeometry{5, 9, 7, 13, 5, 5, 1, 2}>();    // channels that do not fill a vector, a last tile of three
  check_lines<Conv2dGeometry{4, 13, 28, 30, 3, 3, 1, 1}>();  // two vectors of channels, several groups of tiles
  check_lines<Conv2dGeometry{3, 6, 19, 5, 3, 3, 1, 2}>();    // a group of tiles that is not full
  check_lines<Conv2dGeometry{7, 2, 3, 9, 5, 5, 1, 4}>();     // smaller than the kernel
}

TEST_CASE("one sample goes along the lines where that multiplies least", "[cpu][one_sample_lines]") {
  using cpu::detail::one_sample_lines_pay;
  constexpr bool wide = vector_width == sample_lanes;
  constexpr Conv2dGeometry second{6, 14, 14, 16, 5, 5, 1, 0}, first{1, 28, 28, 6, 5, 5, 1, 2},
      few{6, 14, 14, 4, 5, 5, 1, 0};
  CHECK(one_sample_lines_pay<cpu::Workers, second>() == wide);
  CHECK_FALSE(one_sample_lines_pay<cpu::DirectWorkers, second>());
  CHECK_FALSE(one_sample_lines_pay<cpu::Workers, first>());
  CHECK_FALSE(one_sample_lines_pay<cpu::Workers, few>());  // four channels of sixteen lanes
}
