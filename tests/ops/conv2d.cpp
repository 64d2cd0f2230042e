#include "tenet/ops/conv2d.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
template <int Stride, int Padding>
constexpr auto convolve = [](auto x, auto w) { return conv2d<Stride, Padding>(x, w); };
template <int Stride, int Padding, class X, class W>
using Result = traced::ResultOf<decltype(convolve<Stride, Padding>), X, W>;
static_assert(std::is_same_v<Result<1, 0, Image<3, 28, 20>, Fixed<8, 3, 5, 5>>, Batched<8, 24, 16>>);
static_assert(std::is_same_v<Result<2, 1, Image<3, 28, 28>, Fixed<8, 3, 3, 3>>, Batched<8, 14, 14>>);
static_assert(std::is_same_v<Result<2, 0, Image<4, 7, 6>, Fixed<2, 4, 1, 1>>, Batched<2, 4, 3>>);
static_assert(std::is_same_v<Result<1, 2, Image<1, 3, 1>, Fixed<1, 1, 5, 5>>, Batched<1, 3, 1>>);

// A product before and a layer behind; a window that is not square and an image that is not square.
template <int Stride, int Padding, int KernelHeight, int KernelWidth>
struct Between {
  Parameter<Fixed<2, 5, 4>, Constant<1>> before;
  Parameter<Fixed<3, 2, KernelHeight, KernelWidth>, Constant<1>> weight;
  Parameter<Fixed<3, 1, 1>, Constant<1>> after;
  constexpr auto forward(auto x) const {
    return tanh(conv2d<Stride, Padding>(x * before.in(x), weight.in(x)) * 0.3f + after.in(x));
  }
};
}  // namespace

TEST_CASE("gradients of a convolution") {
  law::check_gradients<Between<1, 0, 3, 3>, Image<2, 5, 4>>({.step = 5e-3f});
  law::check_gradients<Between<2, 1, 3, 3>, Image<2, 5, 4>>({.step = 5e-3f});
  law::check_gradients<Between<3, 2, 2, 3>, Image<2, 5, 4>>({.step = 5e-3f});
}
