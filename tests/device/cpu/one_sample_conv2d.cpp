#include "tenet/device/cpu/one_sample_conv2d.hpp"

#include "../agreement.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using namespace tenet;

/// run(result) writes what expected_of(result) does, and nothing behind it.
template <class Expected, class Run>
void check_same(long size, Expected expected_of, Run run) {
  std::vector<float> expected(static_cast<std::size_t>(size)), found(expected.size() + 16, 7.0f);
  expected_of(expected.data());
  run(found.data());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(5e-5));
  for (std::size_t i = expected.size(); i < found.size(); ++i) CHECK(found[i] == 7.0f);
}

/// Forward pass and both gradients.
template <Conv2dGeometry g>
void check_one_sample() {
  CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.kernel_width, g.stride, g.padding);
  const auto input = random_floats(g.input_size(), 1), weight = random_floats(g.weight_size(), 2),
             upstream = random_floats(g.result_size(), 3);
  reference::Serial serial;
  cpu::Workers workers(1);
  check_same(
      g.result_size(), [&](float* to) { run_conv2d(serial, g, 1, input.data(), weight.data(), to); },
      [&](float* to) { cpu::run_conv2d_one_sample(workers, Known<g>{}, input.data(), weight.data(), to); });
  check_same(
      g.input_size(), [&](float* to) { run_conv2d_input_gradient(serial, g, 1, upstream.data(), weight.data(), to); },
      [&](float* to) {
        cpu::run_conv2d_input_gradient_one_sample(workers, Known<g>{}, upstream.data(), weight.data(), to);
      });
  check_same(
      g.weight_size(), [&](float* to) { run_conv2d_weight_gradient(serial, g, 1, input.data(), upstream.data(), to); },
      [&](float* to) {
        cpu::run_conv2d_weight_gradient_one_sample(workers, Known<g>{}, input.data(), upstream.data(), to);
      });
}

}  // namespace

TEST_CASE("the convolution of one sample and its gradients agree with the reference", "[cpu][one_sample_conv2d]") {
  constexpr Conv2dGeometry first{1, 28, 28, 6, 5, 5, 1, 2}, second{6, 14, 14, 16, 5, 5, 1, 0},
      thirteen{3, 9, 7, 13, 3, 3, 1, 1}, tiny{2, 3, 3, 5, 3, 3, 1, 0}, strided{2, 9, 9, 4, 3, 3, 2, 1},
      flat{5, 9, 7, 30, 3, 2, 1, 1}, wide{2, 9, 40, 3, 29, 29, 1, 14}, winograd{16, 6, 6, 16, 3, 3, 1, 1},
      many{40, 5, 5, 34, 3, 3, 1, 1}, uneven{2, 8, 9, 20, 5, 5, 1, 2};
  static_assert(cpu::one_sample_fits(first) && cpu::one_sample_fits(tiny) && !cpu::one_sample_fits(strided));
  // The gradient by the input is a convolution of the gradient of the result, where that is not too small; that by the
  // weight keeps the sums of some of a kernel's lines in registers, where they have room.
  static_assert(cpu::one_sample_fits(cpu::exchanged(second)) && !cpu::one_sample_fits(cpu::exchanged(tiny)));
  static_assert(cpu::detail::TapLines<flat>::fit && !cpu::detail::TapLines<wide>::fit);
  // Channels in the lanes where that takes less: some lines at a time and fewer in the end, two vectors, zeros around.
  constexpr Conv2dGeometry lines{3, 11, 11, vector_width - 1, 5, 5, 1, 0},
      two{3, 11, 11, 2 * vector_width - 1, 5, 5, 1, 0}, padded{4, 4, 4, 15, 3, 3, 1, 1};
  using cpu::detail::ChannelLines;
  static_assert(!ChannelLines<first>::pays && !ChannelLines<wide>::pays);
  static_assert(vector_width != 16 || (ChannelLines<second>::pays && ChannelLines<second>::lines == 2));
  static_assert(vector_width != 16 || (ChannelLines<lines>::pays && ChannelLines<lines>::rest == 1));
  static_assert(vector_width != 16 || (ChannelLines<two>::pays && ChannelLines<padded>::pays));
  check_one_sample<lines>();
  check_one_sample<two>();
  check_one_sample<padded>();
  check_one_sample<first>();
  check_one_sample<second>();
  check_one_sample<thirteen>();
  check_one_sample<tiny>();
  check_one_sample<strided>();
  check_one_sample<flat>();
  check_one_sample<wide>();
  check_one_sample<winograd>();
  check_one_sample<many>();
  check_one_sample<uneven>();
}

TEST_CASE("direct workers do not use Winograd's algorithm for one sample either", "[cpu][one_sample_conv2d]") {
  constexpr Conv2dGeometry g{19, 16, 16, 35, 3, 3, 1, 1};
  static_assert(cpu::winograd_fits(g) && cpu::batch_pays(g, 1));
  const auto input = random_floats(g.input_size(), 1), weight = random_floats(g.weight_size(), 2),
             upstream = random_floats(g.result_size(), 3);
  cpu::Workers any(1);
  cpu::DirectWorkers direct(1);
  const auto check = [&](long size, auto patches, auto one_sample) {
    std::vector<float> expected(static_cast<std::size_t>(size)), found(expected), by_winograd(expected);
    patches(expected.data());
    one_sample(direct, found.data());
    one_sample(any, by_winograd.data());
    CHECK(found == expected);
    CHECK(by_winograd != expected);
  };
  check(
      g.result_size(), [&](float* to) { run_conv2d(any, g, 1, input.data(), weight.data(), to); },
      [&](auto& workers, float* to) {
        cpu::run_conv2d_one_sample(workers, Known<g>{}, input.data(), weight.data(), to);
      });
  check(
      g.input_size(), [&](float* to) { run_conv2d_input_gradient(any, g, 1, upstream.data(), weight.data(), to); },
      [&](auto& workers, float* to) {
        cpu::run_conv2d_input_gradient_one_sample(workers, Known<g>{}, upstream.data(), weight.data(), to);
      });
  check(
      g.weight_size(), [&](float* to) { run_conv2d_weight_gradient(any, g, 1, input.data(), upstream.data(), to); },
      [&](auto& workers, float* to) {
        cpu::run_conv2d_weight_gradient_one_sample(workers, Known<g>{}, input.data(), upstream.data(), to);
      });
}
