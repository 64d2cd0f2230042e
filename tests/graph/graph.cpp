#include "tenet/graph/graph.hpp"

#include <catch2/catch.hpp>

#include "../support/networks.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
template <class Program>
constexpr int outputs(Destination destination) {
  int count = 0;
  for (const Output& output : Program::graph.outputs) count += output.destination == destination;
  return count;
}
template <class Program>
constexpr int leaves(Source source) {
  int count = 0;
  for (const auto& node : Program::graph.nodes) count += node.source == source;
  return count;
}

using Net = networks::Residual;
using Training = traced::Training<Net, Image<2, 6, 5>, CrossEntropy, Adam>;
using Evaluating = Program<EvaluationProgram<Net, CrossEntropy, Image<2, 6, 5>, traced::Kernels>>;
using Inference = traced::Inference<Net, Image<2, 6, 5>>;

static_assert(outputs<Training>(Destination::gradient) == 10);
static_assert(outputs<Training>(Destination::buffer) == 4);
static_assert(outputs<Training>(Destination::parameters) == 1);
static_assert(outputs<Training>(Destination::state) == 2);
static_assert(outputs<Training>(Destination::result) == 2);

// Evaluation and inference carry nothing of the training.
template <class Program>
constexpr bool pure =
    Program::graph.output_count == outputs<Program>(Destination::result) && leaves<Program>(Source::gradients) == 0 &&
    leaves<Program>(Source::state) == 0 && leaves<Program>(Source::scalar) == 0 &&
    leaves<Program>(Source::parameters) == 0 && leaves<Program>(Source::seed) == 0;
static_assert(pure<Evaluating> && pure<Inference>);
static_assert(Evaluating::graph.output_count == 2 && Inference::graph.output_count == 1);
static_assert(Inference::graph.count < Training::graph.count / 2);

// Dead code leaves no node.
struct Dead {
  Parameter<Fixed<3>, Constant<1>> a;
  constexpr auto forward(auto x) const {
    [[maybe_unused]] const auto dead = exp(x) * a.in(x);
    return tanh(x);
  }
};
static_assert(traced::Inference<Dead, Features<3>>::graph.count == 2);
}  // namespace

TEST_CASE("every node is computed behind its operands and is needed by one behind it, or is an output") {
  const auto& graph = Training::graph;
  bool used[Training::graph.count]{};
  for (const Output& output : graph.outputs) used[output.node] = true;
  for (int i = graph.count - 1; i >= 0; --i) {
    CHECK(used[i]);
    for (int j = 0; j < graph.nodes[i].operand_count; ++j) {
      CHECK(graph.nodes[i].operands[j] < i);
      used[graph.nodes[i].operands[j]] = true;
    }
  }
  CHECK(graph.forward_count > 0);
  CHECK(graph.forward_count < graph.count);
}
