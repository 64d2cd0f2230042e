#include "tenet/nn/conv2d.hpp"

#include "../support/network.hpp"

using namespace tenet;

namespace {
static_assert(std::is_same_v<network::Output<Conv2d<3, 8, 5>, Image<3, 28, 20>>, Batched<8, 24, 16>>);
static_assert(std::is_same_v<network::Output<Conv2d<3, 8, 3, Padding<1>>, Image<3, 28, 20>>, Batched<8, 28, 20>>);
static_assert(std::is_same_v<network::Output<Conv2d<3, 8, 3, Stride<2>>, Image<3, 28, 20>>, Batched<8, 13, 9>>);

// Options in any order are the same layer.
using One = Conv2d<2, 3, 3, Stride<2>, Padding<1>, Bias<false>>;
using Other = Conv2d<2, 3, 3, Bias<false>, Padding<1>, Stride<2>>;
static_assert(One::stride == 2 && One::padding == 1 && !One::has_bias);
static_assert(Other::stride == 2 && Other::padding == 1 && !Other::has_bias);
static_assert(std::is_same_v<network::Output<One, Image<2, 7, 6>>, Batched<3, 4, 3>>);
static_assert(std::is_same_v<network::Output<Other, Image<2, 7, 6>>, Batched<3, 4, 3>>);
static_assert(slot_table<Conv2d<2, 3, 5>>.parameter_count == 153 && slot_table<One>.parameter_count == 54);

// 2 channels of 7x6 -> 3 channels, a window of 3x3.
std::vector<double> by_hand(const network::Floats& x, const network::Floats& weight, const network::Floats& bias,
                            int batch, int stride, int padding) {
  const int height = (7 + 2 * padding - 3) / stride + 1, width = (6 + 2 * padding - 3) / stride + 1;
  std::vector<double> result;
  for (int n = 0; n < batch; ++n)
    for (int o = 0; o < 3; ++o)
      for (int r = 0; r < height; ++r)
        for (int c = 0; c < width; ++c) {
          double sum = bias.empty() ? 0 : bias[static_cast<std::size_t>(o)];
          for (int i = 0; i < 2; ++i)
            for (int a = 0; a < 3; ++a)
              for (int b = 0; b < 3; ++b) {
                const int row = r * stride - padding + a, column = c * stride - padding + b;
                if (row < 0 || row >= 7 || column < 0 || column >= 6) continue;
                sum += static_cast<double>(x[static_cast<std::size_t>(((n * 2 + i) * 7 + row) * 6 + column)]) *
                       weight[static_cast<std::size_t>(((o * 2 + i) * 3 + a) * 3 + b)];
              }
          result.push_back(sum);
        }
  return result;
}
}  // namespace

TEST_CASE("a convolution's names are PyTorch's") {
  CHECK(network::names<Conv2d<2, 3, 3>>() == network::Strings{"weight", "bias"});
  CHECK(network::names<One>() == network::Strings{"weight"});
}

TEST_CASE("a convolution is the sum over channels and window, plus the bias") {
  const network::Floats x = network::numbers(2 * 2 * 7 * 6);
  network::Evaluated<Conv2d<2, 3, 3>, Image<2, 7, 6>> plain;
  network::check_close(plain(x, 2), by_hand(x, plain["weight"], plain["bias"], 2, 1, 0));
  network::Evaluated<One, Image<2, 7, 6>> one;
  network::check_close(one(x, 2), by_hand(x, one["weight"], {}, 2, 2, 1));
  network::Evaluated<Other, Image<2, 7, 6>> other;
  CHECK(one(x, 2) == other(x, 2));
}

TEST_CASE("a convolution's weight and bias start uniform in ±1/sqrt(in·kernel²)") {
  Weights<Conv2d<4, 300, 5>> weights(5);
  network::check_uniform(weights["weight"], 0.1);
  network::check_uniform(weights["bias"], 0.1);
}
