#include "tenet/exec/memory_access.hpp"

#include <catch2/catch.hpp>
#include <tenet/tenet.hpp>

#include "../support/joining_device.hpp"
#include "../support/networks.hpp"

using namespace tenet;

static_assert(conflict({0, Arena::fixed, true, 0, 16}, {1, Arena::fixed, false, 15, 20}));
static_assert(!conflict({0, Arena::fixed, false, 0, 16}, {1, Arena::fixed, false, 15, 20}));
static_assert(!conflict({0, Arena::fixed, true, 0, 16}, {1, Arena::fixed, true, 16, 20}));
static_assert(!conflict({0, Arena::fixed, true, 0, 16}, {1, Arena::per_sample, true, 0, 16}));

static_assert(access_at(2, {Arena::fixed, 16, DType::bfloat16}, 5, true).last == 16 + 3);  // two numbers a float

TEST_CASE("a loop that stores and sums writes values of samples, and one number for each column", "[accesses]") {
  using Step = Program<TrainingProgram<networks::Residual, CrossEntropy, PlainSgd, Image<2, 6, 5>,
                                       joining::Kernels<true>, UpdateInBackward>>;
  constexpr long channels = 4, image = channels * 6 * 5;
  int joint = 0;
  for (int s = 0; s < Step::lowered.used.steps; ++s) {
    const auto& step = Step::lowered.steps[s];
    if (step.role != Role::store_and_sum) continue;
    const Wiring& wiring = Step::lowered.programs[Step::lowered.calls[step.region].program].wiring;
    int images = 0, sums = 0, read = 0;
    for_each_access(Step::graph, Step::order, Step::lowered, step, s, [&](const MemoryAccess& access) {
      const long floats = access.last - access.first;
      CHECK(access.step == s);
      images += access.writes && access.arena == Arena::per_sample && floats == image;
      sums += access.writes && access.arena == Arena::fixed && floats == channels;
      read += !access.writes && floats == image;
    });
    CAPTURE(s, step.name);
    CHECK(images == wiring.stored());
    CHECK(sums == wiring.summed);
    CHECK(read >= 1);
    ++joint;
  }
  CHECK(joint >= 6);  // forward and, twice, backward, for two batch norms
}
