#include "tenet/ops/pool2d.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
using traced::ResultOf;
static_assert(
    std::is_same_v<ResultOf<decltype([](auto x) { return max_pool2d<2>(x); }), Image<3, 9, 8>>, Batched<3, 4, 4>>);
static_assert(std::is_same_v<ResultOf<decltype([](auto x) { return avg_pool2d<3, 2, 1>(x); }), Image<3, 9, 8>>,
                             Batched<3, 5, 4>>);
static_assert(
    std::is_same_v<ResultOf<decltype([](auto x) { return global_avg_pool2d(x); }), Image<3, 9, 8>>, Batched<3>>);

struct Pooled {
  Parameter<Fixed<2, 5, 4>, Constant<1>> maximum, mean, all;
  Parameter<Fixed<2, 1, 1>, Constant<1>> after;
  constexpr auto forward(auto x) const {
    const auto largest = max_pool2d<3, 2, 1>(x * maximum.in(x)), average = avg_pool2d<3, 2, 1>(x * mean.in(x));
    return tanh(largest * after.in(x)-average * largest + reshape<2, 1, 1>(global_avg_pool2d(x * all.in(x))));
  }
};

struct Overlapping {
  Parameter<Fixed<2, 5, 4>, Constant<1>> maximum, mean;
  constexpr auto forward(auto x) const {
    return tanh(max_pool2d<2, 1>(x * maximum.in(x)) + 2 * avg_pool2d<2, 1>(x + mean.in(x)));
  }
};

struct Plain {
  constexpr auto forward(auto x) const { return concatenate<1>(max_pool2d<2, 2, 1>(x), avg_pool2d<2, 2, 1>(x)); }
};

struct OfEqual {
  Parameter<Fixed<1, 2, 2>, Constant<1>> a;
  constexpr auto forward(auto x) const { return max_pool2d<2>(x * a.in(x)); }
};
}  // namespace

TEST_CASE("gradients of pooling") {
  law::check_gradients<Pooled, Image<2, 5, 4>>({.step = 1e-3f, .tolerance = 5e-3});
  law::check_gradients<Overlapping, Image<2, 5, 4>>({.step = 1e-3f, .tolerance = 5e-3});
}

TEST_CASE("padding never is the maximum, and counts in the mean") {
  Model<Plain, Image<1, 2, 2>, Reference> model;
  const float x[] = {-1, -2, -3, -4};
  const auto y = model(x);
  CHECK(std::vector<float>(y.begin(), y.end()) == std::vector<float>{-1, -2, -3, -4, -0.25f, -0.5f, -0.75f, -1});
}

TEST_CASE("of equal maxima the first gets the gradient") {
  Trainer<OfEqual, law::WeightedSum, law::Nothing, Image<1, 2, 2>, Reference> trainer;
  const float x[] = {2, 3, 3, 3}, target = 1;
  trainer.step(x, &target, 1);
  CHECK(std::vector<float>(trainer.gradients(), trainer.gradients() + 4) == std::vector<float>{0, 3, 0, 0});
}
