#include "tenet/device/timeline.hpp"

#include <catch2/catch.hpp>
#include <tenet/tenet.hpp>

#include "../support/network.hpp"
#include "../support/networks.hpp"

using namespace tenet;

namespace {
template <class Kernels>
using StepOf = Program<TrainingProgram<networks::WholeRows, CrossEntropy, Sgd, Features<16>, Kernels>>;

/// The names of the steps that were recorded in a run, in order.
template <class Kernels>
void check_steps(const char* device) {
  using P = StepOf<WithTimeline<Kernels>>;
  TimelineRecorder recorder(100);
  const auto executor = make_executor<Cpu<0, 1>, WithTimeline<Kernels>>(1);
  Execution<P, OneSampleNever> execution(*executor);
  Buffer parameters(P::slots.parameter_floats), gradients(P::slots.parameter_floats);
  Buffer states(P::state_count * P::slots.parameter_floats), inputs(16 * 4), targets(4);
  execution.bind(Arena::parameters, parameters.data());
  execution.bind(Arena::gradients, gradients.data());
  execution.bind(Arena::states, states.data());
  const float scalars[8]{};
  execution.set_scalars(scalars, 0);
  execution.give(0, inputs.data());
  execution.give(1, targets.data());
  execution.run(4);  // no row: nothing is recorded
  executor->timeline_row = &recorder.add_row(device);
  execution.run(4);
  const std::vector<Span> spans = executor->timeline_row->spans();
  REQUIRE(static_cast<int>(spans.size()) == P::lowered.used.steps - P::lowered.prepared_steps);
  for (std::size_t s = 0; s < spans.size(); ++s) {
    CHECK(spans[s].subject == &P::lowered.steps[P::lowered.prepared_steps + static_cast<int>(s)]);
    CHECK(std::string(spans[s].name) == P::lowered.steps[P::lowered.prepared_steps + static_cast<int>(s)].name);
    CHECK(spans[s].kind == SpanKind::step);
    CHECK(spans[s].begin <= spans[s].end);
    if (s > 0) CHECK(spans[s].begin == spans[s - 1].end);
  }
}
}  // namespace

TEST_CASE("every step of a program is recorded, in order, where the executor has a row", "[timeline]") {
  check_steps<CpuKernels>("cpu");
  check_steps<ReferenceKernels>("reference");
}

TEST_CASE("kernels with a timeline compute what those without one do", "[timeline]") {
  STATIC_REQUIRE(HasTimelineRow<WithTimeline<CpuKernels>::Executor>);
  STATIC_REQUIRE_FALSE(HasTimelineRow<CpuKernels::Executor>);
  STATIC_REQUIRE(StepOf<WithTimeline<CpuKernels>>::lowered.used.steps == StepOf<CpuKernels>::lowered.used.steps);
  STATIC_REQUIRE(WithTimeline<WithActivations<CpuKernels, DType::bfloat16>>::activations == DType::bfloat16);
}
