#include "tenet/device/cpu/conv2d_samples_last_weight_gradient.hpp"

#include <type_traits>

#include "../../support/convolutions.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using tenet::Conv2dGeometry;

}  // namespace

TEST_CASE("gradients by the weight with samples in the lanes agree with the reference",
          "[cpu][conv2d_samples_last_weight_gradient]") {
  convolutions::for_each(
      convolutions::of_few_channels, {1, 3, 16, 17, 33, 150}, [](const Conv2dGeometry& g, int batch) {
        const auto x = random_floats(batch * g.input_size(), 1), dy = random_floats(batch * g.result_size(), 2);
        // Lanes beyond the batch must not count, whatever they hold.
        const auto x_lanes = convolutions::in_lanes(x, g.input_size(), batch, true);
        const auto dy_lanes = convolutions::in_lanes(dy, g.result_size(), batch, true);
        for (const bool direct : {true, false}) {
          CAPTURE(direct);
          check_agreement(g.weight_size(), convolutions::weight_tolerance(g, batch), [&](auto& executor, float* to) {
            if constexpr (std::is_same_v<std::decay_t<decltype(executor)>, tenet::reference::Serial>) {
              run_conv2d_weight_gradient(executor, g, batch, x.data(), dy.data(), to);
            } else if (direct) {
              run_conv2d_weight_gradient_samples_last(executor, g, batch, x_lanes.data(), dy_lanes.data(), to);
            } else {
              run_conv2d_weight_gradient_few_channels(executor, g, batch, x.data(), dy.data(), to);
            }
          });
        }
      });
}

TEST_CASE("gradients by the weight with samples in the lanes need the scratch memory they say",
          "[cpu][conv2d_samples_last_weight_gradient]") {
  constexpr Conv2dGeometry g{1, 28, 28, 6, 5, 5, 1, 2};
  constexpr const tenet::cpu::Workers* none = nullptr;
  static_assert(scratch_conv2d_weight_gradient_samples_last(none, g) < 16 * 1024);
  const long relaid = 16 * (g.input_size() + g.result_size());
  CHECK(tenet::cpu::scratch_conv2d_weight_gradient_few_channels(none, g) ==
        scratch_conv2d_weight_gradient_samples_last(none, g) + relaid);
}
