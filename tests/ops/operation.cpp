#include "tenet/ops/operation.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {

// An operation of one's own, element-wise: the whole of it, with its gradient.
struct Cube : ElementOperation {
  static constexpr const char* name = "cube";
  static constexpr auto element(auto x) { return x * x * x; }
  static constexpr auto gradient(auto, auto upstream, auto x) {
    return gradients([=] { return 3.0f * x * x * upstream; });
  }
};
constexpr auto cube(AnySymbol auto x) { return apply<Cube>(x); }

// Three operands, one of which gets no gradient.
struct Blend : ElementOperation {
  static constexpr const char* name = "blend";
  static constexpr auto element(auto a, auto b, auto weight) { return a * weight + b * (1.0f - weight); }
  static constexpr auto gradient(auto, auto upstream, auto, auto, auto weight) {
    return gradients([=] { return upstream * weight; }, [=] { return upstream * (1 - weight); }, no_gradient);
  }
};
constexpr auto blend(AnySymbol auto a, AnySymbol auto b, AnySymbol auto weight) {
  return apply_broadcast<Blend>(0, a, b, weight);
}

struct Net {
  Parameter<Fixed<4>, Constant<1>> a, b;
  Linear<4, 2> after;
  constexpr auto forward(auto x) const { return after(blend(cube(x * a.in(x)), x * b.in(x), constant(x, 0.3f))); }
};

static_assert(Cost{3, 5}.at(4) == 17);
static_assert(std::is_same_v<decltype(gradients(no_gradient, [] { return 1; }).of<0>()), const NoGradient&>);
static_assert(gradients(no_gradient, [] { return 1; }).of<1>()() == 1);
static_assert(decltype(gradients(no_gradient, [] { return 1; }))::count == 2);
static_assert(traced::count<[](auto x) { return cube(x) + cube(x); }> == 2);
}  // namespace

TEST_CASE("a user's element-wise operations are differentiated like the library's") {
  law::check_gradients<Net, Features<4>>({.step = 3e-3f});
}

TEST_CASE("a user's element-wise operation runs in vectors too") {
  Model<traced::Function<[](auto x) { return cube(x); }>, Features<37>, Cpu<0, 2>> model;
  const std::vector<float> x = law::sample<float>(37 * 5, 1, {});
  const auto y = model(x.data(), 5);
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(y[i] == Approx(x[i] * x[i] * x[i]));
}
