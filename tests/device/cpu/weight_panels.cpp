#include "tenet/device/cpu/weight_panels.hpp"

#include "../../support/channels_last.hpp"

using tenet::Conv2dGeometry;
using namespace tenet::cpu;

TEST_CASE("panels of result channels hold each weight once, and zeros behind them", "[cpu][weight_panels]") {
  for (const Conv2dGeometry& g : channels_last::shapes) {
    const auto weight = random_floats(g.weight_size(), 1);
    std::vector<float> packed(static_cast<std::size_t>(packed_weights(g)), 7), expected(packed.size());
    run_pack_weights(pool(2), g, weight.data(), packed.data());
    const detail::PanelCut panels(g.out_channels);
    const long area = detail::kernel_area(g);
    for (long panel = 0; panel < panels.count; ++panel) {
      const long first = panels.first(panel), width = panels.width(panel);
      for (long o = first; o < std::min<long>(first + width, g.out_channels); ++o)
        for (long c = 0; c < g.channels; ++c)
          for (long tap = 0; tap < area; ++tap)
            expected[static_cast<std::size_t>(first * g.taps() + (tap * g.channels + c) * width + o - first)] =
                weight[static_cast<std::size_t>((o * g.channels + c) * area + tap)];
    }
    CHECK(packed == expected);
  }
}

TEST_CASE("panels of the image's channels hold each weight once", "[cpu][weight_panels]") {
  for (const Conv2dGeometry& g : channels_last::shapes) {
    const auto weight = random_floats(g.weight_size(), 1);
    std::vector<float> packed(static_cast<std::size_t>(detail::input_gradient_panels(g)), 7), expected(packed.size());
    const detail::PanelCut panels(g.channels);
    const long area = detail::kernel_area(g);
    for (long o = 0; o < g.out_channels; ++o)
      detail::pack_input_gradient_weights(g, o, weight.data() + o * g.taps(), packed.data());
    for (long panel = 0; panel < panels.count; ++panel) {
      const long first = panels.first(panel), width = panels.width(panel);
      for (long c = first; c < std::min<long>(first + width, g.channels); ++c) {
        for (long o = 0; o < g.out_channels; ++o) {
          for (long tap = 0; tap < area; ++tap) {
            const long to = first * area * g.out_channels + (tap * g.out_channels + o) * width + c - first;
            expected[static_cast<std::size_t>(to)] =
                weight[static_cast<std::size_t>((o * g.channels + c) * area + tap)];
          }
        }
      }
    }
    CHECK(packed == expected);
  }
}
