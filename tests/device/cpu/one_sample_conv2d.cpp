#include "tenet/device/cpu/one_sample_conv2d.hpp"

#include "../agreement.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using namespace tenet;

template <Conv2dGeometry g>
void check_one_sample() {
  CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.padding, cpu::long_row_fits(g));
  const auto input = random_floats(g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
  std::vector<float> expected(static_cast<std::size_t>(g.result_size())), found(expected.size() + 16, 7.0f);
  reference::Serial serial;
  run_conv2d(serial, g, 1, input.data(), weight.data(), expected.data());
  cpu::Workers workers(1);
  cpu::run_conv2d_one_sample(workers, Known<g>{}, input.data(), weight.data(), found.data());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(2e-5));
  for (std::size_t i = expected.size(); i < found.size(); ++i) CHECK(found[i] == 7.0f);
}

}  // namespace

TEST_CASE("the convolution of one sample agrees with the reference", "[cpu][one_sample_conv2d]") {
  constexpr Conv2dGeometry first{1, 28, 28, 6, 5, 5, 1, 2}, second{6, 14, 14, 16, 5, 5, 1, 0},
      thirteen{3, 9, 7, 13, 3, 3, 1, 1}, tiny{2, 3, 3, 5, 3, 3, 1, 0}, strided{2, 9, 9, 4, 3, 3, 2, 1};
  static_assert(cpu::long_row_fits(first) && cpu::long_row_fits(tiny) && !cpu::long_row_fits(strided));
  check_one_sample<first>();
  check_one_sample<second>();
  check_one_sample<thirteen>();
  check_one_sample<tiny>();
  check_one_sample<strided>();
}
