#include "tenet/exec/step_runner.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "tenet/tenet.hpp"

namespace {

using namespace tenet;

struct Scaled {
  Parameter<Fixed<4>, Constant<2>> scale;
  constexpr auto forward(auto x) const { return sum<1>(relu(x * scale.in(x))); }
};

}  // namespace

TEST_CASE("places are offsets in arenas, times the batch where a value has one", "[step_runner]") {
  float memory[64]{};
  Arenas arenas;
  arenas.batch = 3;
  arenas[Arena::per_sample] = arenas[Arena::fixed] = memory;
  arenas.inputs[1] = memory + 7;
  CHECK(arenas.at({Arena::per_sample, 16}) == memory + 48);
  CHECK(arenas.at({Arena::fixed, 16}) == memory + 16);
  CHECK(arenas.at({Arena::inputs, 1}) == memory + 7);
}

TEST_CASE("a runner runs the steps of a program in their order", "[step_runner]") {
  using Program = ModelOf<Scaled, Features<4>, Reference>::Inference;
  ReferenceKernels::Executor executor;
  float scale[16]{2, 2, 2, 2}, values[64]{}, fixed[64]{};
  const float inputs[8]{1, -2, 3, 4, -1, 0.5f, -3, -4};
  Arenas arenas;
  arenas.batch = 2;
  arenas[Arena::parameters] = scale;
  arenas[Arena::per_sample] = values;
  arenas[Arena::fixed] = fixed;
  arenas.inputs[0] = inputs;
  const auto& lowered = Program::lowered;
  StepRunner<ReferenceKernels>::run(
      executor, arenas,
      {lowered.steps, lowered.used.steps, lowered.calls, lowered.inputs, lowered.outputs, Program::ranges.data()});
  const auto* const sums = static_cast<const float*>(arenas.at(Program::results[0]));
  CHECK(sums[0] == 16.0f);
  CHECK(sums[1] == 1.0f);
}
