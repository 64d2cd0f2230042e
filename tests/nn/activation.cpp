#include "tenet/nn/activation.hpp"

#include <tenet/nn/sequential.hpp>

#include "../support/network.hpp"

using namespace tenet;

namespace {
using Pictures = Image<2, 3, 4>;
static_assert(std::is_same_v<network::Output<ReLU, Pictures>, Pictures>);
static_assert(std::is_same_v<network::Output<GELU, Pictures>, Pictures>);
static_assert(std::is_same_v<network::Output<Sigmoid, Pictures>, Pictures>);
static_assert(std::is_same_v<network::Output<Tanh, Pictures>, Pictures>);
static_assert(std::is_same_v<network::Output<Softmax, Pictures>, Pictures>);
static_assert(std::is_same_v<network::Output<Identity, Pictures>, Pictures>);
static_assert(std::is_same_v<network::Output<Flatten, Pictures>, Batched<24>>);
static_assert(std::is_same_v<network::Output<Flatten, Features<24>>, Batched<24>>);

using All = Concat<1, ReLU, GELU, Sigmoid, Tanh, Softmax, Identity>;
static_assert(slot_count<All> == 0 && slot_count<Flatten> == 0);
}  // namespace

TEST_CASE("each layer is the function of its name") {
  constexpr std::size_t width = 7, batch = 3;
  network::Evaluated<All, Features<width>> net;
  network::Floats x = network::numbers(width * batch);
  for (float& value : x) value *= 4;
  const network::Floats y = net(x, batch);

  std::vector<double> expected;
  for (std::size_t sample = 0; sample < batch; ++sample) {
    const std::vector<double> row(x.begin() + sample * width, x.begin() + (sample + 1) * width);
    double sum = 0;
    for (const double v : row) sum += std::exp(v);
    for (const double v : row) expected.push_back(v > 0 ? v : 0);
    for (const double v : row) expected.push_back(0.5 * v * (1 + std::erf(v / std::sqrt(2.0))));
    for (const double v : row) expected.push_back(1 / (1 + std::exp(-v)));
    for (const double v : row) expected.push_back(std::tanh(v));
    for (const double v : row) expected.push_back(std::exp(v) / sum);
    for (const double v : row) expected.push_back(v);
  }
  network::check_close(y, expected, 1e-6);
}

TEST_CASE("flatten keeps the order of the elements") {
  network::Evaluated<Flatten, Pictures> net;
  const network::Floats x = network::numbers(48);
  CHECK(net(x, 2) == x);
}
