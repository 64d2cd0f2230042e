#include "tenet/ops/shape.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;
using traced::ResultOf;

namespace {
using X = Batched<2, 3, 4>;
static_assert(std::is_same_v<ResultOf<decltype([](auto x) { return reshape<6, 4>(x); }), X>, Batched<6, 4>>);
static_assert(std::is_same_v<ResultOf<decltype([](auto x) { return flatten(x); }), X>, Batched<24>>);
static_assert(std::is_same_v<ResultOf<decltype([](auto x) { return transpose<1, 3>(x); }), X>, Batched<4, 3, 2>>);
static_assert(std::is_same_v<ResultOf<decltype([](auto x) { return transpose<-1, -2>(x); }), X>, Batched<2, 4, 3>>);
static_assert(std::is_same_v<ResultOf<decltype([](auto x) { return narrow<2, 1, 2>(x); }), X>, Batched<2, 2, 4>>);
static_assert(std::is_same_v<ResultOf<decltype([](auto x) { return concatenate<1>(x, x, x); }), X>, Batched<6, 3, 4>>);
static_assert(std::is_same_v<ResultOf<decltype([](auto x) { return concatenate<-1>(x, x); }), X>, Batched<2, 3, 8>>);
static_assert(std::is_same_v<ResultOf<decltype([](auto x) { return transpose<0, 1>(x); }), Fixed<5, 6>>, Fixed<6, 5>>);

// Views cost nothing, and two after each other that undo each other vanish.
template <auto function>
inline constexpr int nodes = traced::Inference<traced::Function<function>, X>::graph.count;
static_assert(traced::count<[](auto x) { return reshape<4, 6>(flatten(x)); }, X> == 0);
static_assert(nodes<[](auto x) { return reshape<2, 3, 4>(flatten(x)); }> == 1);
static_assert(nodes<[](auto x) { return reshape<4, 6>(flatten(reshape<3, 8>(x))); }> == 2);

struct Shapes {
  Parameter<Fixed<2, 3, 4>, Constant<1>> a;
  Parameter<Fixed<3, 2>, Constant<1>> b;
  constexpr auto forward(auto x) const {
    const auto y = tanh(x * a.in(x));
    const auto turned = transpose<1, 3>(y);                                                  // (4, 3, 2)
    const auto parts = narrow<1, 1, 2>(turned) * transpose<0, 1>(transpose<0, 1>(b.in(x)));  // (2, 3, 2)
    const auto joined = concatenate<3>(parts, narrow<3, 1, 2>(y), narrow<3, 0, 1>(y));       // (2, 3, 5)
    return tanh(concatenate<1>(joined, reshape<1, 3, 5>(narrow<1, 0, 1>(joined))) *
                reshape<3, 1>(narrow<1, 1, 1>(b.in(x))));
  }
};

struct Moves {
  constexpr auto forward(auto x) const {
    return concatenate<1>(flatten(transpose<1, 2>(x)), flatten(narrow<2, 1, 2>(x)));
  }
};
}  // namespace

TEST_CASE("gradients of reshape, transpose, narrow and concatenate") {
  law::check_gradients<Shapes, Image<2, 3, 4>>({.step = 3e-3f});
}

TEST_CASE("elements move where they should") {
  Model<Moves, Batched<2, 3>, Reference> model;
  const float x[] = {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60};
  const auto y = model(x, 2);
  CHECK(std::vector<float>(y.begin(), y.end()) ==
        std::vector<float>{1, 4, 2, 5, 3, 6, 2, 3, 5, 6, 10, 40, 20, 50, 30, 60, 20, 30, 50, 60});
}
