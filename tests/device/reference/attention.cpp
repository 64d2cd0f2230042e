#include "tenet/device/reference/attention.hpp"

#include "../agreement.hpp"
#include "../attention_cases.hpp"

namespace {

tenet::reference::Serial serial;

std::vector<float> forward(const AttentionCase& shape, const std::vector<float>& x) {
  std::vector<float> y(static_cast<std::size_t>(shape.results));
  shape.forward(serial, x.data(), y.data());
  return y;
}

}  // namespace

TEST_CASE("attention of one query is a mean of the values weighted by the scores", "[reference][attention]") {
  const AttentionCase shape = AttentionCase::of_parts(1, 1, 1, 2, 2, false);
  const auto y = forward(shape, {1, 0, 2, 5, 1, 5, 10, 20, 30, 40});
  const double first = std::exp(0.7 * 2), second = std::exp(0.7 * 1), sum = first + second;
  CHECK(y[0] == Approx((10 * first + 30 * second) / sum));
  CHECK(y[1] == Approx((20 * first + 40 * second) / sum));
}

TEST_CASE("the first position of causal attention sees itself alone", "[reference][attention]") {
  const AttentionCase shape = AttentionCase::of_parts(1, 1, 2, 2, 1, true);
  const auto y = forward(shape, {1, 1, 3, 3, 5, 7});
  CHECK(y[0] == 5);
  CHECK(y[1] == Approx(6));
}

TEST_CASE("a projection holds the same as three tensors", "[reference][attention]") {
  constexpr int batch = 2, heads = 3, length = 5, width = 4;
  for (const bool causal : {false, true}) {
    const AttentionCase parts = AttentionCase::of_parts(batch, heads, length, length, width, causal);
    const AttentionCase projection = AttentionCase::of_projection(batch, heads, length, width, causal);
    const auto x = random_floats(projection.operands, 1);
    std::vector<float> apart(x.size());
    std::size_t at = 0;
    for (const long begin : {projection.query, projection.key, projection.value})
      for (int s = 0; s < batch; ++s)
        for (int h = 0; h < heads; ++h)
          for (int r = 0; r < length; ++r)
            for (int c = 0; c < width; ++c)
              apart[at++] =
                  x[static_cast<std::size_t>(begin + projection.g.query.at(s, h) + r * projection.g.query.row + c)];
    const auto expected = forward(parts, apart), y = forward(projection, x);
    at = 0;
    for (int s = 0; s < batch; ++s)
      for (int h = 0; h < heads; ++h)
        for (int r = 0; r < length; ++r)
          for (int c = 0; c < width; ++c)
            CHECK(expected[at++] ==
                  y[static_cast<std::size_t>(projection.g.result.at(s, h) + r * projection.g.result.row + c)]);
  }
}

TEST_CASE("gradients of attention are those of finite differences", "[reference][attention]") {
  for (const bool causal : {false, true}) {
    const AttentionCase shape = AttentionCase::of_parts(2, 1, 3, 4, 2, causal);
    auto x = random_floats(shape.operands, 1);
    const auto upstream = random_floats(shape.results, 2);
    std::vector<float> gradient(static_cast<std::size_t>(shape.gradients));
    shape.backward(serial, x.data(), upstream.data(), gradient.data());
    const auto loss = [&] {
      double sum = 0;
      const auto y = forward(shape, x);
      for (std::size_t i = 0; i < y.size(); ++i) sum += double{y[i]} * upstream[i];
      return sum;
    };
    const auto check = [&](long begin, long gradient_begin, const tenet::AttentionGeometry::Steps& from,
                           const tenet::AttentionGeometry::Steps& to, int rows) {
      for (int s = 0; s < shape.batch; ++s)
        for (int i = 0; i < rows * shape.g.width; ++i) {
          float& number = x[static_cast<std::size_t>(begin + from.at(s, 0) + i)];
          const float middle = number;
          number = middle + 0.01f;
          const double above = loss();
          number = middle - 0.01f;
          const double below = loss();
          number = middle;
          CHECK(
              (above - below) / 0.02 ==
              Approx(gradient[static_cast<std::size_t>(gradient_begin + to.at(s, 0) + i)]).margin(1e-4).epsilon(1e-3));
        }
    };
    check(shape.query, shape.dquery, shape.g.query, shape.g.query_gradient, shape.g.queries);
    check(shape.key, shape.dkey, shape.g.key, shape.g.key_gradient, shape.g.keys);
    check(shape.value, shape.dvalue, shape.g.value, shape.g.value_gradient, shape.g.keys);
  }
}
