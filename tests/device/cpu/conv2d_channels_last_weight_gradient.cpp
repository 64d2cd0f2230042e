#include "tenet/device/cpu/conv2d_channels_last_weight_gradient.hpp"

#include "../../support/channels_last.hpp"

using tenet::Conv2dGeometry;

namespace {

template <class Number>
void check_weight_gradient(const channels_last::Factors<Number>& factors) {
  const Conv2dGeometry& g = factors.g;
  const int batch = factors.batch;
  const double tolerance = std::max(1e-5, convolutions::weight_tolerance(g, batch));
  check_agreement(g.weight_size(), tolerance, [&](auto& executor, float* to) {
    if constexpr (std::is_same_v<decltype(executor), tenet::reference::Serial&>) {
      run_conv2d_weight_gradient(executor, g, batch, factors.input.standard.data(), factors.gradient.standard.data(),
                                 to);
    } else {
      run_conv2d_weight_gradient_channels_last(executor, g, batch, factors.input.last.data(),
                                               factors.gradient.last.data(), to);
    }
  });
}

}  // namespace

TEST_CASE("gradients by the weight with channels last agree with the reference",
          "[cpu][conv2d_channels_last_weight_gradient]") {
  channels_last::for_each_factors([](const auto& factors) { check_weight_gradient(factors); });
}

TEST_CASE("gradients by the weight are summed in parts of a batch with channels last",
          "[cpu][conv2d_channels_last_weight_gradient]") {
  constexpr Conv2dGeometry shapes[] = {{16, 28, 28, 32, 3, 3, 1, 1}, {3, 30, 30, 70, 3, 3, 1, 1}};
  convolutions::for_each(shapes, {11}, [](const Conv2dGeometry& g, int batch) {
    check_weight_gradient(channels_last::Factors<float>(g, batch));
  });
}

TEST_CASE("pairs of samples have any number of channels", "[cpu][conv2d_channels_last_weight_gradient]") {
  convolutions::for_each(channels_last::shapes, {1, 4, 5}, [](const Conv2dGeometry& g, int batch) {
    check_weight_gradient(channels_last::Factors<tenet::bfloat16>(g, batch));
  });
}

TEST_CASE("the gradient by the weight of no images with their channels last is zero",
          "[cpu][conv2d_channels_last_weight_gradient]") {
  constexpr Conv2dGeometry g = channels_last::shapes[0];
  std::vector<float> result(static_cast<std::size_t>(g.weight_size()), 3);
  const float* const nothing = nullptr;
  run_conv2d_weight_gradient_channels_last(pool(2), g, 0, nothing, nothing, result.data());
  CHECK(std::count(result.begin(), result.end(), 0.0f) == g.weight_size());
}
