#include "tenet/device/cpu/conv2d_input_gradient.hpp"

#include "../../support/convolutions.hpp"
#include "tenet/device/reference/conv2d.hpp"

using tenet::Conv2dGeometry;

TEST_CASE("gradients of convolutions by their input agree with the reference", "[cpu][conv2d_input_gradient]") {
  convolutions::for_each(convolutions::by_patches, {1, 3, 7, 17}, [](const Conv2dGeometry& g, int batch) {
    const auto upstream = random_floats(batch * g.result_size(), 1), weight = random_floats(g.weight_size(), 2);
    check_agreement(batch * g.input_size(), 2e-5, [&](auto& executor, float* to) {
      run_conv2d_input_gradient(executor, g, batch, upstream.data(), weight.data(), to);
    });
  });
}

TEST_CASE("epilogues of gradients by the input cover the result once", "[cpu][conv2d_input_gradient]") {
  convolutions::for_each(convolutions::by_patches, {5}, [](const Conv2dGeometry& g, int batch) {
    const auto upstream = random_floats(batch * g.result_size(), 3), weight = random_floats(g.weight_size(), 2);
    convolutions::check_epilogue(batch * g.input_size(), [&](auto& workers, float* to, tenet::Epilogue epilogue) {
      run_conv2d_input_gradient(workers, g, batch, upstream.data(), weight.data(), to, epilogue);
    });
  });
}
