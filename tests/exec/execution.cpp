#include "tenet/exec/execution.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "../../examples/models/lenet.hpp"
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

}  // namespace

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
