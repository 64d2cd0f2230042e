#include "tenet/graph/batch_sums.hpp"

#include <catch2/catch.hpp>
#include <tenet/parallel/data_parallel.hpp>

#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {

template <class Net, class Input, class Loss = MeanSquaredError>
using OnPart = Program<OnPartOfBatch<TrainingProgram<Net, Loss, Sgd, Input, traced::Kernels>>>;

/// Sums that a training step's workers add up together while they run it.
template <class Net, class Input, class Loss = MeanSquaredError>
constexpr int sums = traced::operations<OnPart<Net, Input, Loss>>("sum_over_workers");

// What reads no sum over the batch needs nothing: gradients and results are added up behind the pass.
static_assert(sums<networks::WholeRows, Features<16>, CrossEntropy> == 0);
static_assert(OnPart<networks::WholeRows, Features<16>>::graph.count ==
              traced::Training<networks::WholeRows, Features<16>>::graph.count);

// Of a batch norm mean and variance, and two in the backward pass, each of a number a channel. The first layer's input
// needs no gradient, but its batch norm's input does: the convolution's.
using Residual = OnPart<networks::Residual, Image<2, 6, 5>, CrossEntropy>;
static_assert(sums<networks::Residual, Image<2, 6, 5>, CrossEntropy> == 2 * 4);
template <class Program>
constexpr bool adds_up_before_update() {
  for (int s = 0; s < Program::lowered.used.steps; ++s)
    if (is_sum_over_workers(Program::lowered.steps[s]) &&
        (s < Program::lowered.prepared_steps || s >= Program::lowered.first_update))
      return false;
  return true;
}
static_assert(adds_up_before_update<Residual>());
static_assert(Residual::graph.forward_count >
              traced::Training<networks::Residual, Image<2, 6, 5>>::graph.forward_count);

/// Products and quotients of sums, sums to which something is added that is no sum, and sums of sums.
struct Mixed {
  Parameter<Fixed<4>, KaimingUniform<1>> weight, bias;
  Linear<4, 4> linear;
  constexpr auto forward(auto x) const {
    const auto y = tanh(linear(x));
    const auto m = mean_keep<0>(y), s = mean_keep<0>(square(y));
    const auto both = m * s + m * m - s / (m + 3.0f);
    return (y - both) * (weight.in(x) + m * 0.5f) + (bias.in(x)-sum_keep<0>(y) * 0.1f);
  }
};

/// A loss with what is the same for all samples in it, and what is not linear in the batch's sums.
struct Unusual {
  template <class Output>
  static constexpr bool fits = Output::batched;
  template <class Output>
  using Target = Output;
  static constexpr bool has_accuracy = false;
  static constexpr auto loss(AnySymbol auto output, AnySymbol auto target) {
    const auto found = mean(output), wanted = mean(target);
    return mean(square(output - target)) * 0.5f + square(found - wanted) + found * 0.25f + 3.0f;
  }
};

/// What one device computes with all samples, whatever the network does with the batch: results, gradients, and what is
/// trained. There may be less samples than workers.
template <class Net, class Input, class Loss = MeanSquaredError, class Device = Reference>
void check() {
  using One = Trainer<Net, Loss, Sgd, Input, Device>;
  using Many = Trainer<Net, Loss, Sgd, Input, Device, DataParallel<3>, SyncBatchNorm>;
  const Sgd sgd{.learning_rate = 0.02f, .momentum = 0.9f};
  One one{sgd, 3};
  Many many{sgd, 3};
  const network::Samples<One> samples(11);
  const auto is_close = [](const float* found, const float* expected, long count) {
    double worst = 0, largest = 1e-30;
    for (long i = 0; i < count; ++i) {
      worst = std::fmax(worst, std::fabs(static_cast<double>(found[i]) - expected[i]));
      largest = std::fmax(largest, std::fabs(static_cast<double>(expected[i])));
    }
    return worst <= 1e-4 * largest;
  };
  for (const int batch : {11, 4, 1, 2}) {
    CAPTURE(batch);
    const float expected = one.step(samples.inputs.data(), samples.targets.data(), batch).loss;
    CHECK(many.step(samples.inputs.data(), samples.targets.data(), batch).loss == Approx(expected).epsilon(1e-4));
    CHECK(is_close(many.gradients(), one.gradients(), Weights<Net>::table.parameter_floats));
    CHECK(is_close(many.weights().parameters(), one.weights().parameters(), Weights<Net>::table.parameter_floats));
    CHECK(is_close(many.weights().buffers(), one.weights().buffers(), Weights<Net>::table.buffer_floats));
  }
}

}  // namespace

TEST_CASE("parts of a batch train a network as the whole does") {
  check<networks::Residual, Image<2, 6, 5>, CrossEntropy>();
  check<networks::Residual, Image<2, 6, 5>, CrossEntropy, Cpu<0, 2>>();
  check<Mixed, Features<4>>();
  check<Mixed, Features<4>, Unusual, Cpu<0, 1>>();
  check<networks::WholeRows, Features<16>, Unusual>();
}

TEST_CASE("parts of a batch train networks that are drawn at random as the whole does") {
  using Input = TensorType<float, true, 3, 4>;
  check<networks::Drawn<1>, Input>();
  check<networks::Drawn<2>, Input, Unusual>();
  check<networks::Drawn<3>, Input, Unusual, Cpu<0, 1>>();
  check<networks::Drawn<4>, Input>();
  check<networks::Drawn<5>, Input>();
}
