#include "tenet/exec/one_sample.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "../../examples/models/lenet.hpp"
#include "../support/hybrid.hpp"
#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/traced.hpp"

namespace {

using namespace tenet;

/// Odd extents: vectors that are not full, rows that are read beside the last whole one.
struct Perceptron : Sequential<Linear<37, 70>, ReLU, LayerNorm<70>, Linear<70, 21>, GELU, Dropout<0>, Linear<21, 3>> {};

// Not Adam: it would make full steps of the rounding errors in the gradient of a bias before a batch norm.
template <class Net, class Input, class... Policies>
using TrainerOn = Trainer<Net, CrossEntropy, Sgd, Input, Policies...>;
template <class Trainer, class Program>
using ExecutionOf = typename Trainer::template ExecutionOf<Program>;

double difference(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  double worst = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::fmax(worst, std::fabs(double{a[i]} - b[i]));
    largest = std::fmax(largest, std::fabs(a[i]));
  }
  return worst / largest;
}

/// Steps and predictions of one sample, with larger batches in between, as the reference device takes them.
template <class Net, class Input, class... Policies>
void agrees_with_reference() {
  using OnCpu = TrainerOn<Net, Input, Cpu<0, 2>, Policies...>;
  static_assert(ExecutionOf<OnCpu, typename OnCpu::Training>::has_one_sample());
  static_assert(ExecutionOf<OnCpu, typename OnCpu::Predicting>::has_one_sample());
  TrainerOn<Net, Input, Reference> reference{{.learning_rate = 0.05f, .momentum = 0.9f}};
  OnCpu cpu{{.learning_rate = 0.05f, .momentum = 0.9f}};
  const network::Samples<OnCpu> samples(3);
  for (const int batch : {1, 1, 3, 1, 2, 1}) {
    CAPTURE(batch);
    const StepResult expected = reference.step(samples.inputs.data(), samples.targets.data(), batch);
    const StepResult found = cpu.step(samples.inputs.data(), samples.targets.data(), batch);
    CHECK(found.loss == Approx(expected.loss).epsilon(1e-4));
    CHECK(found.accuracy == Approx(expected.accuracy));
    const long count = Weights<Net>::table.parameter_floats;
    CHECK(difference({reference.gradients(), static_cast<std::size_t>(count)},
                     {cpu.gradients(), static_cast<std::size_t>(count)}) < 1e-4);
    CHECK(difference({reference.weights().parameters(), static_cast<std::size_t>(count)},
                     {cpu.weights().parameters(), static_cast<std::size_t>(count)}) < 1e-3);
    CHECK(difference(reference.predict(samples.inputs.data(), batch), cpu.predict(samples.inputs.data(), batch)) <
          1e-3);
  }
}

// Over a batch of one nothing is summed, and the gradient of a weight is an element-wise product.
template <class Kernels>
using SmallStep =
    Program<TrainingProgram<Sequential<Linear<5, 4>, ReLU, Linear<4, 3>>, CrossEntropy, Sgd, Features<5>, Kernels>>;
static_assert(traced::operations<SmallStep<CpuKernels>>("outer_sum") == 2);
static_assert(traced::operations<SmallStep<CpuOneSample<CpuKernels>>>("outer_sum") == 0);
static_assert(traced::operations<SmallStep<CpuKernels>>("sum") == 4);  // two biases, the loss, the accuracy
static_assert(traced::operations<SmallStep<CpuOneSample<CpuKernels>>>("sum") == 0);

}  // namespace

TEST_CASE("one sample of a perceptron is trained as on the reference", "[one_sample]") {
  agrees_with_reference<Perceptron, Features<37>>();
}

TEST_CASE("one sample of layers in whole vectors is trained as on the reference", "[one_sample]") {
  agrees_with_reference<networks::WholeRows, Features<16>>();
}

TEST_CASE("one sample of a residual network is trained as on the reference", "[one_sample]") {
  agrees_with_reference<networks::Residual, Image<2, 6, 5>>();
}

TEST_CASE("one sample of a transformer is trained as on the reference", "[one_sample]") {
  agrees_with_reference<networks::Transformer, Tokens<4>>();
}

TEST_CASE("one sample of LeNet is trained as on the reference, where it is asked for", "[one_sample]") {
  static_assert(!Execution<TrainerOn<LeNet, Image<1, 28, 28>>::Training>::has_one_sample());
  agrees_with_reference<LeNet, Image<1, 28, 28>, OneSampleAlways>();
}

TEST_CASE("one sample of LeNet is scored as in a batch", "[one_sample]") {
  Model<LeNet, Image<1, 28, 28>, Cpu<0, 2>> model(3);
  const auto images = hybrid::random_numbers(5 * 784, 2);
  const auto scores = model(images.data(), 5);
  const std::vector<float> batch(scores.begin(), scores.end());
  for (std::size_t i : {0u, 4u, 1u})
    CHECK(difference({batch.data() + 10 * i, 10}, model(images.data() + 784 * i)) < 1e-5);
}

TEST_CASE("the padding between parameters stays zero", "[one_sample]") {
  using OnCpu = TrainerOn<Perceptron, Features<37>, Cpu<0, 1>>;
  OnCpu cpu;
  const auto inputs = hybrid::random_numbers(37, 1);
  const std::int32_t label = 1;
  for (int i = 0; i < 3; ++i) cpu.step(inputs.data(), &label, 1);
  constexpr const auto& table = Weights<Perceptron>::table;
  std::vector<bool> used(static_cast<std::size_t>(table.parameter_floats));
  for (int i = 0; i < table.count; ++i)
    for (long j = 0; table.slots[i].kind == SlotKind::parameter && j < table.slots[i].type->size(); ++j)
      used[static_cast<std::size_t>(table.slots[i].offset + j)] = true;
  REQUIRE(std::count(used.begin(), used.end(), false) > 0);
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i]) CHECK((cpu.gradients()[i] == 0 && cpu.weights().parameters()[i] == 0));
}

TEST_CASE("inputs are not read beyond their end", "[one_sample]") {
  Model<Perceptron, Features<37>, Cpu<0, 1>> model;
  const auto numbers = hybrid::random_numbers(37, 1);
  const auto exact = std::make_unique<float[]>(37);  // for the address sanitizer
  std::copy(numbers.begin(), numbers.end(), exact.get());
  const std::vector<float> several = [&] {
    std::vector<float> two = numbers;
    two.insert(two.end(), numbers.begin(), numbers.end());
    const auto scores = model(two.data(), 2);
    return std::vector<float>(scores.begin(), scores.begin() + 3);
  }();
  CHECK(difference(several, model(exact.get())) < 1e-6);
}
