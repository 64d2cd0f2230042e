#include "tenet/ops/softmax.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
static_assert(
    std::is_same_v<traced::ResultOf<decltype([](auto x) { return softmax(x); }), Batched<3, 4>>, Batched<3, 4>>);

struct Softmaxes {
  Parameter<Fixed<4, 4>, Constant<1>> plain, causal, logarithmic;
  Linear<4, 3> after;
  constexpr auto forward(auto x) const {
    return after(softmax(x * plain.in(x)) * causal_softmax(x + causal.in(x)) -
                 0.2 * log_softmax(x * logarithmic.in(x)));
  }
};

struct Values {
  constexpr auto forward(auto x) const { return concatenate<1>(softmax(x), causal_softmax(x), log_softmax(x)); }
};
}  // namespace

TEST_CASE("gradients of softmax, causal softmax and log softmax") {
  law::check_gradients<Softmaxes, Batched<4, 4>>({.low = -2, .high = 2, .step = 5e-3f});
}

TEST_CASE("rows of softmax sum to one, the future has no weight, nothing overflows") {
  Model<Values, Batched<2, 2>, Reference> model;
  const float x[] = {1000, 999, -1000, -998};
  const auto y = model(x);
  CHECK(y[0] == Approx(0.73105858f));
  CHECK(y[0] + y[1] == Approx(1));
  CHECK(y[4] == 1.0f);
  CHECK(y[5] == 0.0f);
  CHECK(y[6] + y[7] == Approx(1));
  CHECK(y[9] == Approx(-1.31326169f));
}
