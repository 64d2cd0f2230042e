#include "tenet/exec/execution.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "../../examples/models/lenet.hpp"
#include "../support/lending_device.hpp"
#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "tenet/tenet.hpp"

namespace {

using namespace tenet;

template <class Net, class Input, class Device>
using Predicting = Execution<typename ModelOf<Net, Input, Device>::Inference>;
using Small = Sequential<Linear<5, 3>, ReLU>;

// Small networks have a program for one sample, where the device offers one; large ones do not.
static_assert(Predicting<Small, Features<5>, Cpu<>>::has_one_sample());
static_assert(!Predicting<Small, Features<5>, Reference>::has_one_sample());
static_assert(Predicting<LeNet, Image<1, 28, 28>, Cpu<>>::has_one_sample());
static_assert(!Predicting<Sequential<Linear<1000, 1001>, ReLU>, Features<1000>, Cpu<>>::has_one_sample());

/// The second feature's result for a batch of two after each change of the weight: a version that stays, and a new one.
template <class Device>
void check_versions() {
  using Net = networks::Scaled<[](auto w) { return softmax(w); }, 3>;
  const auto executor = make_executor<Device>();
  Predicting<Net, Features<3>, Device> execution(*executor);
  float weight[16]{};
  const float inputs[]{1, 3, 2, 4, 6, 5};
  execution.bind(Arena::parameters, weight);
  execution.give(0, inputs);
  const auto result = [&](std::uint64_t version) {
    execution.use_weights(version);
    execution.run(2);
    return execution.result(0)[1];
  };
  CHECK(result(1) == Approx(3 + 9 / 3.0));
  weight[1] = 1;
  CHECK(result(1) == Approx(3 + 9 / 3.0));  // nobody said so
  CHECK(result(2) == Approx(3 + 9 * std::exp(1.0) / (2 + std::exp(1.0))));
  weight[1] = 0;
  CHECK(result(1) == Approx(3 + 9 / 3.0));
}

/// Two batches one after the other, another weight for a third.
template <class Net, class Device, class Function>
void check_scaled(Function function) {
  Model<Net, Features<3>, Device> model;
  const float inputs[]{1, 2, 3, 4, 5, 6, -2, 7, 0};
  std::array weight{1.0f, 1.0f, 1.0f};
  for (const int step : {0, 1, 2}) {
    if (step == 2) model.weights()["weight"][1] = weight[1] = 2;
    const float* const x = inputs + 3 * (step > 0);
    const auto found = model(x, 2);
    const auto factors = function(weight);
    for (std::size_t i = 0; i < 6; ++i)
      CHECK(found[i] == Approx(x[i] + (x[i % 3] + x[i % 3 + 3]) * factors[i % 3]).margin(1e-5));
  }
}

/// Trains and predicts with workspaces that are lent and scribbled over, and without: the same bits.
template <class Net, class Input, class... Policies>
void check_lent() {
  using Plain = Trainer<Net, CrossEntropy, Adam, Input, Reference, Policies...>;
  using Lent = Trainer<Net, CrossEntropy, Adam, Input, lending::Device, Policies...>;
  Plain plain{{.learning_rate = 0.05f}, 3};
  Lent lent{{.learning_rate = 0.05f}, 3};
  const network::Samples<Plain> samples(9);
  const auto bits = [](const auto numbers) {
    std::vector<std::uint32_t> result(numbers.size());
    std::memcpy(result.data(), numbers.data(), 4 * numbers.size());
    return result;
  };
  const auto parameters = [](auto& trainer) {
    return std::span<const float>(trainer.weights().parameters(),
                                  static_cast<std::size_t>(Weights<Net>::table.parameter_floats));
  };
  const long before = lending::Executor::lent;
  for (const int batch : {5, 9, 1, 3, 9}) {
    CAPTURE(batch);
    const float loss = plain.step(samples.inputs.data(), samples.targets.data(), batch).loss;
    CHECK(lent.step(samples.inputs.data(), samples.targets.data(), batch).loss == loss);
    CHECK(std::isfinite(loss));
    CHECK(bits(parameters(lent)) == bits(parameters(plain)));
    CHECK(bits(lent.predict(samples.inputs.data(), batch)) == bits(plain.predict(samples.inputs.data(), batch)));
  }
  CHECK(lending::Executor::lent > before + 25);
}

/// Trains for a step of each batch: the workers have no memory of their own for workspaces afterwards.
template <class Net, class Input>
void check_planned() {
  using Program = tenet::Program<TrainingProgram<Net, CrossEntropy, Sgd, Input, CpuKernels, UpdateInBackward>>;
  cpu::Workers workers(2);
  Weights<Net> weights(1);
  Buffer states(Program::state_count * Program::slots.parameter_floats);
  Execution<Program, OneSampleNever> execution(workers);
  execution.bind(Arena::parameters, weights.parameters());
  execution.bind(Arena::buffers, weights.buffers());
  execution.bind(Arena::states, states.data());
  const float settings[16]{};
  execution.set_scalars(settings, 1);
  const std::vector<float> inputs(static_cast<std::size_t>(33 * Input::size));  // tokens are 0, too
  const std::vector<std::int32_t> targets(33 * 64);
  execution.give(0, inputs.data());
  execution.give(1, targets.data());
  for (const int batch : {1, 3, 8, 33}) {
    CAPTURE(batch);
    execution.run(batch);
    CHECK(workers.owned_workspace() == 0);
    CHECK(workers.workspace(0) == nullptr);  // nothing stays lent
  }
}

/// Convolutions of all kernels, and a linear layer whose sums over the batch are added in parts.
struct Wide {
  Conv2d<3, 70, 3, Padding<1>, Stride<2>> stem;
  Conv2d<70, 70, 3, Padding<1>> same;
  Conv2d<70, 260, 1, Stride<2>> narrow;
  Conv2d<260, 256, 3, Padding<1>> many;
  BatchNorm2d<260> norm;
  Linear<256 * 16, 300> hidden;
  Linear<300, 3> head;
  constexpr auto forward(auto x) const {
    return head(relu(hidden(tenet::flatten(relu(many(norm(narrow(relu(same(relu(stem(x))))))))))));
  }
};

}  // namespace

TEST_CASE("workspaces lie where nothing is needed", "[execution]") {
  check_lent<LeNet, Image<1, 28, 28>>();
  check_lent<networks::Residual, Image<2, 6, 5>>();
  check_lent<networks::Residual, Image<2, 6, 5>, UpdateInBackward>();
  check_lent<networks::ConvTowers, Image<2, 6, 5>>();
  check_lent<networks::Transformer, Tokens<12>>();
  CHECK(lending::Executor::most >= 5000);
  CHECK(lending::Executor::reserved == 0);
}

TEST_CASE("the workers' kernels ask for no more workspace than was planned", "[execution]") {
  check_planned<LeNet, Image<1, 28, 28>>();
  check_planned<networks::Residual, Image<2, 6, 5>>();
  check_planned<networks::ConvTowers, Image<2, 6, 5>>();
  check_planned<networks::Transformer, Tokens<12>>();
  check_planned<networks::Towers, Features<16>>();
  check_planned<Wide, Image<3, 16, 16>>();
}

TEST_CASE("what is prepared is not mixed up with what each run computes over the same elements", "[execution]") {
  const auto tangents = [](auto w) { return std::array{std::tanh(w[0]), std::tanh(w[1]), std::tanh(w[2])}; };
  const auto shares = [](auto w) {
    const float sum = std::exp(w[0]) + std::exp(w[1]) + std::exp(w[2]);
    return std::array{std::exp(w[0]) / sum, std::exp(w[1]) / sum, std::exp(w[2]) / sum};
  };
  check_scaled<networks::Scaled<[](auto w) { return tanh(w); }, 3>, Reference>(tangents);
  check_scaled<networks::Scaled<[](auto w) { return tanh(w); }, 3>, Cpu<0, 2>>(tangents);
  check_scaled<networks::Scaled<[](auto w) { return softmax(w); }, 3>, Reference>(shares);
  check_scaled<networks::Scaled<[](auto w) { return softmax(w); }, 3>, Cpu<0, 2>>(shares);
}

TEST_CASE("what is prepared is kept until the weights have another version", "[execution]") {
  check_versions<Reference>();
  check_versions<Cpu<0, 2>>();
}

TEST_CASE("an execution grows with the batch and gives the result of the last run", "[execution]") {
  using Program = ModelOf<Small, Features<5>, Cpu<0, 1>>::Inference;
  cpu::Workers workers(1);
  Weights<Small> weights(1);
  Execution<Program> execution(workers);
  execution.bind(Arena::parameters, weights.parameters());
  const float inputs[10]{1, 2, 3, 4, 5, -1, -2, -3, -4, -5};
  execution.give(0, inputs);
  execution.run(1);
  const float one[3]{execution.result(0)[0], execution.result(0)[1], execution.result(0)[2]};
  execution.run(2);
  for (int i = 0; i < 3; ++i) CHECK(execution.result(0)[i] == Approx(one[i]).margin(1e-6));
  CHECK(execution.memory_floats() >= 2 * Program::per_sample_floats);
  execution.give(0, inputs + 5);
  execution.run(1);
  float sum = 0;
  for (int i = 0; i < 3; ++i) {
    float expected = weights.parameters()[16 + i];
    for (int k = 0; k < 5; ++k) expected += weights.parameters()[5 * i + k] * inputs[5 + k];
    CHECK(execution.result(0)[i] == Approx(expected > 0 ? expected : 0).margin(1e-6));
    sum += execution.result(0)[i] + one[i];
  }
  CHECK(sum > 0);
}
