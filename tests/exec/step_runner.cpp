#include "tenet/exec/step_runner.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "../support/lending_device.hpp"
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
  arenas.batch = arenas.room = 3;
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
  arenas.batch = arenas.room = 2;
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

TEST_CASE("a workspace lies where it fits, else behind the end, else with the executor", "[step_runner]") {
  using Kernels = lending::Kernels;
  Step<Kernels> steps[5];
  for (int s = 0; s < 5; ++s) {
    steps[s].kind = Kind::kernel;
    steps[s].number = s;
    steps[s].workspace = [](long batch) { return 100 * batch; };
    steps[s].room = {{{{Arena::per_sample, 16}, 48}, {{Arena::fixed, 32}, 300}}, 160};
  }
  steps[0].workspace = nullptr;
  steps[2].room.largest[0].floats = 112;
  steps[3].room.largest[1].floats = 0;
  steps[4].room = {{{{Arena::per_sample, 16}, 48}, {}}, -1};
  const StepTables<Kernels> tables{steps, 5, nullptr, nullptr, nullptr, nullptr};
  const auto place = [&](long batch) {
    std::array<Workspace, 5> found{};
    const long behind = StepRunner<Kernels>::place_workspaces(batch, batch, 192, tables, found.data());
    CHECK(found[0].floats == 0);
    CHECK(!found[0].is_lent);
    CHECK(found[3].place == Place{Arena::per_sample, 160});
    CHECK(found[3].is_lent);
    CHECK(found[4].floats == 100 * batch);
    CHECK(!found[4].is_lent);
    return std::pair{found, behind};
  };
  const auto [few, behind_few] = place(3);
  CHECK(behind_few == 3 * (100 - (192 - 160)));
  CHECK(few[1].place == Place{Arena::fixed, 32});
  CHECK(few[2].place == Place{Arena::fixed, 32});
  const auto [many, behind_many] = place(4);  // which do not fit `fixed`
  CHECK(behind_many == 4 * (100 - (192 - 160)));
  CHECK(many[1].place == Place{Arena::per_sample, 160});
  CHECK(many[2].place == Place{Arena::per_sample, 16});
  // Rooms are as much wider as the arena has room for more samples than there are.
  std::array<Workspace, 5> found{};
  CHECK(StepRunner<Kernels>::place_workspaces(4, 16, 192, tables, found.data()) == 0);
  CHECK(found[1].place == Place{Arena::per_sample, 16});
}
