#include "tenet/ops/matmul.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
template <bool TransposeLhs, bool TransposeRhs>
constexpr auto product = [](auto a, auto b) { return matmul<TransposeLhs, TransposeRhs>(a, b); };
template <bool TransposeLhs, bool TransposeRhs, class A, class B>
using Product = traced::ResultOf<decltype(product<TransposeLhs, TransposeRhs>), A, B>;
static_assert(std::is_same_v<Product<false, false, Batched<3>, Fixed<3, 4>>, Batched<4>>);
static_assert(std::is_same_v<Product<false, true, Batched<5, 3>, Fixed<4, 3>>, Batched<5, 4>>);
static_assert(std::is_same_v<Product<false, false, Batched<2, 5, 3>, Batched<2, 3, 4>>, Batched<2, 5, 4>>);
static_assert(std::is_same_v<Product<true, true, Batched<3, 5>, Batched<4, 3>>, Batched<5, 4>>);
static_assert(std::is_same_v<Product<false, false, Fixed<2, 3>, Fixed<3, 4>>, Fixed<2, 4>>);
static_assert(
    traced::Inference<traced::Function<[](auto x) { return matmul<false, true>(x, x); }>, Batched<3, 4>>::flops.at(5) ==
    5 * 2 * 3 * 3 * 4);

// One matrix for the whole batch, given either way.
struct SharedFactor {
  Parameter<Fixed<2, 3>, Constant<1>> a;
  Parameter<Fixed<3, 4>, Constant<1>> b;
  Parameter<Fixed<5, 4>, Constant<1>> c;
  constexpr auto forward(auto x) const {
    return tanh(matmul<false, true>(tanh(matmul(x * a.in(x), b.in(x))), c.in(x)));
  }
};

// A matrix for every sample, transposed in all four ways.
struct Batches {
  Parameter<Fixed<2, 3, 3>, Constant<1>> a, b;
  constexpr auto forward(auto x) const {
    const auto left = tanh(x * a.in(x)), right = x + b.in(x);
    const auto y = matmul(left, right) * matmul<true, false>(left, right);
    return tanh(y + matmul<false, true>(left, right) * matmul<true, true>(right, left));
  }
};

// Rectangular, so that no transposition goes unnoticed.
template <bool TransposeLhs, bool TransposeRhs>
struct Rectangular {
  Parameter<Fixed<2, 4>, Constant<1>> a;
  Parameter<Fixed<4, 3>, Constant<1>> b;
  constexpr auto forward(auto x) const {
    const auto lhs = tanh(x * a.in(x));                              // (batch, 2, 4)
    const auto rhs = matmul(transpose<1, 2>(x * a.in(x)), tanh(x));  // (batch, 4, 4)
    const auto wide = matmul(rhs, b.in(x));                          // (batch, 4, 3)
    const auto left = [&] {
      if constexpr (TransposeLhs)
        return transpose<1, 2>(lhs);
      else
        return lhs;
    }();
    const auto right = [&] {
      if constexpr (TransposeRhs)
        return transpose<1, 2>(wide);
      else
        return wide;
    }();
    return tanh(matmul<TransposeLhs, TransposeRhs>(left, right));
  }
};

// Two parameters: no batch at all in the product.
struct Constants {
  Parameter<Fixed<2, 3>, Constant<1>> a;
  Parameter<Fixed<3, 4>, Constant<1>> b;
  constexpr auto forward(auto x) const { return x * tanh(matmul(a.in(x), b.in(x))); }
};
}  // namespace

TEST_CASE("gradients of a product with one matrix for all samples") {
  law::check_gradients<SharedFactor, Batched<2, 3>>({.step = 3e-3f});
}

TEST_CASE("gradients of a product of a matrix of every sample") {
  law::check_gradients<Batches, Batched<2, 3, 3>>({.step = 3e-3f});
  law::check_gradients<Rectangular<true, false>, Batched<2, 4>>({.step = 3e-3f});
  law::check_gradients<Rectangular<true, true>, Batched<2, 4>>({.step = 3e-3f});
}

TEST_CASE("gradients of a product without a batch") { law::check_gradients<Constants, Batched<2, 4>>({.step = 3e-3f}); }
