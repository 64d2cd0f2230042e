#include "tenet/ops/activation.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;
using traced::ResultOf;

namespace {
constexpr auto all = [](auto x) { return relu(x) + sigmoid(x) + tanh(x) + gelu(x); };
static_assert(std::is_same_v<ResultOf<decltype(all), Batched<2, 3>>, Batched<2, 3>>);
static_assert(std::is_same_v<ResultOf<decltype(all), Fixed<5>>, Fixed<5>>);
static_assert(traced::count<[](auto x) { return relu(relu(x)); }> == 1);
static_assert(traced::count<[](auto x) { return relu(tanh(relu(x))); }> == 3);

// Each activation between a product with a parameter and a layer.
struct Activations {
  Parameter<Fixed<5>, Constant<1>> relu_, sigmoid_, tanh_, gelu_;
  Linear<5, 3> after;
  constexpr auto forward(auto x) const {
    return after(relu(x * relu_.in(x)) + sigmoid(x * sigmoid_.in(x)) * tanh(x * tanh_.in(x)) + gelu(x * gelu_.in(x)));
  }
};
}  // namespace

TEST_CASE("gradients of activations") {
  law::check_gradients<Activations, Features<5>>({.low = -2, .high = 2, .step = 3e-3f});
}

TEST_CASE("values of activations") {
  using Net = traced::Function<[](auto x) { return concatenate<1>(relu(x), sigmoid(x), tanh(x), gelu(x)); }>;
  Model<Net, Features<1>, Reference> model;
  const auto check = [&](float x, float r, float s, float t, float g) {
    const auto y = model(&x);
    CHECK(y[0] == r);
    CHECK(y[1] == Approx(s));
    CHECK(y[2] == Approx(t));
    CHECK(y[3] == Approx(g).margin(1e-7));
  };
  check(0.0f, 0.0f, 0.5f, 0.0f, 0.0f);
  check(1.0f, 1.0f, 0.73105858f, 0.76159416f, 0.84134475f);
  check(-2.0f, 0.0f, 0.11920292f, -0.96402758f, -0.04550026f);
  float nan = std::nanf("");
  CHECK(std::isnan(model(&nan)[0]));  // a NaN is passed on, not hidden
}
