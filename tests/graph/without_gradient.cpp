#include "tenet/graph/without_gradient.hpp"

#include <catch2/catch.hpp>

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"
#include "tenet/tenet.hpp"

namespace {

using namespace tenet;

using Tracing = traced::Context;
using Within = Tracing::WithoutGradient;
using Three = Batched<3>;

// What an operation is does not depend on where it stands; that it can be differentiated does.
using Square = Instance<ops::Square, Three>;
constexpr bool has_gradient(const auto& info) { return info.gradient != nullptr; }
static_assert(has_gradient(Square::info<Tracing>));
static_assert(!has_gradient(Square::info<Within>));
static_assert(Square::info<Within>.identity == Square::info<Tracing>.identity);
static_assert(Square::info<Within>.element == Square::info<Tracing>.element);
// Inside of a gradient inside of a gradient nothing changes any more.
static_assert(std::is_same_v<Within::WithoutGradient, Within>);
static_assert(std::is_same_v<Within::Base, Tracing>);
static_assert(Within::records_mistakes == Tracing::records_mistakes && Within::holds_values == Tracing::holds_values);

/// Ids of values that are traced through both contexts.
struct Ids {
  int outside, inside, parameter, same_parameter, seed, same_seed, salt, next_salt, buffer, assigned;
  bool training;
};
constexpr Ids trace() {
  Trace<Tracing, 32, 2> trace;
  int table[64]{}, assigned[3]{};
  Tracing context(trace, table, assigned, true);
  Within within{&context};
  const int x = context.leaf(Source::input, Three::info, 0);
  Ids ids{};
  ids.outside = square(Symbol<Tracing, Three>{&context, x}).id;
  ids.inside = square(Symbol<Within, Three>{&within, x}).id;
  ids.parameter = context.parameter(0, Three::info);
  ids.same_parameter = within.parameter(0, Three::info);
  ids.seed = context.seed();
  ids.same_seed = within.seed();
  ids.salt = context.next_salt();
  ids.next_salt = within.next_salt();
  within.assign(1, ids.inside);
  ids.buffer = within.buffer(1, Three::info);
  ids.assigned = context.assigned(1);
  ids.training = within.training();
  return ids;
}

// An operation whose gradient does not compile where it would be differentiated once more.
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

TEST_CASE("what is computed inside a gradient is found by the rest of the graph", "[without_gradient]") {
  constexpr Ids ids = trace();
  CHECK(ids.inside == ids.outside);  // a common subexpression
  CHECK(ids.same_parameter == ids.parameter);
  CHECK(ids.same_seed == ids.seed);
  CHECK(ids.next_salt == ids.salt + 1);  // dropout inside and outside draws different masks
  CHECK(ids.buffer == ids.inside);
  CHECK(ids.assigned == ids.inside);
  CHECK(ids.training);
}

TEST_CASE("what is computed inside a gradient is not differentiated again", "[without_gradient]") {
  reference::Serial serial;
  Eager<Reference> context(serial);
  decltype(context)::WithoutGradient within{&context};
  const float values[] = {2, 3, -4};
  const auto x = context.tensor<Fixed<3>>(values, 1, true);
  // y = x·s with s = x²: d y / d x = s + x·2x, and s alone where s is made inside.
  context.backward(sum(x * square(x)));
  const auto whole = context.gradient(x);
  CHECK(std::vector<float>(whole.begin(), whole.end()) == std::vector<float>{12, 27, 48});
  const auto inside = square(Symbol<decltype(within), Fixed<3>>{&within, x.id});
  CHECK(inside.values()[2] == 16);  // it runs as any other
  context.backward(sum(x * Symbol<decltype(context), Fixed<3>>{&context, inside.id}));
  const auto part = context.gradient(x);
  CHECK(std::vector<float>(part.begin(), part.end()) == std::vector<float>{4, 9, 16});
}

TEST_CASE("what a gradient computes becomes part of the same graph", "[without_gradient]") {
  using Step = traced::Training<Net, Features<3>, law::WeightedSum>;
  CHECK(traced::operations<Step>("once") == 2);
  Trainer<Net, law::WeightedSum, law::Nothing, Features<3>, Reference> trainer;
  const float x[] = {1, 2, 3}, target[] = {3, 3, 3};
  trainer.step(x, target, 1);
  CHECK(trainer.gradients()[1] == Approx(4));  // (3 / 3 elements)² · 2 · x
}

TEST_CASE("a program without a gradient holds no operation that has one, unless it stands beside a training step",
          "[without_gradient]") {
  using Layers = Sequential<Linear<3, 4>, GELU, Linear<4, 2>>;
  const auto differentiable = [](const auto& graph) {
    int count = 0;
    for (const auto& node : graph.nodes) count += node.is_computed() && node.operation->gradient != nullptr;
    return count;
  };
  CHECK(differentiable(Program<InferenceProgram<Layers, Three, ReferenceKernels>>::graph) == 0);
  using Training = Program<TrainingProgram<Layers, CrossEntropy, Sgd, Three, ReferenceKernels>>;
  using Beside = Program<InferenceProgram<Layers, Three, ReferenceKernels, Tracer<ReferenceKernels>>>;
  CHECK(Beside::graph.count == Program<InferenceProgram<Layers, Three, ReferenceKernels>>::graph.count);
  using Evaluating = Program<EvaluationProgram<Layers, CrossEntropy, Three, ReferenceKernels>>;
  for (int i = 0; i < Beside::graph.count; ++i) {  // the step's own operations, not ones of the same kind
    CHECK(Beside::graph.nodes[i].operation == Training::graph.nodes[i].operation);
    CHECK(Evaluating::graph.nodes[i].operation == Training::graph.nodes[i].operation);
  }
  using Trained = Trainer<Layers, CrossEntropy, Sgd, Three, Reference>;
  static_assert(std::is_same_v<Trained::Predicting, Beside> && std::is_same_v<Trained::Evaluating, Evaluating>);
  CHECK(differentiable(Training::graph) > 0);
  for (int i = Training::graph.forward_count; i < Training::graph.count; ++i) {  // the backward pass and the update
    const auto* operation = Training::graph.nodes[i].operation;
    if (operation != nullptr) CHECK(operation->gradient == nullptr);
  }
}
