#include "tenet/ops/functions.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
static_assert(
    std::is_same_v<traced::ResultOf<decltype([](auto a, auto b) { return maximum(a, b); }), Batched<2, 1>, Fixed<3>>,
                   Batched<2, 3>>);
static_assert(traced::count<[](auto x) { return square(x) + square(x); }> == 2);
static_assert(traced::count<[](auto x) { return x * square(constant(x, 3.0f)); }> == 1);

struct Functions {
  Parameter<Fixed<4>, Constant<1>> exp_, log_, sqrt_, rsqrt_, square_;
  Parameter<Scalar, Constant<1>> after;
  constexpr auto forward(auto x) const {
    return tanh(exp(x * exp_.in(x)) + log(x * log_.in(x)) - sqrt(x * sqrt_.in(x)) * rsqrt(x * rsqrt_.in(x)) +
                square(x * square_.in(x))) *
           after.in(x);
  }
};

struct Choices {
  Parameter<Fixed<6>, Constant<1>> abs_, first, second, third;
  constexpr auto forward(auto x) const {
    const auto a = x * first.in(x), b = x + second.in(x);
    return tanh(abs(x * abs_.in(x)) + maximum(a, b) * third.in(x)-minimum(a, b) * minimum(a, third.in(x)));
  }
};

// A part of the row broadcast: the larger of each element and one number a sample.
struct BroadcastChoice {
  Parameter<Fixed<5>, Constant<1>> a;
  Parameter<Scalar, Constant<1>> b;
  constexpr auto forward(auto x) const {
    return tanh(maximum(x * a.in(x), b.in(x)*0.1) + minimum(b.in(x), x * a.in(x)));
  }
};

struct Ties {
  Parameter<Fixed<2>, Constant<1>> a, b;
  constexpr auto forward(auto x) const {
    const auto first = x * a.in(x), second = x * b.in(x);
    return maximum(first, second) + 3 * minimum(first, second);
  }
};
}  // namespace

TEST_CASE("gradients of functions") {
  law::check_gradients<Functions, Features<4>>({.low = 0.4f, .high = 1, .step = 3e-3f});
}

TEST_CASE("gradients of absolute value, maximum and minimum") {
  law::check_gradients<Choices, Features<6>>({.step = 1e-3f, .tolerance = 5e-3});
  law::check_gradients<BroadcastChoice, Features<5>>({.step = 1e-3f, .tolerance = 5e-3});
}

TEST_CASE("ties of maximum and minimum go to the first operand") {
  Trainer<Ties, law::WeightedSum, law::Nothing, Features<2>, Reference> trainer;
  const float x[] = {1, 2}, target[] = {1, 1};
  trainer.step(x, target, 1);
  CHECK(trainer.gradients()[0] == 2.0f);  // (1 + 3)·1 / 2 elements
  CHECK(trainer.gradients()[16] == 0.0f);
}
