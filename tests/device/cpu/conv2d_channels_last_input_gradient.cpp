#include "tenet/device/cpu/conv2d_channels_last_input_gradient.hpp"

#include "../../support/channels_last.hpp"

using tenet::Conv2dGeometry;

TEST_CASE("gradients by the input with channels last agree with the reference",
          "[cpu][conv2d_channels_last_input_gradient]") {
  channels_last::for_each_factors([](const auto& factors) {
    const Conv2dGeometry& g = factors.g;
    const int batch = factors.batch;
    channels_last::check_image(
        batch, g.channels, long{1} * g.height * g.width, channels_last::tolerance(g.weight_size() / g.channels),
        [&](auto& executor, float* to) {
          run_conv2d_input_gradient(executor, g, batch, factors.gradient.standard.data(),
                                    factors.weight.standard.data(), to);
        },
        [&](auto& workers, float* to) {
          run_conv2d_input_gradient_channels_last(workers, g, batch, factors.gradient.last.data(),
                                                  factors.weight.last.data(), to);
        });
  });
}

TEST_CASE("epilogues of gradients by the input with channels last cover the result once",
          "[cpu][conv2d_channels_last_input_gradient]") {
  channels_last::for_each_factors([](const auto& factors) {
    const Conv2dGeometry& g = factors.g;
    const int batch = factors.batch;
    convolutions::check_epilogue(batch * g.input_size(), [&](auto& workers, float* to, tenet::Epilogue epilogue) {
      run_conv2d_input_gradient_channels_last(workers, g, batch, factors.gradient.last.data(),
                                              factors.weight.last.data(), to, epilogue);
    });
  });
}

TEST_CASE("gradients by no input with channels last write nothing", "[cpu][conv2d_channels_last_input_gradient]") {
  const auto weight = random_floats(channels_last::shapes[0].weight_size(), 1);
  float untouched = 3;
  run_conv2d_input_gradient_channels_last(pool(2), channels_last::shapes[0], 0, &untouched, weight.data(), &untouched);
  CHECK(untouched == 3);
}
