#include "tenet/exec/lowered.hpp"

#include <catch2/catch.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

TEST_CASE("a region has as many elements as its batch, or as its whole groups", "[lowered]") {
  RegionCall fixed, batched, grouped;
  fixed.total = batched.total = 12;
  grouped.total = 12 * sample_lanes;
  batched.batched = grouped.batched = grouped.in_groups = true;
  for (const RegionCall& call : {fixed, batched, grouped}) CHECK(call.size() == 12);
  for (const long batch : {1, 3, 4, 16, 17}) {
    CAPTURE(batch);
    CHECK(fixed.elements(batch) == 12);
    CHECK(batched.elements(batch) == 12 * batch);
    CHECK(grouped.elements(batch) == 12 * (batch < 4 ? batch : batch < 17 ? 16 : 32));
    CHECK(batched.lanes_too_many(batch) == 1);
    CHECK(grouped.lanes_too_many(batch) == (batch < 4 ? 16 : 1));
  }
}

namespace {
// A convolution of few channels: its image is copied into lanes, a step without a region.
using Images = Program<InferenceProgram<Sequential<Conv2d<1, 2, 3>, ReLU>, Image<1, 6, 6>, CpuKernels>>;
using Rows = Program<InferenceProgram<Sequential<Linear<4, 3>, ReLU>, Features<4>, CpuKernels>>;

template <class Program>
constexpr int copies() {
  int count = 0;
  for (int s = 0; s < Program::lowered.used.steps; ++s) count += is_copy(Program::lowered, Program::lowered.steps[s]);
  return count;
}
static_assert(copies<Images>() == 2 && copies<Rows>() == 0);
}  // namespace

TEST_CASE("there is room for whole groups of samples where values lie in lanes", "[lowered]") {
  CHECK(Images::lowered.room_for(5) == 16);
  CHECK(Images::lowered.room_for(3) == 3);
  CHECK(Rows::lowered.room_for(5) == 5);
}

TEST_CASE("a program without spare room is the same program", "[lowered]") {
  Lowered<CpuKernels, LoweredSize{5, 5, 5, 5, 5}> roomy;
  roomy.used = {3, 2, 4, 3, 1};
  roomy.steps[2].number = 11;
  roomy.calls[1].total = 12;
  roomy.inputs[3].place.offset = 13;
  roomy.outputs[2].offset = 14;
  roomy.programs[0].signature = 15;
  roomy.prepared_steps = 16;
  roomy.first_update = 17;
  roomy.after_update = 18;
  roomy.scratch = 19;
  roomy.in_groups = true;
  const auto trim = trimmed<LoweredSize{3, 2, 4, 3, 1}>(roomy);
  CHECK(std::size(trim.steps) == 4);  // none of them can be empty
  CHECK(trim.used.inputs == 4);
  CHECK(trim.steps[2].number == 11);
  CHECK(trim.calls[1].total == 12);
  CHECK(trim.inputs[3].place.offset == 13);
  CHECK(trim.outputs[2].offset == 14);
  CHECK(trim.programs[0].signature == 15);
  CHECK(trim.prepared_steps == 16);
  CHECK(trim.first_update == 17);
  CHECK(trim.after_update == 18);
  CHECK(trim.scratch == 19);
  CHECK(trim.in_groups);
}
