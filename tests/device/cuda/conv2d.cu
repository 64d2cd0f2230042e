#include "agreement.hpp"
#include "tenet/device/cuda/conv2d.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using image_order::channels_last;

struct Numbers {
  std::vector<float> first, last;  ///< with channels first and last

  Numbers(std::vector<float> numbers, long channels, long positions)
      : first(std::move(numbers)), last(channels_last(first, channels, positions)) {}
};

/// One pass agrees with the reference's, in floats and in bfloat16: run(executor, order…, x, w, to), where `order` is
/// empty for the reference, whose channels come first.
template <class Run>
void check_pass(const Numbers& a, const Numbers& b, long size, long channels, long positions, double tolerance,
                Run run) {
  const auto by = [&](auto& place, const auto* x, const auto* y, auto* to) {
    if constexpr (std::remove_reference_t<decltype(place)>::is_reference) {
      std::vector<float> result(static_cast<std::size_t>(size));
      run(place.executor, x, y, result.data());
      result = channels_last(result, channels, positions);
      std::copy(result.begin(), result.end(), to);
    } else {
      run(place.executor, x, y, to, tenet::ChannelsLast{});
    }
  };
  const auto of = [](auto& place, const Numbers& numbers) -> const std::vector<float>& {
    return std::remove_reference_t<decltype(place)>::is_reference ? numbers.first : numbers.last;
  };
  check_agreement(size, tolerance,
                  [&](auto& place, float* to) { by(place, place.in(of(place, a)), place.in(of(place, b)), to); });
  constexpr double rounding = 1.01 / 256;  // of results with 8 binary digits
  check_agreement(size, rounding, [&](auto& place, float* to) {
    place.widen(size, to,
                [&](auto* result) { by(place, place.rounded(of(place, a)), place.rounded(of(place, b)), result); });
  });
}

}  // namespace

TEST_CASE("convolutions and their gradients agree with the reference", "[cuda][conv2d]") {
  for (const tenet::Conv2dGeometry& g : {tenet::Conv2dGeometry{1, 28, 28, 6, 5, 5, 1, 2},
                                         {3, 9, 7, 4, 3, 3, 1, 1},
                                         {5, 8, 8, 33, 3, 3, 2, 1},
                                         {7, 10, 6, 4, 1, 1, 2, 0},
                                         {4, 5, 5, 2, 5, 5, 1, 0},
                                         {2, 7, 9, 3, 3, 2, 3, 2}})
    for (const int batch : {1, 5}) {
      CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.stride, g.padding, batch);
      const long inputs = long{1} * g.height * g.width, taps = long{1} * g.kernel_height * g.kernel_width;
      const Numbers input(random_floats(batch * g.input_size(), 1), g.channels, inputs),
          weight(random_floats(g.weight_size(), 2), g.channels, taps),
          gradient(random_floats(batch * g.result_size(), 3), g.out_channels, g.positions());
      check_pass(input, weight, batch * g.result_size(), g.out_channels, g.positions(), 1e-5,
                 [&](auto& executor, const auto* x, const auto* w, auto* y, auto... order) {
                   run_conv2d(executor, order..., g, batch, x, w, y);
                 });
      check_pass(gradient, weight, batch * g.input_size(), g.channels, inputs, 1e-5,
                 [&](auto& executor, const auto* dy, const auto* w, auto* dx, auto... order) {
                   run_conv2d_input_gradient(executor, order..., g, batch, dy, w, dx);
                 });
      check_pass(input, gradient, g.weight_size(), g.channels, taps, 2e-5,
                 [&](auto& executor, const auto* x, const auto* dy, auto* dw, auto... order) {
                   run_conv2d_weight_gradient(executor, order..., g, batch, x, dy, dw);
                 });
    }
}
