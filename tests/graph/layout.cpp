#include "tenet/graph/layout.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <string_view>

#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"
#include "../support/layout.hpp"
#include "../support/narrow_device.hpp"
#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/plan_check.hpp"
#include "../support/same_training.hpp"
#include "../support/turned_device.hpp"
#include "tenet/tenet.hpp"

using namespace tenet;

namespace {

template <class Net, class Input, class Kernels = turned::Kernels, class Optimizer = Sgd,
          class Update = UpdateAfterBackward>
using Training = Program<TrainingProgram<Net, CrossEntropy, Optimizer, Input, Kernels, Update>>;
template <class Net, class Input>
using Inference = Program<InferenceProgram<Net, Input, turned::Kernels>>;

/// Copies that turn what an operation's kernels read, or (of_operands: false) write.
template <class Program>
constexpr int turning(std::string_view operation, bool of_operands) {
  int result = 0;
  for (int k = 0; k < Program::plan.conversion_count; ++k) {
    const Conversion& c = Program::plan.conversions[k];
    const int head = Program::order.head[c.step];
    result += operation == Program::graph.nodes[head].operation->name && (c.value != head) == of_operands;
  }
  return result;
}
/// Inputs of regions that are read across.
template <class Program>
constexpr int read_across() {
  int result = 0;
  for (int s = 0; s < Program::lowered.used.steps; ++s) {
    if (is_copy(Program::lowered, Program::lowered.steps[s])) continue;
    for (const int region : {Program::lowered.steps[s].region, Program::lowered.steps[s].epilogue}) {
      if (region < 0) continue;
      const RegionCall& call = Program::lowered.calls[region];
      for (int k = 0; k < call.inputs; ++k) result += Program::lowered.inputs[call.first_input + k].access.turned;
    }
  }
  return result;
}
// A residual network has nothing but its weights turned: every image, forward and backward, lies as convolutions want
// it, the first gradient, to which one number a channel and sample is spread, among them. Weights of one tap or channel
// have no order.
using ResNetStep = Training<ResNet18<>, Image<1, 28, 28>>;
static_assert(layout::images<ResNetStep>() == std::array{107, 107});
static_assert(turning<ResNetStep>("conv2d", true) == 16);
static_assert(turning<ResNetStep>("conv2d_input_gradient", true) == 0);  // turned once a run
static_assert(turning<ResNetStep>("conv2d_weight_gradient", true) == 0);
static_assert(turning<ResNetStep>("conv2d_weight_gradient", false) == 16);
static_assert(turning<ResNetStep>("conv2d", false) == 0);
static_assert(read_across<ResNetStep>() == 1);  // by the sum that pools

// What has no convolution keeps its order, and so do devices that want nothing else.
static_assert(layout::images<Training<networks::Transformer, Tokens<12>>>()[1] == 0);
static_assert(layout::images<Training<networks::Residual, Image<2, 6, 5>, ReferenceKernels>>()[1] == 0);
static_assert(layout::images<Training<networks::Residual, Image<2, 6, 5>>>()[1] > 0);

// The caller gets images as their type says.
struct Filter : Sequential<Conv2d<2, 3, 3>> {};
static_assert(layout::images<Inference<Filter, Image<2, 6, 5>>>()[1] <= 1);
static_assert(turning<Inference<Filter, Image<2, 6, 5>>>("conv2d", true) == 2);

struct Pooled : Sequential<Conv2d<2, 4, 3>, ReLU, MaxPool2d<2>, Conv2d<4, 3, 2>, Flatten, Linear<6, 3>> {};

/// Images that are broadcast, viewed with other channels, read beside flat values, and summed over a part of them.
struct Sideways {
  Conv2d<2, 4, 3, Padding<1>> conv1;
  Conv2d<2, 4, 3, Padding<1>, Bias<false>> conv2;
  Conv2d<6, 3, 1> conv3;
  Conv2d<3, 3, 1> conv4;
  Conv2d<6, 6, 1, Bias<false>> conv5;
  Linear<120, 90> spread;
  Linear<90, 4> out;
  Parameter<Fixed<120>, KaimingUniform<1>> flat;

  constexpr auto forward(auto x) const {
    const auto y = relu(conv1(x));  // (4, 6, 5)
    const auto h = conv2(x);        // viewed by a convolution, and read by what stands behind it
    const auto both = h + y;
    const auto viewed = conv3(reshape<6, 4, 5>(h));       // (3, 4, 5)
    const auto rows = conv4(sum_keep<3>(viewed));         // (3, 4, 1): broadcast in the order of its type
    const auto other = conv5(reshape<6, 4, 5>(tanh(y)));  // (6, 4, 5), beside the same elements as (4, 6, 5)
    const auto crossed = tanh(other * reshape<6, 4, 5>(both));
    const auto scaled = both * reshape<4, 6, 5>(reshape<120>(y) * flat.in(x));
    return out(spread(reshape<120>(y + y * y))) + sum<1, 2, 3>(viewed * rows) + sum<1, 2, 3>(crossed) +
           mean<2, 3>(both * both) + sum<1, 2, 3>(scaled);
  }
};

/// Numbers that are broadcast to an image and have an order of their own, and sums that have one.
struct Ordered {
  Conv2d<2, 4, 3, Padding<1>> conv;
  Linear<4, 3> out;
  Parameter<Fixed<4, 6, 5>, KaimingUniform<1>> each;
  Parameter<Fixed<4, 1, 5>, KaimingUniform<1>> column;

  constexpr auto forward(auto x) const {
    const auto y = relu(conv(x)) * each.in(x) + column.in(x);
    return out(mean<2, 3>(y * sum_keep<0, 2>(y)) + mean<2, 3>(y * sum_keep<2>(tanh(y))));
  }
};

/// Losses, gradients and predictions are those of the device that turns nothing, but for the order of sums.
template <class Expected, class Net, class Input, class... Policies>
void check_training(float tolerance) {
  Trainer<Net, CrossEntropy, Sgd, Input, Expected, Policies...> expected{{.learning_rate = 0.05f}, 3};
  Trainer<Net, CrossEntropy, Sgd, Input, turned::Device, Policies...> found{{.learning_rate = 0.05f}, 3};
  const network::Samples<decltype(expected)> samples(5);
  check_same_training(expected, found, samples.inputs.data(), samples.targets.data(), {5, 2, 5}, tolerance);
}

}  // namespace

TEST_CASE("convolutions with channels last train as those with channels first", "[layout]") {
  const long before = turned::Executor::convolutions;
  check_training<Reference, networks::Residual, Image<2, 6, 5>>(1e-5f);
  check_training<Reference, networks::ConvTowers, Image<2, 6, 5>>(1e-5f);
  check_training<Reference, LeNet, Image<1, 28, 28>>(1e-5f);
  check_training<Reference, networks::Residual, Image<2, 6, 5>, UpdateInBackward>(1e-5f);
  check_training<Reference, Pooled, Image<2, 8, 7>>(1e-5f);
  check_training<Reference, Sideways, Image<2, 6, 5>>(1e-5f);
  check_training<Reference, Ordered, Image<2, 6, 5>>(1e-5f);
  CHECK(turned::Executor::convolutions > before);
}

TEST_CASE("channels last and bfloat16 go together", "[layout]") {
  check_training<narrow::Device, networks::Residual, Image<2, 6, 5>, BFloat16>(1e-2f);
}

// A program that leaves the weights as they are turns them before its first run only.
using Answers = Inference<LeNet, Image<1, 28, 28>>;
static_assert(turning<Answers>("conv2d", true) >= 1 && Answers::plan.conversions[0].prepared);
static_assert(Answers::lowered.prepared_steps == 1 + Answers::order.prepared);
static_assert(is_copy(Answers::lowered, Answers::lowered.steps[0]));
static_assert(!ResNetStep::plan.conversions[0].prepared && ResNetStep::lowered.prepared_steps == 0);
using Normed = Inference<networks::Residual, Image<2, 6, 5>>;
static_assert(Normed::order.prepared > 0 && Normed::plan.conversions[1].prepared);
static_assert(Normed::lowered.prepared_steps >= Normed::order.prepared + 2);

TEST_CASE("weights are turned once for all runs, and again when they have changed", "[layout]") {
  Model<LeNet, Image<1, 28, 28>, Reference> expected(3);
  Model<LeNet, Image<1, 28, 28>, turned::Device> found(3);
  const auto x = network::numbers(3 * 784);
  const auto check = [&](int batch) {
    const auto here = expected(x.data(), batch), there = found(x.data(), batch);
    long different = 0;
    for (std::size_t i = 0; i < here.size(); ++i) different += std::abs(here[i] - there[i]) > 1e-5f;
    CHECK(different == 0);
  };
  check(3);
  check(2);
  expected.weights()["3.weight"][7] += 1;
  found.weights()["3.weight"][7] += 1;
  check(2);
  check(3);
}

TEST_CASE("results have the order of their type", "[layout]") {
  Model<Filter, Image<2, 6, 5>, Reference> expected(3);
  Model<Filter, Image<2, 6, 5>, turned::Device> found(3);
  const auto x = network::numbers(3 * 60);
  const auto here = expected(x.data(), 3), there = found(x.data(), 3);
  CHECK(std::equal(here.begin(), here.end(), there.begin(), there.end()));
}

TEST_CASE("no image is overwritten while it is needed, in whatever order it lies", "[layout]") {
  law::check_plan<ResNetStep>();
  law::check_plan<Training<LeNet, Image<1, 28, 28>>>();
  law::check_plan<
      Training<networks::ConvTowers, Image<2, 6, 5>, BFloat16::KernelsOf<turned::Kernels>, Adam, UpdateInBackward>>();
}
