#include "tenet/nn/attention.hpp"

#include "../support/network.hpp"

using namespace tenet;

namespace {
using Free = MultiheadAttention<8, 2>;
using Masked = MultiheadAttention<8, 2, Causal<true>>;
using Input = Sequence<5, 8>;
static_assert(!Free::causal && Masked::causal);
static_assert(std::is_same_v<network::Output<Free, Input>, Batched<5, 8>>);
static_assert(std::is_same_v<network::Output<Masked, Input>, Batched<5, 8>>);
static_assert(slot_table<Free>.parameter_count == 4 * (8 * 8 + 8));

constexpr std::size_t length = 5, width = 8, heads = 2, each = width / heads;

// softmax(query·keyᵀ / sqrt(each))·value for each head, then the linear map behind.
template <class Net>
std::vector<double> by_hand(Net& net, const network::Floats& x, std::size_t batch, bool causal) {
  const network::Floats in_weight = net["in_proj_weight"], in_bias = net["in_proj_bias"];
  const network::Floats out_weight = net["out_proj.weight"], out_bias = net["out_proj.bias"];
  std::vector<double> result;
  for (std::size_t n = 0; n < batch; ++n) {
    const auto projected = [&](std::size_t row, std::size_t j) {
      double sum = in_bias[j];
      for (std::size_t k = 0; k < width; ++k)
        sum += static_cast<double>(x[(n * length + row) * width + k]) * in_weight[j * width + k];
      return sum;
    };
    double attended[length][width]{};
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t r = 0; r < length; ++r) {
        double weights[length]{}, total = 0;
        for (std::size_t s = 0; s < (causal ? r + 1 : length); ++s) {
          double score = 0;
          for (std::size_t k = 0; k < each; ++k)
            score += projected(r, h * each + k) * projected(s, width + h * each + k);
          total += weights[s] = std::exp(score / std::sqrt(static_cast<double>(each)));
        }
        for (std::size_t s = 0; s < length; ++s)
          for (std::size_t k = 0; k < each; ++k)
            attended[r][h * each + k] += weights[s] / total * projected(s, 2 * width + h * each + k);
      }
    for (const auto& row : attended)
      for (std::size_t j = 0; j < width; ++j) {
        double sum = out_bias[j];
        for (std::size_t k = 0; k < width; ++k) sum += row[k] * out_weight[j * width + k];
        result.push_back(sum);
      }
  }
  return result;
}
}  // namespace

TEST_CASE("attention's names are those of PyTorch's MultiheadAttention") {
  CHECK(network::names<Free>() ==
        network::Strings{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"});
}

TEST_CASE("every position attends to all, or to those before it") {
  const network::Floats x = network::numbers(2 * Input::size);
  network::Evaluated<Free, Input> all;
  network::check_close(all(x, 2), by_hand(all, x, 2, false));
  network::Evaluated<Masked, Input> before;
  network::check_close(before(x, 2), by_hand(before, x, 2, true));

  network::Floats changed = x;
  changed[4 * width] += 1;  // the last position of the first sample
  const network::Floats a = before(x, 2), b = before(changed, 2);
  CHECK(std::equal(a.begin(), a.begin() + 4 * width, b.begin()));
  CHECK_FALSE(std::equal(a.begin() + 4 * width, a.begin() + 5 * width, b.begin() + 4 * width));
}

TEST_CASE("attention's projections start uniform") {
  Weights<MultiheadAttention<64, 4>> weights(2);
  network::check_uniform(weights["in_proj_weight"], std::sqrt(6.0 / (4 * 64)));
  network::check_uniform(weights["out_proj.weight"], 1 / 8.0);
  network::check_all(weights["in_proj_bias"], 0);
}
