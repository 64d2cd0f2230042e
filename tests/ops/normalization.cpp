#include "tenet/ops/normalization.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
constexpr auto channel_variance = [](auto x) { return moments<0, 2, 3>(x).variance; };
constexpr auto mean_of_rows = [](auto x) { return moments<-1>(x).mean; };
static_assert(std::is_same_v<traced::ResultOf<decltype(channel_variance), Image<3, 4, 5>>, Fixed<3, 1, 1>>);
static_assert(std::is_same_v<traced::ResultOf<decltype(mean_of_rows), Batched<4, 5>>, Batched<4, 1>>);

// Batch norm and layer norm in the middle, their moments used a second time: the derived gradient has to follow the
// mean and the variance too.
struct Norms {
  Parameter<Fixed<2, 3, 4>, Constant<1>> before;
  Parameter<Fixed<2, 1, 1>, Constant<1>> scale, shift;
  constexpr auto forward(auto x) const {
    const auto y = x * before.in(x);
    const auto [mean, variance] = moments<0, 2, 3>(y);
    const auto z = normalize(y, mean, scale.in(x)*rsqrt(variance + 0.1f), shift.in(x));
    const auto [row_mean, row_variance] = moments<-1>(z);
    return tanh((z - row_mean) * rsqrt(row_variance + 0.1f) + variance * row_mean + mean);
  }
};

// Mean and scale of different shapes, and moments that no parameter shifts.
struct Mixed {
  Parameter<Fixed<2, 3, 4>, Constant<1>> before, mean;
  Parameter<Fixed<4>, Constant<1>> scale;
  Parameter<Scalar, Constant<1>> shift;
  constexpr auto forward(auto x) const {
    return tanh(normalize(x * before.in(x), mean.in(x), scale.in(x), shift.in(x)));
  }
};

struct Rows {
  Parameter<Fixed<3, 5>, Constant<1>> before;
  Parameter<Fixed<5>, Constant<1>> weight, bias;
  constexpr auto forward(auto x) const { return tanh(layer_norm(x * before.in(x), weight.in(x), bias.in(x))); }
};

struct Variance {
  constexpr auto forward(auto x) const { return x - x + moments<0>(x).variance; }
};
}  // namespace

TEST_CASE("gradients of normalisation") {
  law::check_gradients<Norms, Image<2, 3, 4>>({.step = 2e-3f, .tolerance = 4e-3});
  law::check_gradients<Mixed, Image<2, 3, 4>>({.step = 3e-3f});
  law::check_gradients<Rows, Batched<3, 5>>({.step = 2e-3f, .tolerance = 4e-3});
  law::check_gradients<Rows, Batched<3, 5>, law::WeightedSum, Cpu<>>({.step = 2e-3f, .tolerance = 4e-3});
}

TEST_CASE("the variance is the biased one and does not cancel far from zero") {
  Model<Variance, Features<1>, Reference> model;
  const float near[] = {1, 2, 3, 6}, far[] = {10001, 10002, 10003, 10006};
  CHECK(model(near, 4)[0] == Approx(3.5));
  CHECK(model(far, 4)[0] == Approx(3.5));
}
