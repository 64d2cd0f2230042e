#include "tenet/device/cpu/conv2d_channels_last.hpp"

#include "../../support/channels_last.hpp"

using tenet::Conv2dGeometry;

TEST_CASE("convolutions of images with their channels last agree with the reference", "[cpu][conv2d_channels_last]") {
  channels_last::for_each_factors([](const auto& factors) {
    const Conv2dGeometry& g = factors.g;
    const int batch = factors.batch;
    channels_last::check_image(
        batch, g.out_channels, g.positions(), channels_last::tolerance(g.taps()),
        [&](auto& executor, float* to) {
          run_conv2d(executor, g, batch, factors.input.standard.data(), factors.weight.standard.data(), to);
        },
        [&](auto& workers, float* to) {
          run_conv2d_channels_last(workers, g, batch, factors.input.last.data(), factors.weight.last.data(), to);
        });
  });
}

TEST_CASE("epilogues of convolutions with channels last cover the result once", "[cpu][conv2d_channels_last]") {
  channels_last::for_each_factors([](const auto& factors) {
    const Conv2dGeometry& g = factors.g;
    const int batch = factors.batch;
    convolutions::check_epilogue(batch * g.result_size(), [&](auto& workers, float* to, tenet::Epilogue epilogue) {
      run_conv2d_channels_last(workers, g, batch, factors.input.last.data(), factors.weight.last.data(), to, epilogue);
    });
  });
}

TEST_CASE("convolutions of no images with their channels last write nothing", "[cpu][conv2d_channels_last]") {
  const auto weight = random_floats(channels_last::shapes[0].weight_size(), 1);
  float untouched = 3;
  run_conv2d_channels_last(pool(2), channels_last::shapes[0], 0, &untouched, weight.data(), &untouched);
  CHECK(untouched == 3);
}
