#include "tenet/graph/backward.hpp"

#include "../support/gradient_check.hpp"
#include "../support/networks.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
template <class Net, class Input>
using Training = traced::Training<Net, Input, law::WeightedSum>;

// The first convolution's input has no gradient, the second one's has.
using Two = Training<Sequential<Conv2d<1, 2, 3>, Conv2d<2, 2, 3>>, Image<1, 8, 8>>;
static_assert(traced::operations<Two>("conv2d_weight_gradient") == 2);
static_assert(traced::operations<Two>("conv2d_input_gradient") == 1);

// What does not lead to the loss, or has no parameter behind it, is not differentiated.
struct Partly {
  Parameter<Fixed<3>, Constant<1>> a, unused;
  constexpr auto forward(auto x) const {
    [[maybe_unused]] const auto dead = exp(x * unused.in(x));
    return tanh(sigmoid(x)) * a.in(x);
  }
};
using PartlyProgram = Training<Partly, Features<3>>;
static_assert(traced::operations<PartlyProgram>("exp") == 0);
static_assert(traced::operations<PartlyProgram>("tanh_gradient") == 0);
static_assert(traced::operations<PartlyProgram>("sigmoid_gradient") == 0);

template <class Program>
constexpr int gradients_of() {
  int count = 0;
  for (const Output& output : Program::graph.outputs) count += output.destination == Destination::gradient;
  return count;
}
static_assert(gradients_of<Two>() == 4);
static_assert(gradients_of<PartlyProgram>() == 1);
static_assert(gradients_of<traced::Inference<Partly, Features<3>>>() == 0);

// Many ways from a parameter to the loss; a fan-out of the same value to one operation.
struct Diamonds {
  Parameter<Fixed<4>, Constant<1>> a, b, unused;
  constexpr auto forward(auto x) const {
    const auto y = x * a.in(x);
    const auto left = tanh(y), right = y * y;
    const auto joined = left * right + left * b.in(x) + y;
    return joined * joined - maximum(left, right) * sum_keep<1>(joined) + a.in(x);
  }
};
}  // namespace

TEST_CASE("what meets at a value is added") {
  law::check_gradients<Diamonds, Features<4>>({.step = 2e-3f, .tolerance = 4e-3});
}

TEST_CASE("gradients of drawn networks are those of finite differences") {
  law::check_gradients<networks::Drawn<1, 6>, Batched<3, 4>>({.step = 1e-3f, .tolerance = 1e-2});
  law::check_gradients<networks::Drawn<2, 6>, Batched<3, 4>>({.step = 1e-3f, .tolerance = 1e-2});
}
