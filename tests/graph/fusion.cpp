#include "tenet/graph/fusion.hpp"

#include "../support/gradient_check.hpp"
#include "../support/networks.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
// Ten squarings are one loop; the update of an optimizer is one with all its results.
constexpr auto squarings = [](auto x) {
  for (int i = 0; i < 10; ++i) x = x * x;
  return x;
};
static_assert(traced::Inference<traced::Function<squarings>, Features<5>>::order.count == 1);

template <class Optimizer>
using Update = traced::Training<Sequential<Linear<3, 2>>, Features<3>, MeanSquaredError, Optimizer>;
// Loops over all parameters; numbers such as 1 - beta are computed before.
template <class Program>
constexpr int loops_of_update() {
  int first = 0, count = 0;
  while (Program::graph.nodes[first].source != Source::gradients) ++first;
  for (int s = 0; s < Program::order.count; ++s)
    count += Program::order.head[s] > first && Program::graph.nodes[Program::order.head[s]].type->size() > 1;
  return count;
}
static_assert(loops_of_update<Update<Sgd>>() == 1);
static_assert(loops_of_update<Update<Adam>>() == 1);
static_assert(loops_of_update<Update<AdamW>>() == 1);

// In a program for inference a convolution carries batch norm and ReLU as its epilogue: the scale, which is computed
// from nodes behind it, is prepared.
template <class Program>
constexpr int convolutions_with_epilogue() {
  int count = 0;
  for (int i = 0; i < Program::graph.count; ++i)
    count += Program::graph.nodes[i].is_computed() &&
             std::string_view(Program::graph.nodes[i].operation->name) == "conv2d" &&
             Program::fusion.epilogue[i] >= 0 && Program::fusion.absorbed[i];
  return count;
}
template <class Program>
constexpr int steps_of_a_run = Program::order.count - Program::order.prepared;
using Unit = Sequential<Conv2d<2, 4, 3>, BatchNorm2d<4>, ReLU>;
using OnCpu = Model<Unit, Image<2, 6, 5>, Cpu<>>::Inference;
static_assert(convolutions_with_epilogue<traced::Inference<Unit, Image<2, 6, 5>>>() == 1);
static_assert(steps_of_a_run<traced::Inference<Unit, Image<2, 6, 5>>> == 1);
static_assert(convolutions_with_epilogue<OnCpu>() == 1 && steps_of_a_run<OnCpu> == 1);

// A compiled step, whose operations are fused and whose memory is planned, does what the same network does line by line
// on tensors of their own.
template <class Net, class Input, class Device>
void compare(int batch) {
  using Compiled = Trainer<Net, MeanSquaredError, Sgd, Input, Device>;
  const Sgd sgd{.learning_rate = 0.1f, .momentum = 0.9f};
  Compiled compiled(sgd, 5);
  Imperative<Net, Reference> imperative(5);
  const auto inputs = law::sample<float>(Input::size * batch, 1, {});
  const auto targets = law::sample<float>(Compiled::Target::size * batch, 2, {});
  const auto close = [](const float* found, const float* expected, long size) {
    double worst = 0, largest = 0;
    for (long i = 0; i < size; ++i) {
      worst = std::fmax(worst, std::fabs(found[i] - expected[i]));
      largest = std::fmax(largest, std::fabs(expected[i]));
    }
    CHECK(largest > 0);
    CHECK(worst <= 2e-5 * (1 + largest));
  };
  for (int step = 0; step < 2; ++step) {
    const auto x = imperative.template tensor<Input>(inputs.data(), batch);
    const auto target = imperative.template tensor<typename Compiled::Target>(targets.data(), batch);
    const auto loss = MeanSquaredError::loss(imperative(x), target);
    const float expected = loss.values()[0];
    imperative.backward(loss);
    imperative.step(sgd);
    CHECK(compiled.step(inputs.data(), targets.data(), batch).loss == Approx(expected).epsilon(2e-5));
    close(compiled.gradients(), imperative.gradients(), slot_table<Net>.parameter_floats);
    close(compiled.weights().parameters(), imperative.weights().parameters(), slot_table<Net>.parameter_floats);
  }
}

template <unsigned... seeds>
void compare_drawn() {
  (compare<networks::Drawn<seeds>, Batched<3, 4>, Cpu<0, 2>>(7), ...);
}

// Updated in the backward pass, a parameter and its states are results of one region behind the kernel or the sum that
// computes the gradient.
template <class Optimizer>
constexpr int updates_behind_gradients() {
  using Step = Program<TrainingProgram<Sequential<Linear<3, 2>>, MeanSquaredError, Optimizer, Features<3>,
                                       traced::Kernels, UpdateInBackward>>;
  int count = 0;
  for (const Output& output : Step::graph.outputs) {
    const int region = Step::fusion.region[output.node];
    count += output.destination != Destination::result && Step::fusion.anchor[region] >= 0;
  }
  return count;
}
static_assert(updates_behind_gradients<PlainSgd>() == 2);  // of the weight and of the bias
static_assert(updates_behind_gradients<Sgd>() == 4);
// The bias comes first: numbers such as 1 - beta are computed behind its gradient, and its update waits for them.
static_assert(updates_behind_gradients<AdamW>() == 3);

template <class Program>
void check_regions() {
  constexpr auto& graph = Program::graph;
  constexpr auto& fusion = Program::fusion;
  for (int i = 0; i < graph.count; ++i) {
    const auto* const operation = graph.nodes[i].operation;
    if (operation == nullptr || operation->kind != Kind::element) continue;
    // Stored, or a member of the region of everyone who reads it.
    if (fusion.stored[i]) {
      bool inside = false;
      for (int m = fusion.first_member[fusion.region[i]]; m >= 0; m = fusion.next_member[m])
        inside = inside || fusion.member[m] == i;
      CHECK(inside);
    }
    int members = 0, previous = graph.count;
    for (int m = fusion.first_member[i]; m >= 0; m = fusion.next_member[m]) {
      CHECK(fusion.member[m] < previous);
      previous = fusion.member[m];
      ++members;
    }
    CHECK(members <= max_fused_operations);
  }
  for (const auto& program : Program::lowered.programs) {
    CHECK(program.wiring.inputs <= max_region_inputs);
    CHECK(program.wiring.outputs <= max_fused_outputs);
  }
}

// A sum of two towers stands behind the later one's kernel, but where it is to stand alone, since the other tower does
// not stand behind that kernel. A residual sum reads what its kernel needs anyway.
struct TwoTowers {
  Linear<4, 4> left, right;
  constexpr auto forward(auto x) const { return relu(left(x) + right(x)); }
};
struct ResidualSum {
  Linear<4, 4> first, second;
  constexpr auto forward(auto x) const {
    const auto y = relu(first(x));
    return relu(second(y) + y);
  }
};
template <class Net, class Input = Features<4>>
constexpr int steps_with_joins_alone(bool alone) {
  constexpr const auto& graph = traced::Inference<Net, Input>::graph;
  return schedule(graph, fuse(graph, alone)).count;
}
static_assert(steps_with_joins_alone<TwoTowers>(false) == 2 && steps_with_joins_alone<TwoTowers>(true) == 3);
static_assert(steps_with_joins_alone<Unit, Image<2, 6, 5>>(true) ==
              steps_with_joins_alone<Unit, Image<2, 6, 5>>(false));
static_assert(steps_with_joins_alone<ResidualSum>(false) == 2 && steps_with_joins_alone<ResidualSum>(true) == 2);
}  // namespace

TEST_CASE("fused and planned, drawn networks compute what they compute line by line") {
  compare_drawn<11, 12, 13, 14, 15, 16>();
}

TEST_CASE("regions are whole and within their limits") {
  check_regions<traced::Training<networks::Residual, Image<2, 6, 5>, CrossEntropy, Adam>>();
  check_regions<traced::Training<networks::Drawn<17>, Batched<3, 4>>>();
  check_regions<Program<TrainingProgram<networks::Drawn<17>, MeanSquaredError, Adam, Batched<3, 4>, traced::Kernels,
                                        UpdateInBackward>>>();
}
