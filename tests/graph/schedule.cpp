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

// What depends on parameters and buffers alone is prepared, in programs that change neither.
struct Weighted {
  Parameter<Fixed<4>, Constant<1>> weight;
  Parameter<Fixed<4, 4>, Constant<1>> matrix;
  constexpr auto forward(auto x) const {
    const auto y = relu(x * softmax(weight.in(x)) + weight.in(x)) * tanh(sum<0>(matmul(matrix.in(x), matrix.in(x))));
    return softmax(y) + sum_keep<0>(y);  // a value without a batch that is not prepared
  }
};
template <class Net, class Input>
inline constexpr int prepared = traced::Inference<Net, Input>::order.prepared;
static_assert(prepared<Weighted, Features<4>> == 3);  // softmax; matmul; sum with tanh
static_assert(traced::Inference<Weighted, Features<4>>::order.count == 7);
static_assert(prepared<networks::Residual, Image<2, 6, 5>> == 2);  // the scales of two batch norms
static_assert(prepared<Sequential<Linear<4, 3>, ReLU>, Features<4>> == 0);
static_assert(traced::Training<networks::Residual, Image<2, 6, 5>, CrossEntropy>::order.prepared == 0);

// What is prepared does not join what is not, over the same elements though they are: a sum over the batch and the
// region that multiplies it run each time, the tanh and the softmax of a parameter once.
constexpr auto element = [](auto w) { return tanh(w); };
constexpr auto kernel = [](auto w) { return softmax(w); };
static_assert(prepared<networks::Scaled<element, 4>, Features<4>> == 1);
static_assert(prepared<networks::Scaled<kernel, 4>, Features<4>> == 1);
struct ScaledAlone {  // the product is a loop of its own: a copy takes none with it
  Parameter<Fixed<2, 2>, Constant<1>> weight;
  constexpr auto forward(auto x) const {
    const auto total = transpose<-2, -1>(sum<0>(x));
    return x + total * tanh(weight.in(x));
  }
};
static_assert(prepared<ScaledAlone, Batched<2, 2>> == 1);
static_assert(traced::Inference<ScaledAlone, Batched<2, 2>>::order.count == 5);
}  // namespace

TEST_CASE("steps come in an order in which all that they read is there") {
  law::check_plan<traced::Inference<Weighted, Features<4>>>();
  law::check_plan<traced::Inference<networks::Scaled<element, 4>, Features<4>>>();
  law::check_plan<traced::Inference<networks::Scaled<kernel, 4>, Features<4>>>();
  law::check_plan<traced::Inference<ScaledAlone, Batched<2, 2>>>();
  law::check_plan<traced::Inference<networks::Residual, Image<2, 6, 5>>>();
  law::check_plan<traced::Inference<networks::Drawn<3>, Batched<3, 4>>>();
  law::check_plan<traced::Training<networks::Residual, Image<2, 6, 5>, CrossEntropy, Adam>>();
  law::check_plan<traced::Training<networks::Drawn<3>, Batched<3, 4>>>();
  law::check_plan<traced::Training<networks::Drawn<4>, Batched<3, 4>>>();
}
