#include "tenet/exec/execution.hpp"

#include <catch2/catch.hpp>

#include "../../examples/models/lenet.hpp"
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
static_assert(!Predicting<Sequential<Linear<800, 800>, ReLU>, Features<800>, Cpu<>>::has_one_sample());

}  // namespace

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
