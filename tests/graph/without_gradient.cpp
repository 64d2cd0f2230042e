#include "tenet/graph/without_gradient.hpp"

#include <catch2/catch.hpp>

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
using Within = WithoutGradientContext<traced::Context>;
static_assert(!Within::differentiable && traced::Context::differentiable);
static_assert(std::is_same_v<Within::WithoutGradient, Within>);
static_assert(Within::records_mistakes);

// An operation whose gradient does not compile where it is differentiated once more.
struct Once : ElementOperation {
  static constexpr const char* name = "once";
  static constexpr auto element(auto x) { return x * x; }
  template <class Context, class Y, class Type>
  static constexpr auto gradient(Symbol<Context, Y>, Symbol<Context, Y> upstream, Symbol<Context, Type> x) {
    static_assert(!Context::differentiable, "gradients are traced in a context without gradients");
    return gradients([=] { return apply<Once>(upstream) * x; });
  }
};
struct Net {
  Parameter<Fixed<3>, Constant<1>> a;
  constexpr auto forward(auto x) const { return apply<Once>(x * a.in(x)); }
};
}  // namespace

TEST_CASE("what a gradient computes becomes part of the same graph, without a gradient of its own") {
  using Step = traced::Training<Net, Features<3>, law::WeightedSum>;
  CHECK(traced::operations<Step>("once") == 2);
  Trainer<Net, law::WeightedSum, law::Nothing, Features<3>, Reference> trainer;
  const float x[] = {1, 2, 3}, target[] = {3, 3, 3};
  trainer.step(x, target, 1);
  CHECK(trainer.gradients()[1] == Approx(4));  // (3 / 3 elements)² · 2 · x
}
