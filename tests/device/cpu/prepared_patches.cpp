#include "tenet/device/cpu/prepared_patches.hpp"

#include <algorithm>

#include "../../support/channels_last.hpp"
#include "../../support/image_order.hpp"
#include "../agreement.hpp"
#include "tenet/device/cpu/conv2d_channels_last.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using namespace tenet;

/// Against the reference, with an epilogue that doubles each element once, of images in one order.
void check_prepared(const Conv2dGeometry& g, int batch, bool channels_last) {
  CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.stride, g.padding, batch, channels_last);
  auto input = random_floats(batch * g.input_size(), 1);
  const auto weight = random_floats(g.weight_size(), 2);
  std::vector<float> expected(static_cast<std::size_t>(batch * g.result_size())), first;
  reference::Serial serial;
  run_conv2d(serial, g, batch, input.data(), weight.data(), expected.data());
  if (channels_last) {
    input = image_order::channels_last(input, g.channels, long{1} * g.height * g.width);
    expected = image_order::channels_last(expected, g.out_channels, g.positions());
  }
  for (const int threads : {1, 2, 3}) {
    cpu::Workers workers(threads);
    std::vector<float> prepared(static_cast<std::size_t>(cpu::packed_weights(g)), 9.0f);
    cpu::run_pack_weights(workers, g, weight.data(), prepared.data());
    std::vector<float> found(expected.size());
    const Epilogue doubled{[](const void* state, long from, long to) {
                             float* const all = static_cast<float*>(const_cast<void*>(state));
                             for (long i = from; i < to; ++i) all[i] *= 2;
                           },
                           found.data()};
    cpu::run_conv2d_prepared_patches(workers, g, batch, input.data(), prepared.data(), found.data(), doubled,
                                     channels_last);
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      worst = std::fmax(worst, std::fabs(double{found[i]} - 2 * expected[i]));
    CHECK(worst < 1e-5 * std::sqrt(static_cast<double>(g.taps())));
    if (threads == 1) first = found;
    CHECK(found == first);
  }
}

void check_prepared(const Conv2dGeometry& g, int batch) {
  check_prepared(g, batch, false);
  check_prepared(g, batch, true);
}

/// Pairs of bfloat16 as the factors, of images of such or of floats, which are rounded: each a little above what it is
/// rounded to.
void check_bfloat16(const Conv2dGeometry& g, int batch) {
  CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.stride, g.padding, batch);
  const channels_last::Factors<bfloat16> factors(g, batch);
  std::vector<float> above =
      image_order::channels_last(factors.input.standard, g.channels, long{1} * g.height * g.width);
  for (float& value : above) value *= 1.001f;
  const Conv2dGeometry pairs = cpu::of_factors<bfloat16>(g);
  std::vector<float> prepared(static_cast<std::size_t>(cpu::packed_weights(pairs))), room(prepared.size());
  cpu::run_pack_weights(pool(1), pairs,
                        cpu::detail::paired_channels(pool(1), g, factors.weight.last.data(), room.data()),
                        prepared.data());
  const auto check = [&](const auto& images) {
    channels_last::check_image(
        batch, g.out_channels, g.positions(), channels_last::tolerance(g.taps()),
        [&](auto& executor, float* to) {
          run_conv2d(executor, g, batch, factors.input.standard.data(), factors.weight.standard.data(), to);
        },
        [&](auto& workers, float* to) {
          cpu::run_conv2d_prepared_patches<bfloat16>(workers, g, batch, images.data(), prepared.data(), to, {}, true);
        });
  };
  check(factors.input.last);
  check(above);
}

}  // namespace

TEST_CASE("convolutions with prepared weights agree with the reference", "[cpu][prepared_patches]") {
  for (const int batch : {1, 3, 17}) {
    check_prepared({1, 9, 7, 5, 3, 3, 1, 1}, batch);
    check_prepared({3, 10, 11, 50, 5, 5, 2, 2}, batch);
    check_prepared({17, 8, 8, 97, 1, 1, 2, 0}, batch);
    check_prepared({20, 7, 7, 33, 3, 3, 1, 1}, batch);
    check_prepared({64, 6, 5, 48, 3, 3, 2, 1}, batch);
    check_prepared({4, 3, 3, 16, 3, 3, 1, 0}, batch);
  }
  check_prepared({16, 28, 28, 64, 3, 3, 2, 1}, 33);
  check_prepared({130, 4, 4, 130, 3, 3, 1, 1}, 5);
  check_prepared({64, 14, 14, 40, 3, 3, 2, 1}, 17);  // more patches than the second-level cache holds
}

TEST_CASE("convolutions with prepared weights of bfloat16 agree with the reference", "[cpu][prepared_patches]") {
  for (const int batch : {1, 3, 17}) {
    check_bfloat16({4, 10, 11, 50, 5, 5, 2, 2}, batch);
    check_bfloat16({18, 8, 8, 97, 1, 1, 2, 0}, batch);
    check_bfloat16({20, 7, 7, 33, 3, 3, 1, 1}, batch);
    check_bfloat16({64, 6, 5, 48, 3, 3, 2, 1}, batch);
  }
  check_bfloat16({130, 4, 4, 130, 3, 3, 1, 1}, 5);
  check_bfloat16({128, 14, 14, 40, 3, 3, 2, 1}, 17);
}
