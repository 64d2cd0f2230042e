#include "tenet/device/cpu/convolution_samples_last.hpp"

#include <catch2/catch.hpp>

#include "../../../examples/models/lenet.hpp"
#include "../../support/layout.hpp"
#include "../../support/network.hpp"
#include "../../support/plan_check.hpp"
#include "../../support/same_training.hpp"
#include "tenet/tenet.hpp"

using namespace tenet;

namespace {

/// LeNet with the layers in another order: a region behind the pooling reads a gradient that has no lanes.
struct PooledFirst : Sequential<Conv2d<2, 6, 3, Padding<1>>, AvgPool2d<2>, Tanh, Conv2d<6, 5, 3>, MaxPool2d<2>, ReLU,
                                Flatten, Linear<20, 5>> {};

/// Sums over the batch of values in lanes, whose last group is not full: statistics, gradients of what is broadcast.
struct Normed {
  Conv2d<2, 6, 3, Padding<1>> conv1;
  BatchNorm2d<6> norm;
  Conv2d<6, 6, 3, Padding<1>, Bias<false>> conv2;
  Parameter<Fixed<6, 8, 7>, KaimingUniform<1>> each;
  Parameter<Fixed<6, 1, 7>, KaimingUniform<1>> column;
  Parameter<Fixed<1>, KaimingUniform<1>> one;
  Linear<6, 5> head;

  constexpr auto forward(auto x) const {
    const auto y = relu(norm(conv1(x)));
    const auto z = conv2(y) * each.in(x) + column.in(x) + y * one.in(x);
    return head(mean<2, 3>(exp(tanh(z)) + y * sum_keep<0, 2>(z)));
  }
};

/// Beside convolutions that have their channels last: what one reads of the other is copied from one to the other.
struct Mixed {
  Conv2d<2, 8, 3, Padding<1>> few1;
  Conv2d<8, 32, 3, Padding<1>> few2;
  Conv2d<32, 32, 3, Padding<1>> wide;
  Conv2d<32, 4, 3, Padding<1>> few3;
  Linear<4 * 12, 5> head;

  constexpr auto forward(auto x) const {
    const auto y = relu(few2(relu(few1(x))));
    const auto z = relu(wide(y)) + y;
    return head(flatten(max_pool2d<2>(relu(few3(z * z)))));
  }
};

/// Images that are viewed in another shape, broadcast, and given to the caller.
struct Sideways {
  Conv2d<2, 6, 3, Padding<1>> conv1;
  Conv2d<4, 6, 3, Padding<1>, Bias<false>> conv2;
  Conv2d<5, 2, 3, Bias<false>> conv3;
  Conv2d<6, 1, 1> gate;
  Linear<6 * 20, 5> head;

  constexpr auto forward(auto x) const {
    const auto y = tanh(conv1(x));                   // (6, 5, 4)
    const auto z = conv2(reshape<4, 6, 5>(y));       // (6, 6, 5)
    const auto viewed = conv3(reshape<5, 6, 6>(z));  // what stands behind the kernel reads z, too
    const auto gated = y * sigmoid(gate(y));         // one number a position and sample is broadcast
    return head(relu(flatten(gated)) + flatten(y) * reshape<120>(tanh(y))) + sum<1, 2, 3>(gate(tanh(z))) +
           sum<1, 2, 3>(gated) + sum<1, 2, 3>(viewed);
  }
};
struct Filter : Sequential<Conv2d<2, 3, 3>> {};
struct ReLUFilter : Sequential<Conv2d<2, 3, 3>, ReLU, MaxPool2d<2>> {};

template <class Net, class Input, class Kernels = CpuKernels>
using StepOf = Program<TrainingProgram<Net, CrossEntropy, Sgd, Input, Kernels, UpdateInBackward>>;

// All of LeNet's images lie in lanes, forward and backward. Copied are what the caller and the linear layers give, and
// what the latter read, forward and for the gradient of their weights.
using LeNetStep = StepOf<LeNet, Image<1, 28, 28>>;
constexpr auto images = layout::images<LeNetStep>(Layout::samples_last);
static_assert(images[0] > 6 && images[1] == images[0]);
static_assert(LeNetStep::plan.conversion_count == 4);
static_assert(LeNetStep::lowered.in_groups && LeNetStep::lowered.room_for(17) == 32);
// A device without such kernels keeps its orders, and so do one sample and mixed precision.
static_assert(!StepOf<LeNet, Image<1, 28, 28>, ReferenceKernels>::lowered.in_groups);
static_assert(!StepOf<LeNet, Image<1, 28, 28>, WithActivations<CpuKernels, DType::bfloat16>>::lowered.in_groups);
static_assert(
    !Program<InferenceProgram<LeNet, Image<1, 28, 28>, CpuKernels>::For<CpuKernels::OneSample>>::lowered.in_groups);

template <class Net, class Input, class... Policies>
void check_training(float tolerance) {
  using Found = Trainer<Net, CrossEntropy, Sgd, Input, Cpu<0, 2>, OneSampleNever, Policies...>;
  Trainer<Net, CrossEntropy, Sgd, Input, Reference, Policies...> expected{{.learning_rate = 0.02f}, 3};
  Found found{{.learning_rate = 0.02f}, 3};
  const network::Samples<decltype(expected)> samples(37);
  check_same_training(expected, found, samples.inputs.data(), samples.targets.data(), {37, 1, 16, 3, 33, 5}, tolerance);
}

}  // namespace

TEST_CASE("networks whose samples lie in lanes train as on the reference", "[cpu][layout]") {
  check_training<LeNet, Image<1, 28, 28>>(1e-4f);
  check_training<LeNet, Image<1, 28, 28>, UpdateInBackward>(1e-4f);
  check_training<PooledFirst, Image<2, 12, 12>>(1e-4f);
  check_training<Normed, Image<2, 8, 7>>(2e-4f);
  check_training<Mixed, Image<2, 8, 6>>(2e-4f);
  check_training<Sideways, Image<2, 5, 4>>(1e-4f);
}

TEST_CASE("plans of networks whose samples lie in lanes are sound", "[cpu][layout]") {
  law::check_plan<LeNetStep>();
  law::check_plan<StepOf<PooledFirst, Image<2, 12, 12>>>();
  law::check_plan<StepOf<Normed, Image<2, 8, 7>>>();
  law::check_plan<StepOf<Mixed, Image<2, 8, 6>>>();
  law::check_plan<StepOf<Sideways, Image<2, 5, 4>>>();
}

TEST_CASE("results of kernels with samples in lanes have the order of their type", "[cpu][layout]") {
  const auto check = [](auto& expected, auto& found, long size) {
    const auto x = network::numbers(19 * size);
    for (const int batch : {19, 2, 16}) {
      CAPTURE(batch);
      const auto here = expected(x.data(), batch), there = found(x.data(), batch);
      REQUIRE(here.size() == there.size());
      float worst = 0;
      for (std::size_t i = 0; i < here.size(); ++i) worst = std::fmax(worst, std::fabs(here[i] - there[i]));
      CHECK(worst < 1e-5f);
    }
  };
  Model<Filter, Image<2, 6, 5>, Reference> filter(3);
  Model<Filter, Image<2, 6, 5>, Cpu<0, 2>, OneSampleNever> filter_in_lanes(3);
  check(filter, filter_in_lanes, 60);
  Model<ReLUFilter, Image<2, 8, 6>, Reference> both(3);
  Model<ReLUFilter, Image<2, 8, 6>, Cpu<0, 2>, OneSampleNever> both_in_lanes(3);
  check(both, both_in_lanes, 96);
}
