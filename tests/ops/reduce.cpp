#include "tenet/ops/reduce.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;
using traced::ResultOf;

namespace {
template <int... Dims>
constexpr auto sum_over = [](auto x) { return sum<Dims...>(x); };
template <int... Dims>
constexpr auto keep_over = [](auto x) { return mean_keep<Dims...>(x); };
using X = Batched<2, 3, 4>;
static_assert(std::is_same_v<ResultOf<decltype(sum_over<>), X>, Scalar>);
static_assert(std::is_same_v<ResultOf<decltype(sum_over<0>), X>, Fixed<2, 3, 4>>);
static_assert(std::is_same_v<ResultOf<decltype(sum_over<-1>), X>, Batched<2, 3>>);
static_assert(std::is_same_v<ResultOf<decltype(sum_over<1, 3>), X>, Batched<3>>);
static_assert(std::is_same_v<ResultOf<decltype(sum_over<0, 2, 3>), X>, Fixed<2>>);
static_assert(std::is_same_v<ResultOf<decltype(sum_over<1, 2, 3>), X>, Batched<>>);
static_assert(std::is_same_v<ResultOf<decltype(keep_over<0, 2, 3>), X>, Fixed<2, 1, 1>>);
static_assert(std::is_same_v<ResultOf<decltype(keep_over<-1>), Fixed<5, 6>>, Fixed<5, 1>>);
static_assert(std::is_same_v<ResultOf<decltype(sum_over<0>), Fixed<5, 6>>, Fixed<6>>);

// Every sum that an `Access` describes and those that need a copy, each multiplied back onto x.
struct Sums {
  Parameter<Fixed<2, 3, 4>, Constant<1>> a;
  Parameter<Fixed<4>, Constant<1>> b;
  constexpr auto forward(auto x) const {
    const auto y = tanh(x * a.in(x));
    const auto all = sum(y);
    const auto batch = sum<0>(y);
    const auto channels = mean_keep<0, 2, 3>(y);
    const auto rows = mean_keep<-1>(y);
    const auto columns = sum_keep<1, 2>(y * b.in(x));
    const auto middle = mean_keep<0, 2>(y);
    const auto samples = mean<1, 2, 3>(y);
    return tanh(y * channels + rows * columns - batch * 0.1 * middle) + tanh(all * 0.1) * y + samples * y;
  }
};

struct Centered {
  constexpr auto forward(auto x) const { return x - mean_keep<0>(x); }
};

struct Regular {
  Parameter<Fixed<2, 1, 1>, Constant<1>> a;
  constexpr auto forward(auto x) const { return expand_to<Batched<2, 3, 4>>(a.in(x)) * x; }
};

struct Irregular {
  Parameter<Fixed<2, 1, 4>, Constant<1>> a;
  constexpr auto forward(auto x) const { return tanh(expand_to<Batched<2, 3, 4>>(a.in(x))) * x; }
};
}  // namespace

TEST_CASE("gradients of sums and means") { law::check_gradients<Sums, Image<2, 3, 4>>({.step = 3e-3f}); }

TEST_CASE("a mean over the batch counts the batch") {
  Model<Centered, Features<2>, Reference> model;
  const float x[] = {1, 2, 3, 4, 8, 9};
  const auto three = model(x, 3);
  CHECK(std::vector<float>(three.begin(), three.end()) == std::vector<float>{-3, -3, -1, -1, 4, 4});
  const auto two = model(x, 2);
  CHECK(std::vector<float>(two.begin(), two.end()) == std::vector<float>{-1, -1, 1, 1});
}

TEST_CASE("what expand_to spreads, sum_to adds up again") {
  // <expand(a), y> = <a, sum_to(y)> for a regular and an irregular shape.
  law::check_gradients<Regular, Image<2, 3, 4>>();
  law::check_gradients<Irregular, Image<2, 3, 4>>();
}
