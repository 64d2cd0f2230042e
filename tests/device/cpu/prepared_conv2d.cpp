#include "tenet/device/cpu/prepared_conv2d.hpp"

#include "../agreement.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using namespace tenet;

constexpr const cpu::Workers* nobody = nullptr;
constexpr Conv2dGeometry one_channel{1, 28, 28, 64, 3, 3, 1, 1}, lenet{6, 14, 14, 16, 5, 5, 1, 0};
static_assert(cpu::prepared_conv2d_weight(nobody, Known<one_channel>{}) == 0);
static_assert(cpu::prepared_conv2d_weight(nobody, Known<lenet>{}) == 0);

/// Weights are prepared once, for batches of any size.
template <Conv2dGeometry g>
void check_prepared() {
  const auto weight = random_floats(g.weight_size(), 2);
  reference::Serial serial;
  cpu::Workers workers(2);
  std::vector<float> prepared(static_cast<std::size_t>(cpu::prepared_conv2d_weight(nobody, Known<g>{})));
  REQUIRE(!prepared.empty());
  cpu::run_prepare_conv2d_weight(workers, Known<g>{}, weight.data(), prepared.data());
  for (const int batch : {1, 2, 3, 33, 1}) {
    CAPTURE(g.channels, g.height, g.out_channels, g.stride, batch, cpu::prepared_by_winograd(g, batch));
    const auto input = random_floats(batch * g.input_size(), 1);
    std::vector<float> expected(static_cast<std::size_t>(batch * g.result_size())), found(expected.size());
    run_conv2d(serial, g, batch, input.data(), weight.data(), expected.data());
    check_workspace(workspace_prepared_conv2d(nobody, Known<g>{}, batch), [&](cpu::Workers& lent) {
      cpu::run_prepared_conv2d(lent, Known<g>{}, batch, input.data(), weight.data(), prepared.data(), found.data());
    });
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      worst = std::fmax(worst, std::fabs(double{found[i]} - expected[i]));
      largest = std::fmax(largest, std::fabs(double{expected[i]}));
    }
    CHECK(worst <= 1e-5 * largest);
  }
}

}  // namespace

TEST_CASE("prepared weights agree with the reference whatever the batch", "[cpu][prepared_conv2d]") {
  constexpr Conv2dGeometry tiles{32, 7, 7, 48, 3, 3, 1, 1}, many{260, 4, 4, 512, 3, 3, 1, 1},
      stride{16, 9, 9, 40, 3, 3, 2, 1}, point{70, 8, 8, 33, 1, 1, 2, 0};
  check_prepared<tiles>();  // patches for one sample, Winograd for more
  check_prepared<many>();
  check_prepared<stride>();
  check_prepared<point>();
}
