#include "tenet/graph/recompute.hpp"

#include <catch2/catch.hpp>
#include <string_view>

#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/plan_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {

template <int Channels>
struct Unit {
  Conv2d<Channels, Channels, 3, Padding<1>> conv1, conv2;
  BatchNorm2d<Channels> norm1, norm2;
  constexpr auto forward(auto x) const { return relu(x + norm2(conv2(relu(norm1(conv1(x)))))); }
};
/// Eight residual units.
struct Deep
    : Sequential<Unit<2>, Unit<2>, Unit<2>, Unit<2>, Unit<2>, Unit<2>, Unit<2>, Unit<2>, Flatten, Linear<40, 3>> {};
using Input = Image<2, 4, 5>;

template <class Net, class Input, class Memory, class Loss = CrossEntropy, class Update = UpdateAfterBackward,
          class Kernels = ReferenceKernels>
using Training = Program<TrainingProgram<Net, Loss, Sgd, Input, Kernels, Update, Memory>>;
using Whole = Training<Deep, Input, MemoryUnbounded>;
constexpr long whole = 4 * Whole::per_sample_floats;

/// Operations of that name in a program's graph.
template <class Program>
constexpr int count(std::string_view name) {
  return traced::operations<Program>(name);
}

// A bound that the plan keeps to as it is changes nothing.
using Enough = Training<Deep, Input, MemoryBound<whole>>;
static_assert(Enough::graph.count == Whole::graph.count && Enough::per_sample_floats == Whole::per_sample_floats);

// A little less: activations are computed again, kernels are not.
using Little = Training<Deep, Input, MemoryBound<whole * 8 / 10>>;
static_assert(4 * Little::per_sample_floats <= whole * 8 / 10);
static_assert(count<Little>("conv2d") == 16 && count<Whole>("relu") == 16);
static_assert(count<Little>("relu") > 24 && count<Little>("relu") <= 28);  // along the sums every second one is kept

// Half: convolutions as well, but each at most once more, and none of the last segment.
using Half = Training<Deep, Input, MemoryBound<whole / 2>>;
static_assert(4 * Half::per_sample_floats <= whole / 2);
static_assert(count<Half>("conv2d") > 20 && count<Half>("conv2d") <= 30);
static_assert(count<Half>("conv2d_input_gradient") == count<Whole>("conv2d_input_gradient"));
static_assert(Half::graph.forward_count == Whole::graph.forward_count);
static_assert(Half::graph.output_count == Whole::graph.output_count);
static_assert(Half::flops.per_sample < 1.34 * Whole::flops.per_sample);

/// Two dropouts, the first in a segment that is dropped.
struct Dropping {
  Linear<8, 64> first;
  Linear<64, 64> second, third, fourth, fifth;
  Linear<64, 3> last;
  constexpr auto forward(auto x) const {
    const auto y = dropout(relu(second(relu(first(x)))), 0.5f);
    const auto z = dropout(relu(fourth(relu(third(y)))), 0.5f);
    return last(relu(fifth(z)));
  }
};

/// Trains with and without the bound: losses and parameters stay the same.
template <class Net, class Loss, class In, class Device, class... Tags>
void check_training(double tolerance) {
  using Plain = Trainer<Net, Loss, Sgd, In, Device>;
  using Bounded = Trainer<Net, Loss, Sgd, In, Device, Tags...>;
  Plain plain{{.learning_rate = 0.05f, .momentum = 0.9f}, 3};
  Bounded bounded{{.learning_rate = 0.05f, .momentum = 0.9f}, 3};
  const network::Samples<Plain> samples(4);
  for (const int batch : {4, 2, 3}) {
    const float expected = plain.step(samples.inputs.data(), samples.targets.data(), batch).loss;
    CHECK(bounded.step(samples.inputs.data(), samples.targets.data(), batch).loss ==
          Approx(expected).epsilon(tolerance));
  }
  const float *const found = bounded.weights().parameters(), *const wanted = plain.weights().parameters();
  double difference = 0, size = 0;
  for (long i = 0; i < Weights<Net>::table.parameter_floats; ++i) {
    difference = std::fmax(difference, std::fabs(static_cast<double>(found[i]) - wanted[i]));
    size = std::fmax(size, std::fabs(static_cast<double>(wanted[i])));
  }
  CHECK(difference <= tolerance * size);
}

}  // namespace

TEST_CASE("no value is overwritten while it is needed, where values are computed again") {
  law::check_plan<Little>();
  law::check_plan<Half>();
  law::check_plan<Training<Deep, Input, MemoryBound<whole / 2>, CrossEntropy, UpdateInBackward>>();
  law::check_plan<Training<Deep, Input, MemoryBound<whole / 3>, CrossEntropy, UpdateAfterBackward,
                           BFloat16::KernelsOf<ReferenceKernels>>>();
}

TEST_CASE("what is computed again is what was dropped") {
  check_training<Deep, CrossEntropy, Input, Reference, MemoryBound<whole * 8 / 10>>(1e-5);
  check_training<Deep, CrossEntropy, Input, Reference, MemoryBound<whole / 2>, UpdateInBackward>(1e-5);
  check_training<Deep, CrossEntropy, Input, Cpu<0, 2>, MemoryBound<whole / 2>>(1e-4);
}

TEST_CASE("a dropped dropout drops the same elements again") {
  using Plan = Training<Dropping, Features<8>, MemoryUnbounded>;
  constexpr long bound = 4 * Plan::per_sample_floats * 7 / 10;
  static_assert(count<Plan>("dropout_mask") == 2);
  static_assert(count<Training<Dropping, Features<8>, MemoryBound<bound>>>("dropout_mask") > 2);
  check_training<Dropping, CrossEntropy, Features<8>, Reference, MemoryBound<bound>>(1e-5);
}

TEST_CASE("a summary says how much is computed again") {
  const auto holds = [](const std::string &text) {
    return text.find("operations computed again") != std::string::npos;
  };
  using Net = Sequential<Linear<8, 64>, ReLU, Linear<64, 64>, ReLU, Linear<64, 64>, ReLU, Linear<64, 3>>;
  constexpr long bytes = 4 * Training<Net, Features<8>, MemoryUnbounded>::per_sample_floats;
  CHECK_FALSE(holds(Trainer<Net, CrossEntropy, Sgd, Features<8>, Reference, MemoryBound<bytes>>().summary()));
  CHECK(holds(Trainer<Net, CrossEntropy, Sgd, Features<8>, Reference, MemoryBound<bytes - 4>>().summary()));
}
