#include "tenet/graph/schedule.hpp"

#include "../support/networks.hpp"
#include "../support/plan_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
// One step for each kernel, with what follows it element by element; one for a chain of element-wise operations.
template <auto function, class Input = Features<4>>
inline constexpr int steps = traced::Inference<traced::Function<function>, Input>::order.count;
static_assert(steps<[](auto x) { return tanh(exp(x * x) + x) * 2; }> == 1);
static_assert(steps<[](auto x) { return relu(softmax(x) + x) * 2; }> == 1);
static_assert(steps<[](auto x) { return softmax(softmax(x)); }> == 2);
static_assert(steps<[](auto x) { return flatten(flatten(x)); }> == 0);
static_assert(traced::Inference<Sequential<Conv2d<1, 2, 3>, ReLU, Flatten, Linear<72, 3>, Tanh>, Image<1, 8, 8>>::order
                  .count == 2);
}  // namespace

TEST_CASE("steps come in an order in which all that they read is there") {
  law::check_plan<traced::Training<networks::Residual, Image<2, 6, 5>, CrossEntropy, Adam>>();
  law::check_plan<traced::Training<networks::Drawn<3>, Batched<3, 4>>>();
  law::check_plan<traced::Training<networks::Drawn<4>, Batched<3, 4>>>();
}
