#include "tenet/nn/layer_norm.hpp"

#include "../support/network.hpp"

using namespace tenet;

namespace {
static_assert(std::is_same_v<network::Output<LayerNorm<6>, Features<6>>, Batched<6>>);
static_assert(std::is_same_v<network::Output<LayerNorm<6>, Sequence<4, 6>>, Batched<4, 6>>);
static_assert(slot_table<LayerNorm<6>>.parameter_count == 12);
}  // namespace

TEST_CASE("layer norm's names and initial values are PyTorch's") {
  CHECK(network::names<LayerNorm<6>>() == network::Strings{"weight", "bias"});
  Weights<LayerNorm<6>> weights(4);
  network::check_all(weights["weight"], 1);
  network::check_all(weights["bias"], 0);
}

TEST_CASE("each row is normalised by its own mean and biased variance") {
  network::Evaluated<LayerNorm<6>, Sequence<4, 6>> net;
  network::Floats x = network::numbers(3 * 4 * 6);
  for (std::size_t i = 0; i < 6; ++i) x[i] *= 1e-3f;  // so small that epsilon = 1e-5 counts
  const network::Floats weight = net["weight"], bias = net["bias"];
  std::vector<double> expected;
  for (std::size_t row = 0; row < 12; ++row) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < 6; ++i) mean += x[row * 6 + i] / 6.0;
    for (std::size_t i = 0; i < 6; ++i) variance += (x[row * 6 + i] - mean) * (x[row * 6 + i] - mean) / 6;
    for (std::size_t i = 0; i < 6; ++i)
      expected.push_back((x[row * 6 + i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i]);
  }
  network::check_close(net(x, 3), expected);
}
