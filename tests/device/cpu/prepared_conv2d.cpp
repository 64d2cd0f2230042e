#include "tenet/device/cpu/prepared_conv2d.hpp"

#include "../../support/channels_last.hpp"
#include "../agreement.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using namespace tenet;

constexpr const cpu::Workers* nobody = nullptr;
constexpr Conv2dGeometry one_channel{1, 28, 28, 64, 3, 3, 1, 1}, lenet{6, 14, 14, 16, 5, 5, 1, 0};
static_assert(cpu::prepared_conv2d_weight(nobody, Known<one_channel>{}, 0.0f) == 0);
static_assert(cpu::prepared_conv2d_weight(nobody, Known<lenet>{}, 0.0f) == 0);

void check_close(const std::vector<float>& found, const std::vector<float>& expected) {
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    worst = std::fmax(worst, std::fabs(double{found[i]} - expected[i]));
    largest = std::fmax(largest, std::fabs(double{expected[i]}));
  }
  CHECK(worst <= 1e-5 * largest);
}

/// Weights are prepared once, for batches of any size.
template <Conv2dGeometry g>
void check_prepared() {
  const auto weight = random_floats(g.weight_size(), 2);
  reference::Serial serial;
  cpu::Workers workers(2);
  std::vector<float> prepared(static_cast<std::size_t>(cpu::prepared_conv2d_weight(nobody, Known<g>{}, 0.0f)));
  REQUIRE(!prepared.empty());
  cpu::run_prepare_conv2d_weight(workers, Known<g>{}, 0.0f, weight.data(), prepared.data());
  for (const int batch : {1, 2, 3, 33, 1}) {
    if (!convolutions::is_run(g, batch)) continue;
    CAPTURE(g.channels, g.height, g.out_channels, g.stride, batch, cpu::prepared_by_winograd(g, batch));
    const auto input = random_floats(batch * g.input_size(), 1);
    std::vector<float> expected(static_cast<std::size_t>(batch * g.result_size())), found(expected.size());
    run_conv2d(serial, g, batch, input.data(), weight.data(), expected.data());
    check_workspace(workspace_prepared_conv2d(nobody, Known<g>{}, 0.0f, batch), [&](cpu::Workers& lent) {
      cpu::run_prepared_conv2d(lent, Known<g>{}, 0.0f, batch, input.data(), prepared.data(), found.data());
    });
    check_close(found, expected);
    if constexpr (cpu::takes_channels_last<cpu::Workers>(g)) {
      const auto turned = image_order::channels_last(input, g.channels, long{1} * g.height * g.width);
      check_workspace(workspace_prepared_conv2d(nobody, ImagesChannelsLast{}, Known<g>{}, 0.0f, batch),
                      [&](cpu::Workers& lent) {
                        cpu::run_prepared_conv2d(lent, ImagesChannelsLast{}, Known<g>{}, 0.0f, batch, turned.data(),
                                                 prepared.data(), found.data());
                      });
      check_close(image_order::channels_first(found.data(), batch, g.out_channels, g.positions()), expected);
    }
  }
}

/// Weights prepared as bfloat16, for images of type Number with their channels last: what the rounded numbers give.
template <Conv2dGeometry g, class Number>
void check_bfloat16() {
  constexpr bfloat16 factor{};
  constexpr long floats = cpu::detail::forward_weights(cpu::detail::of_pairs(g));
  if constexpr (cpu::prepares_bfloat16<cpu::Workers>(g))
    static_assert(cpu::prepared_conv2d_weight(nobody, Known<g>{}, factor) == floats);
  std::vector<float> prepared(static_cast<std::size_t>(floats));
  for (const int batch : {1, 2, 3, 33}) {
    if (!convolutions::is_run(g, batch)) continue;
    CAPTURE(g.channels, g.height, g.out_channels, g.stride, batch, cpu::prepared_by_winograd(g, batch));
    const channels_last::Factors<bfloat16> factors(g, batch);
    cpu::run_prepare_conv2d_weight(pool(2), Known<g>{}, factor, factors.weight.standard.data(), prepared.data());
    const std::vector<float> images =
        image_order::channels_last(factors.input.standard, g.channels, long{1} * g.height * g.width);
    const Number* input;
    if constexpr (std::is_same_v<Number, float>)
      input = images.data();
    else
      input = factors.input.last.data();
    std::vector<float> found(static_cast<std::size_t>(batch * g.result_size()));
    check_workspace(workspace_prepared_conv2d(nobody, ImagesChannelsLast{}, Known<g>{}, factor, batch),
                    [&](cpu::Workers& lent) {
                      cpu::detail::prepared_channels_last<cpu::Workers, g, bfloat16>(lent, batch, input,
                                                                                     prepared.data(), found.data(), {});
                    });
    const double error = convolutions::relative_error(
        batch * g.result_size(),
        [&](auto& executor, float* to) {
          std::vector<float> standard(found.size());
          run_conv2d(executor, g, batch, factors.input.standard.data(), factors.weight.standard.data(),
                     standard.data());
          std::ranges::copy(image_order::channels_last(standard, g.out_channels, g.positions()), to);
        },
        [&](cpu::Workers& workers, float* to) {
          cpu::detail::prepared_channels_last<cpu::Workers, g, bfloat16>(workers, batch, input, prepared.data(), to,
                                                                         {});
        });
    CHECK(error < 1e-5);
  }
}

}  // namespace

TEST_CASE("prepared weights agree with the reference whatever the batch", "[cpu][prepared_conv2d]") {
  constexpr Conv2dGeometry tiles{32, 7, 7, 48, 3, 3, 1, 1}, many{260, 4, 4, 512, 3, 3, 1, 1},
      stride{16, 9, 9, 40, 3, 3, 2, 1}, point{70, 8, 8, 33, 1, 1, 2, 0}, lines{64, 4, 4, 80, 3, 3, 1, 1};
  check_prepared<tiles>();  // patches, or Winograd of few tiles, for one sample, Winograd for more
  check_prepared<many>();
  check_prepared<stride>();
  check_prepared<point>();
  check_prepared<lines>();
}

TEST_CASE("weights prepared as bfloat16 agree with the reference whatever the batch", "[cpu][prepared_conv2d]") {
  check_bfloat16<Conv2dGeometry{32, 7, 7, 48, 3, 3, 1, 1}, float>();  // patches for one sample, Winograd for more
  check_bfloat16<Conv2dGeometry{80, 9, 9, 144, 3, 3, 1, 1}, float>();
  check_bfloat16<Conv2dGeometry{64, 28, 28, 64, 3, 3, 1, 1}, float>();  // transformed before, or where they are used
  check_bfloat16<Conv2dGeometry{16, 19, 9, 48, 3, 3, 2, 1}, bfloat16>();
  check_bfloat16<Conv2dGeometry{80, 8, 8, 32, 1, 1, 2, 0}, bfloat16>();
}
