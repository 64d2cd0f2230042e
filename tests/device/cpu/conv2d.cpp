#include "tenet/device/cpu/conv2d.hpp"

#include "../../support/convolutions.hpp"
#include "tenet/device/reference/conv2d.hpp"

using tenet::Conv2dGeometry;

TEST_CASE("convolutions agree with the reference", "[cpu][conv2d]") {
  convolutions::for_each(convolutions::by_patches, {1, 3, 7, 17}, [](const Conv2dGeometry& g, int batch) {
    // Exactly as long as they are, so that reading beyond them can be detected.
    const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
    check_agreement(batch * g.result_size(), 2e-5, [&](auto& executor, float* to) {
      run_conv2d(executor, g, batch, input.data(), weight.data(), to);
    });
  });
}

TEST_CASE("epilogues of convolutions cover the result once", "[cpu][conv2d]") {
  convolutions::for_each(convolutions::by_patches, {5}, [](const Conv2dGeometry& g, int batch) {
    const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
    convolutions::check_epilogue(batch * g.result_size(), [&](auto& workers, float* to, tenet::Epilogue epilogue) {
      run_conv2d(workers, g, batch, input.data(), weight.data(), to, epilogue);
    });
  });
}
