#include "tenet/train/programs.hpp"

#include <catch2/catch.hpp>
#include <tenet/nn/activation.hpp>
#include <tenet/nn/batch_norm.hpp>
#include <tenet/nn/conv2d.hpp>
#include <tenet/nn/dropout.hpp>
#include <tenet/nn/linear.hpp>
#include <tenet/nn/pool2d.hpp>
#include <tenet/nn/sequential.hpp>
#include <tenet/optim/adam.hpp>
#include <tenet/optim/sgd.hpp>

#include "../support/traced.hpp"

using namespace tenet;

namespace {
using Net = Sequential<Conv2d<1, 2, 3>, BatchNorm2d<2>, ReLU, Conv2d<2, 3, 3>, ReLU, Dropout<>, Flatten, Linear<48, 5>>;
using Input = Image<1, 8, 8>;
using Predicting = traced::Inference<Net, Input>;
using Evaluating = Program<EvaluationProgram<Net, CrossEntropy, Input, traced::Kernels>>;
using Training = traced::Training<Net, Input, CrossEntropy, AdamW>;

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
template <class Program>
constexpr int gradient_operations() {
  int count = 0;
  for (const auto& node : Program::graph.nodes)
    if (node.is_computed()) count += std::string_view(node.operation->name).find("gradient") != std::string_view::npos;
  return count;
}
/// Neither gradients nor anything that changes the network.
template <class Program>
constexpr bool only_reads() {
  return outputs<Program>(Destination::gradient) == 0 && outputs<Program>(Destination::parameters) == 0 &&
         outputs<Program>(Destination::state) == 0 && outputs<Program>(Destination::buffer) == 0 &&
         leaves<Program>(Source::gradients) == 0 && leaves<Program>(Source::parameters) == 0 &&
         leaves<Program>(Source::state) == 0 && leaves<Program>(Source::scalar) == 0 &&
         leaves<Program>(Source::seed) == 0 && gradient_operations<Program>() == 0;
}

static_assert(only_reads<Predicting>() && only_reads<Evaluating>());
static_assert(Predicting::graph.output_count == 1 && Evaluating::graph.output_count == 2);
static_assert(leaves<Predicting>(Source::input) == 1 && leaves<Evaluating>(Source::input) == 2);
static_assert(leaves<Predicting>(Source::buffer) == 2);  // running statistics
static_assert(traced::operations<Predicting>("conv2d") == 2 && traced::operations<Predicting>("dropout_mask") == 0);

// The step: a gradient a parameter, the running statistics, parameters and both moments of AdamW.
static_assert(outputs<Training>(Destination::result) == 2 && outputs<Training>(Destination::gradient) == 8);
static_assert(outputs<Training>(Destination::buffer) == 2);
static_assert(outputs<Training>(Destination::parameters) == 1 && outputs<Training>(Destination::state) == 2);
static_assert(traced::operations<Training>("dropout_mask") == 1);

// Updated in the backward pass: each parameter and both of its moments by themselves, and no gradient is left.
using InBackward = Program<TrainingProgram<Net, CrossEntropy, AdamW, Input, traced::Kernels, UpdateInBackward>>;
static_assert(outputs<InBackward>(Destination::parameter) == 8 && outputs<InBackward>(Destination::slot_state) == 16);
static_assert(outputs<InBackward>(Destination::gradient) == 0 && outputs<InBackward>(Destination::buffer) == 2);
static_assert(outputs<InBackward>(Destination::parameters) == 0 && outputs<InBackward>(Destination::state) == 0);
static_assert(leaves<InBackward>(Source::parameters) == 0 && leaves<InBackward>(Source::gradients) == 0);
static_assert(leaves<InBackward>(Source::slot_state) == 16);

// Operations of that name that were traced, whether or not an output depends on them.
template <class Program>
constexpr int traced_operations(std::string_view name) {
  int count = 0;
  for (int i = 0; i < Program::trace.count; ++i) {
    const auto* const operation = Program::trace.nodes[i].operation;
    count += operation != nullptr && name == operation->name;
  }
  return count;
}

// Dead gradients are not even traced: nothing flows to the images, so the first convolution has a gradient of its
// weight alone.
static_assert(traced_operations<Training>("conv2d") == 2);
static_assert(traced_operations<Training>("conv2d_input_gradient") == 1);
static_assert(traced::operations<Training>("conv2d_input_gradient") == 1);
static_assert(traced::operations<Training>("conv2d_weight_gradient") == 2);
using OneLayer = traced::Training<Sequential<Conv2d<1, 2, 3>, ReLU, Flatten, Linear<72, 5>>, Input, CrossEntropy>;
static_assert(traced::operations<OneLayer>("conv2d_input_gradient") == 0);
static_assert(traced::operations<OneLayer>("conv2d_weight_gradient") == 1);

// A parameter that no output depends on has no gradient, and its layer is not run.
struct Half {
  Linear<4, 4> used, unused;
  constexpr auto forward(auto x) const {
    unused(x);
    return used(x);
  }
};
static_assert(traced::operations<traced::Inference<Half, Features<4>>>("matmul") == 1);
static_assert(outputs<traced::Training<Half, Features<4>>>(Destination::gradient) == 2);

// A network without parameters has nothing to update.
static_assert(outputs<traced::Training<ReLU, Features<4>>>(Destination::parameters) == 0);
static_assert(traced::Training<ReLU, Features<4>>::graph.output_count == 1);

// The update of all parameters and states is one region with several results: one pass over memory.
template <class Program>
constexpr int update_steps() {
  int count = 0;
  for (int s = 0; s < Program::lowered.used.steps; ++s)
    if (Program::lowered.steps[s].kind == Kind::element) count += is_over_parameters<Program>(s);
  return count;
}
template <class Program>
constexpr int update_results() {
  const auto& last = Program::lowered.steps[Program::lowered.used.steps - 1];
  return last.kind == Kind::element ? Program::lowered.calls[last.region].outputs : 0;
}
static_assert(update_steps<OneLayer>() == 1 && update_results<OneLayer>() == 2);
static_assert(update_steps<Training>() == 1 && update_results<Training>() == 3);
using WithAdam = traced::Training<Linear<4, 2>, Features<4>, MeanSquaredError, Adam>;
static_assert(update_steps<WithAdam>() == 1 && update_results<WithAdam>() >= 3);
static_assert(update_steps<Predicting>() == 0);
}  // namespace

TEST_CASE("a training step costs about three times an inference") {
  const double inference = static_cast<double>(Predicting::flops.per_sample);
  const double training = static_cast<double>(Training::flops.per_sample);
  CHECK(inference >= 2.0 * (36 * 2 * 9 + 16 * 3 * 18 + 48 * 5));  // a multiplication and an addition each
  CHECK(inference < 1.5 * 2 * (36 * 2 * 9 + 16 * 3 * 18 + 48 * 5));
  CHECK(training > 2 * inference);
  CHECK(training < 4 * inference);
}
