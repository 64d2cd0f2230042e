#include "tenet/exec/join_steps.hpp"

#include <catch2/catch.hpp>
#include <tenet/tenet.hpp>

#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"
#include "../support/joining_device.hpp"
#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/plan_check.hpp"
#include "../support/same_training.hpp"

using namespace tenet;

namespace {

template <class Net, class Input, class Kernels = joining::Kernels<true>, class Update = UpdateInBackward>
using Training = Program<TrainingProgram<Net, CrossEntropy, PlainSgd, Input, Kernels, Update>>;

/// Steps that `counts` says yes to, of all but the optimizer's.
template <class Program, class Counts>
constexpr int steps(Counts counts) {
  int result = 0;
  for (int s = 0; s < Program::lowered.first_update; ++s) {
    const auto& step = Program::lowered.steps[s];
    const bool has_region = step.region >= 0;
    result += counts(
        step, has_region ? Program::lowered.programs[Program::lowered.calls[step.region].program].wiring : Wiring{});
  }
  return result;
}
/// Sums that stand alone: over rows.
template <class Program>
constexpr int alone = steps<Program>([](const auto& step, const Wiring&) { return step.role == Role::sum_rows; });
/// Loops that store so many values and take so many sums.
template <class Program>
constexpr int joint(int stored, int summed, bool moments = false) {
  return steps<Program>([&](const auto& step, const Wiring& wiring) {
    return step.role == Role::store_and_sum && wiring.stored() == stored && wiring.summed == summed &&
           wiring.moments == moments;
  });
}

// A residual network, forward: mean and variance of each batch norm in one loop. Backward: the gradient behind a batch
// norm stored and summed twice, or, where a convolution beside it needs its sum first, summed twice; that in front of
// it stored and summed for the convolution's bias. What is left is the last linear layer's bias.
using ResNetStep = Training<ResNet18<>, Image<1, 28, 28>>;
static_assert(joint<ResNetStep>(0, 2, true) == 17);
static_assert(joint<ResNetStep>(1, 2) + joint<ResNetStep>(0, 2) == 17);
static_assert(joint<ResNetStep>(1, 1) == 17);
static_assert(alone<ResNetStep> == 1);
// Without a library that adds the bias, this is stored and summed; the variance is behind it.
using Unfused = Training<networks::Residual, Image<2, 6, 5>, joining::Kernels<>>;
static_assert(joint<Unfused>(0, 2, true) == 0 && alone<Unfused> == 2 + 1);
// Devices without such loops have none.
using Apart = Training<networks::Residual, Image<2, 6, 5>, turned::Kernels>;
static_assert(steps<Apart>([](const auto& step, const Wiring&) { return step.role == Role::store_and_sum; }) == 0);
static_assert(alone<Apart> == 2 * 2 + 2 + 2 + 2 + 1);

/// What a sum reads that a step between it and its terms computes: it stays where it is.
struct Dependent {
  Conv2d<2, 4, 3, Padding<1>> conv;
  Linear<4, 3> head;
  constexpr auto forward(auto x) const {
    const auto y = conv(x);
    const auto first = mean_keep<0, 2, 3>(tanh(y));
    const auto second = mean_keep<0, 2, 3>(y * first);   // behind the first one
    const auto other = mean_keep<0, 2, 3>(y * tanh(y));  // beside it
    return head(global_avg_pool2d(y * second + y * other));
  }
};

struct Normed {
  Conv2d<2, 4, 3, Padding<1>> conv;
  BatchNorm2d<4> norm;
  Linear<4, 3> head;
  constexpr auto forward(auto x) const { return head(global_avg_pool2d(relu(norm(conv(x))))); }
};
static_assert(joint<Training<Normed, Image<2, 6, 5>>>(0, 2, true) == 1);

static_assert(alone<Training<Dependent, Image<2, 6, 5>>> == 2);

template <class Net, class Input, bool fuses, class... Policies>
void check_training(float tolerance) {
  Trainer<Net, CrossEntropy, Sgd, Input, turned::Device, Policies...> expected{{.learning_rate = 0.05f}, 3};
  Trainer<Net, CrossEntropy, Sgd, Input, joining::Device<fuses>, Policies...> found{{.learning_rate = 0.05f}, 3};
  const network::Samples<decltype(expected)> samples(5);
  check_same_training(expected, found, samples.inputs.data(), samples.targets.data(), {5, 2, 5}, tolerance);
}

}  // namespace

TEST_CASE("programs whose sums are joined compute the same", "[join_steps]") {
  check_training<networks::Residual, Image<2, 6, 5>, false>(1e-5f);
  check_training<networks::Residual, Image<2, 6, 5>, false, UpdateInBackward>(1e-5f);
  check_training<networks::ConvTowers, Image<2, 6, 5>, false>(1e-5f);
  check_training<networks::ConvTowers, Image<2, 6, 5>, false, UpdateInBackward>(1e-5f);
  check_training<LeNet, Image<1, 28, 28>, false>(1e-5f);
  check_training<Dependent, Image<2, 6, 5>, false>(1e-5f);
}

TEST_CASE("places of sums that are taken earlier are nobody else's", "[join_steps]") {
  law::check_plan<ResNetStep>();
  law::check_plan<Training<networks::ConvTowers, Image<2, 6, 5>>>();
  for (int i = 0; i < ResNetStep::graph.count; ++i)
    for (int j = 0; j < ResNetStep::graph.count; ++j) {
      const auto &sum = ResNetStep::graph.nodes[i], &other = ResNetStep::graph.nodes[j];
      if (i == j || !sum.is_computed() || sum.operation->kind != Kind::reduction || sum.type->batched) continue;
      if (!other.is_computed() || other.operation->kind == Kind::view || !ResNetStep::fusion.stored[j]) continue;
      const Place &of_sum = ResNetStep::plan.place[i], &of_other = ResNetStep::plan.place[j];
      if (of_sum.arena == Arena::fixed) REQUIRE(of_sum != of_other);
    }
}

TEST_CASE("moments are one loop where a library adds the bias", "[join_steps]") {
  static_assert(joint<Training<networks::Residual, Image<2, 6, 5>>>(0, 2, true) == 2);
  check_training<networks::Residual, Image<2, 6, 5>, true>(1e-5f);
  check_training<networks::ConvTowers, Image<2, 6, 5>, true, UpdateInBackward>(1e-5f);
}

TEST_CASE("sums are joined of narrow values, before these are rounded", "[join_steps]") {
  check_training<networks::Residual, Image<2, 6, 5>, false, BFloat16>(1e-2f);
}

TEST_CASE("a variance is that of the deviations, however far the mean is from zero", "[join_steps]") {
  Trainer<Normed, CrossEntropy, Sgd, Image<2, 6, 5>, turned::Device> expected{{.learning_rate = 0.05f}, 3};
  Trainer<Normed, CrossEntropy, Sgd, Image<2, 6, 5>, joining::Device<true>> found{{.learning_rate = 0.05f}, 3};
  const network::Samples<decltype(expected)> samples(5);
  for (std::size_t c = 0; c < 4; ++c) expected.weights()["conv.bias"][c] = found.weights()["conv.bias"][c] = 1000;
  for (int step = 0; step < 3; ++step) {
    const float here = expected.step(samples.inputs.data(), samples.targets.data(), 5).loss;
    CHECK(found.step(samples.inputs.data(), samples.targets.data(), 5).loss == Approx(here).epsilon(1e-3));
  }
  for (std::size_t c = 0; c < 4; ++c)
    CHECK(found.weights()["norm.running_var"][c] == Approx(expected.weights()["norm.running_var"][c]).epsilon(1e-3));
}
