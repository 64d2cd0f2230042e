#include "agreement.hpp"
#include "tenet/device/cuda/conv2d.hpp"
#include "tenet/device/reference/conv2d.hpp"

TEST_CASE("convolutions and their gradients agree with the reference", "[cuda][conv2d]") {
  for (const tenet::Conv2dGeometry& g : {tenet::Conv2dGeometry{1, 28, 28, 6, 5, 5, 1, 2},
                                         {3, 9, 7, 4, 3, 3, 1, 1},
                                         {5, 8, 8, 33, 3, 3, 2, 1},
                                         {7, 10, 6, 4, 1, 1, 2, 0},
                                         {4, 5, 5, 2, 5, 5, 1, 0},
                                         {2, 7, 9, 3, 3, 2, 3, 2}})
    for (const int batch : {1, 5}) {
      CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.stride, g.padding, batch);
      const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2),
                 gradient = random_floats(batch * g.result_size(), 3);
      check_agreement(batch * g.result_size(), 1e-5, [&](auto& place, float* to) {
        run_conv2d(place.executor, g, batch, place.in(input), place.in(weight), to);
      });
      check_agreement(batch * g.input_size(), 1e-5, [&](auto& place, float* to) {
        run_conv2d_input_gradient(place.executor, g, batch, place.in(gradient), place.in(weight), to);
      });
      check_agreement(g.weight_size(), 2e-5, [&](auto& place, float* to) {
        run_conv2d_weight_gradient(place.executor, g, batch, place.in(input), place.in(gradient), to);
      });
      constexpr double rounding = 1.01 / 256;  // of results with 8 binary digits
      check_agreement(batch * g.result_size(), rounding, [&](auto& place, float* to) {
        place.widen(batch * g.result_size(), to, [&](auto* result) {
          run_conv2d(place.executor, g, batch, place.rounded(input), place.rounded(weight), result);
        });
      });
      check_agreement(batch * g.input_size(), rounding, [&](auto& place, float* to) {
        place.widen(batch * g.input_size(), to, [&](auto* result) {
          run_conv2d_input_gradient(place.executor, g, batch, place.rounded(gradient), place.rounded(weight), result);
        });
      });
      check_agreement(g.weight_size(), rounding, [&](auto& place, float* to) {
        place.widen(g.weight_size(), to, [&](auto* result) {
          run_conv2d_weight_gradient(place.executor, g, batch, place.rounded(input), place.rounded(gradient), result);
        });
      });
    }
}
