#include "tenet/device/cpu/conv2d_weight_gradient.hpp"

#include "../../support/convolutions.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using tenet::Conv2dGeometry;

void check(const Conv2dGeometry& g, int batch) {
  const auto input = random_floats(batch * g.input_size(), 1), upstream = random_floats(batch * g.result_size(), 2);
  check_agreement(g.weight_size(), convolutions::weight_tolerance(g, batch), [&](auto& executor, float* to) {
    run_conv2d_weight_gradient(executor, g, batch, input.data(), upstream.data(), to);
  });
}

}  // namespace

TEST_CASE("gradients of convolutions by their weight agree with the reference", "[cpu][conv2d_weight_gradient]") {
  convolutions::for_each(convolutions::by_patches, {1, 3, 17, 33}, check);
}

TEST_CASE("gradients by the weight of a batch in chunks agree with the reference", "[cpu][conv2d_weight_gradient]") {
  constexpr Conv2dGeometry g{15, 24, 24, 64, 3, 3, 1, 1};
  constexpr int batch = 30;
  static_assert(tenet::cpu::detail::WeightGradientCut(g, batch).chunk < batch);
  check(g, batch);
}
