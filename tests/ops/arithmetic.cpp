#include "tenet/ops/arithmetic.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;
using traced::ResultOf;

namespace {
constexpr auto added = [](auto a, auto b) { return a + b; };
template <class A, class B, class Result>
inline constexpr bool gives =
    std::is_same_v<ResultOf<decltype(added), A, B>, Result> && std::is_same_v<ResultOf<decltype(added), B, A>, Result>;
static_assert(gives<Batched<3>, Batched<3>, Batched<3>>);
static_assert(gives<Batched<2, 3>, Fixed<3>, Batched<2, 3>>);
static_assert(gives<Batched<2, 3>, Fixed<2, 1>, Batched<2, 3>>);
static_assert(gives<Batched<4, 2, 3>, Fixed<4, 1, 1>, Batched<4, 2, 3>>);
static_assert(gives<Batched<2, 3>, Scalar, Batched<2, 3>>);
static_assert(gives<Batched<2, 3>, Batched<>, Batched<2, 3>>);
static_assert(gives<Batched<2, 1>, Fixed<3>, Batched<2, 3>>);
static_assert(gives<Fixed<2, 1>, Fixed<1, 3>, Fixed<2, 3>>);
static_assert(gives<Batched<2, 1, 3>, Fixed<4, 1>, Batched<2, 4, 3>>);

// Identities leave no operation.
static_assert(traced::count<[](auto x) { return x * 1; }> == 0);
static_assert(traced::count<[](auto x) { return 1.0f * x; }> == 0);
static_assert(traced::count<[](auto x) { return x + 0; }> == 0);
static_assert(traced::count<[](auto x) { return 0 + x; }> == 0);
static_assert(traced::count<[](auto x) { return x - 0; }> == 0);
static_assert(traced::count<[](auto x) { return x / 1; }> == 0);
static_assert(traced::count<[](auto x) { return -(-x); }> == 0);
static_assert(traced::count<[](auto x) { return -(-(-x)); }> == 1);
static_assert(traced::count<[](auto x) { return 0 - x; }> == 1);
static_assert(traced::count<[](auto x) { return 1 / x; }> == 1);
// Constants are folded.
static_assert(traced::count<[](auto x) { return x * ((constant(x, 2.0f) + 3) * 4 - 19); }> == 0);
static_assert(traced::count<[](auto x) { return x + constant(x, 2.0f) * 3; }> == 1);
// Equal operations are one.
static_assert(traced::count<[](auto x) { return (x + 2) * (2 + x); }> == 2);
static_assert(traced::count<[](auto x) { return (x * x + x) - (x + x * x); }> == 3);
static_assert(traced::count<[](auto x) { return (x - 2) * (2 - x); }> == 3);

// Every way of combining two shapes, as the operand of every operation.
struct Broadcasts {
  Parameter<Fixed<2, 3, 4>, Constant<1>> full;
  Parameter<Fixed<4>, Constant<1>> row;
  Parameter<Fixed<3, 1>, Constant<1>> column;
  Parameter<Fixed<2, 1, 1>, Constant<1>> channel;
  Parameter<Scalar, Constant<1>> scalar;
  Parameter<Fixed<2, 1, 4>, Constant<1>> irregular;
  Parameter<Fixed<1, 3, 1>, Constant<1>> middle;
  constexpr auto forward(auto x) const {
    const auto a = x * full.in(x) + row.in(x)*column.in(x);
    const auto b = (a - channel.in(x)) / (scalar.in(x) + irregular.in(x));
    return tanh(b * middle.in(x)-irregular.in(x) / (row.in(x)*a));
  }
};

// Batched operands that are broadcast, regular and irregular.
struct BatchedBroadcasts {
  Parameter<Fixed<2, 3>, Constant<1>> a;
  Parameter<Fixed<3>, Constant<1>> b;
  constexpr auto forward(auto x) const {
    const auto y = x * a.in(x);                 // (batch, 2, 3)
    const auto row = sum_keep<1>(y) * b.in(x);  // (batch, 1, 3): irregular in y
    const auto column = sum_keep<2>(y);         // (batch, 2, 1)
    const auto one = sum<1, 2>(y);              // (batch)
    return tanh(y * row + column * row - one / (2 + column * column) + reshape<2, 1>(column) * b.in(x));
  }
};

struct Shared {
  Parameter<Fixed<4>, Constant<1>> a, unused;
  constexpr auto forward(auto x) const {
    const auto y = x * a.in(x);
    const auto left = y * y + a.in(x), right = tanh(y) - 2 / (y + 3);  // a diamond
    return left * right - y;
  }
};

struct Constants {
  Parameter<Fixed<4>, Constant<1>> a;
  constexpr auto forward(auto x) const {
    const auto y = a.in(x)*x;
    return tanh(-(2 * y + 1) / 3 - (1 - y) * 0.5 + 4 / (2 + y)) * a.in(x);
  }
};
}  // namespace

TEST_CASE("gradients of broadcasted arithmetic") {
  law::check_gradients<Broadcasts, Image<2, 3, 4>>({.low = 0.6f, .high = 1.4f, .step = 3e-3f});
}

TEST_CASE("gradients of broadcasted arithmetic between batches") {
  law::check_gradients<BatchedBroadcasts, Batched<2, 3>>({.low = 0.2f, .high = 0.8f, .step = 3e-3f});
}

TEST_CASE("gradients where a value is used more than once, and where it is not used") {
  law::check_gradients<Shared, Features<4>>({.step = 3e-3f});
}

TEST_CASE("gradients of arithmetic with numbers") { law::check_gradients<Constants, Features<4>>({.step = 3e-3f}); }
