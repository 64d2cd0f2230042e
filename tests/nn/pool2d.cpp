#include "tenet/nn/pool2d.hpp"

#include "../support/network.hpp"

using namespace tenet;

namespace {
static_assert(std::is_same_v<network::Output<MaxPool2d<2>, Image<3, 8, 6>>, Batched<3, 4, 3>>);
static_assert(std::is_same_v<network::Output<AvgPool2d<2>, Image<3, 9, 6>>, Batched<3, 4, 3>>);
static_assert(std::is_same_v<network::Output<MaxPool2d<3, Stride<2>, Padding<1>>, Image<3, 8, 6>>, Batched<3, 4, 3>>);
static_assert(std::is_same_v<network::Output<AvgPool2d<3, Padding<1>, Stride<1>>, Image<3, 8, 6>>, Batched<3, 8, 6>>);
static_assert(std::is_same_v<network::Output<GlobalAvgPool2d, Image<3, 8, 6>>, Batched<3>>);
static_assert(MaxPool2d<2>::stride == 2 && AvgPool2d<3>::stride == 3 && MaxPool2d<3, Stride<1>>::stride == 1);
// A place in the network, for messages, but nothing to train.
static_assert(slot_count<MaxPool2d<2>> == 1 && slot_table<MaxPool2d<2>>.parameter_count == 0);

using Input = Image<2, 5, 6>;

// The pooling of 2 channels of 5x6 by joining what lies in each window.
template <class Join>
std::vector<double> by_hand(const network::Floats& x, int batch, int kernel, int stride, int padding, double start,
                            Join join) {
  const int height = (5 + 2 * padding - kernel) / stride + 1, width = (6 + 2 * padding - kernel) / stride + 1;
  std::vector<double> result;
  for (int plane = 0; plane < 2 * batch; ++plane)
    for (int r = 0; r < height; ++r)
      for (int c = 0; c < width; ++c) {
        double value = start;
        for (int a = 0; a < kernel; ++a)
          for (int b = 0; b < kernel; ++b) {
            const int row = r * stride - padding + a, column = c * stride - padding + b;
            if (row < 0 || row >= 5 || column < 0 || column >= 6) continue;
            value = join(value, x[static_cast<std::size_t>((plane * 5 + row) * 6 + column)]);
          }
        result.push_back(value);
      }
  return result;
}
}  // namespace

TEST_CASE("pooling without parameters has no names") { CHECK(network::names<MaxPool2d<2>>().empty()); }

TEST_CASE("max pooling takes the window's maximum, padding never wins") {
  network::Floats x = network::numbers(2 * Input::size);
  for (float& value : x) value -= 2;  // all negative: a padding of zeros would be the maximum
  const auto maximum = [](double a, double b) { return b > a ? b : a; };
  network::Evaluated<MaxPool2d<2>, Input> plain;
  network::check_close(plain(x, 2), by_hand(x, 2, 2, 2, 0, -1e9, maximum));
  network::Evaluated<MaxPool2d<3, Padding<1>, Stride<2>>, Input> padded;
  network::check_close(padded(x, 2), by_hand(x, 2, 3, 2, 1, -1e9, maximum));
}

TEST_CASE("mean pooling divides by the whole window, padding counted") {
  const network::Floats x = network::numbers(2 * Input::size);
  network::Evaluated<AvgPool2d<2>, Input> plain;
  network::check_close(plain(x, 2), by_hand(x, 2, 2, 2, 0, 0, [](double a, double b) { return a + b / 4; }));
  network::Evaluated<AvgPool2d<3, Stride<1>, Padding<1>>, Input> padded;
  network::check_close(padded(x, 2), by_hand(x, 2, 3, 1, 1, 0, [](double a, double b) { return a + b / 9; }));
}

TEST_CASE("global mean pooling is the mean of every channel") {
  const network::Floats x = network::numbers(3 * Input::size);
  network::Evaluated<GlobalAvgPool2d, Input> net;
  std::vector<double> expected(6);
  for (std::size_t i = 0; i < x.size(); ++i) expected[i / 30] += x[i] / 30.0;
  network::check_close(net(x, 3), expected);
}
