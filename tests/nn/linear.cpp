#include "tenet/nn/linear.hpp"

#include "../support/network.hpp"

using namespace tenet;

namespace {
static_assert(std::is_same_v<network::Output<Linear<4, 3>, Features<4>>, Batched<3>>);
static_assert(std::is_same_v<network::Output<Linear<4, 3, Bias<false>>, Features<4>>, Batched<3>>);
static_assert(std::is_same_v<network::Output<Linear<4, 3>, Sequence<6, 4>>, Batched<6, 3>>);
static_assert(slot_table<Linear<4, 3>>.parameter_count == 15);
static_assert(slot_table<Linear<4, 3, Bias<false>>>.parameter_count == 12);
static_assert(Linear<4, 3>::has_bias && !Linear<4, 3, Bias<false>>::has_bias);

std::vector<double> by_hand(const network::Floats& x, const network::Floats& weight, const network::Floats& bias,
                            std::size_t in, std::size_t out) {
  std::vector<double> result;
  for (std::size_t row = 0; row < x.size() / in; ++row)
    for (std::size_t j = 0; j < out; ++j) {
      double sum = bias.empty() ? 0 : bias[j];
      for (std::size_t k = 0; k < in; ++k) sum += static_cast<double>(x[row * in + k]) * weight[j * in + k];
      result.push_back(sum);
    }
  return result;
}
}  // namespace

TEST_CASE("a linear layer's names are PyTorch's") {
  CHECK(network::names<Linear<4, 3>>() == network::Strings{"weight", "bias"});
  CHECK(network::names<Linear<4, 3, Bias<false>>>() == network::Strings{"weight"});
}

TEST_CASE("y = x·weightᵀ + bias, for each row of each sample") {
  const network::Floats x = network::numbers(2 * 6 * 4);
  network::Evaluated<Linear<4, 3>, Features<4>> flat;
  network::check_close(flat(x, 12), by_hand(x, flat["weight"], flat["bias"], 4, 3));
  network::Evaluated<Linear<4, 3>, Sequence<6, 4>> rows;
  CHECK(rows(x, 2) == flat(x, 12));
  network::Evaluated<Linear<4, 3, Bias<false>>, Features<4>> without;
  network::check_close(without(x, 12), by_hand(x, without["weight"], {}, 4, 3));
}

TEST_CASE("a linear layer's weight and bias start uniform in ±1/sqrt(in)") {
  Weights<Linear<64, 500>> weights(3);
  network::check_uniform(weights["weight"], 1 / 8.0);
  network::check_uniform(weights["bias"], 1 / 8.0);
}
