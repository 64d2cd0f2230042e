#include "tenet/train/planned_steps.hpp"

#include <catch2/catch.hpp>
#include <tenet/tenet.hpp>

#include "../support/joining_device.hpp"
#include "../support/networks.hpp"

using namespace tenet;

TEST_CASE("a step that does more or less than was scheduled is planned by what it does", "[planned_steps]") {
  using Joint = Program<TrainingProgram<networks::Residual, CrossEntropy, PlainSgd, Image<2, 6, 5>,
                                        joining::Kernels<true>, UpdateInBackward>>;
  const PlannedSteps planned = planned_steps<Joint>("training", 1);
  const std::vector<StepWork> work = work_of_steps<Joint>();
  int sums = 0, behind = 0;
  for (std::size_t s = 0; s < planned.steps.size(); ++s) {
    const auto& step = Joint::lowered.steps[s];
    const PlannedStep& found = planned.steps[s];
    CAPTURE(s, found.name, found.operations);
    if (step.role != Role::store_and_sum) continue;
    CHECK(found.operations.ends_with("sum"));
    ++sums;
    CHECK(found.flops_of_sample == static_cast<double>(work[s].flops.per_sample));
    if (planned.steps[s - 1].operations != "conv2d_input_gradient") continue;
    ++behind;
    CHECK(found.operations == "add relu_gradient sum");
    CHECK(planned.steps[s - 1].flops_of_sample == static_cast<double>(work[s - 1].flops.per_sample));
  }
  CHECK(sums >= 6);
  CHECK(behind >= 1);
}

TEST_CASE("a program's steps have names, passes and costs", "[planned_steps]") {
  using P = Program<TrainingProgram<networks::Residual, CrossEntropy, Sgd, Image<2, 6, 5>, CpuKernels>>;
  constexpr auto buckets = plan_buckets(P::lowered, P::slots, 64);
  std::vector<ExchangedPart> parts{{.kind = ExchangedPart::Kind::results, .floats = 2, .ready = 5}};
  for (int b = 0; b < buckets.count; ++b) {
    const Bucket& bucket = buckets.buckets[static_cast<std::size_t>(b)];
    parts.push_back({ExchangedPart::Kind::gradients, b, bucket.floats, bucket.ready, bucket.needed});
  }
  const PlannedSteps found = planned_steps<P>("training", 1, parts);
  REQUIRE(static_cast<int>(found.steps.size()) == P::lowered.used.steps);
  std::vector<std::string> convolutions;
  int last = 0;
  for (std::size_t s = 0; s < found.steps.size(); ++s) {
    const PlannedStep& one = found.steps[s];
    CHECK(found.index_of(&P::lowered.steps[s]) == static_cast<int>(s));
    CHECK(one.cost >= StepCosts::step);
    CHECK(one.cost + one.cost_of_sample >= one.flops + one.flops_of_sample);
    CHECK(static_cast<int>(one.pass) >= last);
    last = static_cast<int>(one.pass);
    if (one.name.starts_with("conv2d")) convolutions.push_back(one.name);
  }
  CHECK(convolutions == std::vector<std::string>{"conv2d stem", "conv2d conv", "conv2d_input_gradient conv",
                                                 "conv2d_weight_gradient conv", "conv2d_weight_gradient stem"});
  CHECK(found.index_of(&found) == -1);
  CHECK(found.index_of(nullptr) == -1);
  REQUIRE(static_cast<int>(found.parts.size()) == 1 + buckets.count);
  CHECK(!found.parts[0].is_bucket());
  CHECK(found.parts[0].ready == 5);
  CHECK(found.parts[1].ready == buckets.buckets[0].ready);
  for (int i = 0; i < buckets.count; ++i) {
    const auto b = static_cast<std::size_t>(buckets.by_need[static_cast<std::size_t>(i)]);
    CHECK(found.parts[1 + b].number == static_cast<int>(b));
    CHECK(found.parts[1 + b].needed == i);
    CHECK(found.parts[1 + b].read == buckets.buckets[b].needed);
  }
  CHECK(found.parameter_floats == P::slots.parameter_floats);
  double flops = 0;
  for (const PlannedStep& one : found.steps) flops += one.flops_of_sample;
  CHECK(flops == Approx(static_cast<double>(P::flops.per_sample)).epsilon(0.02));  // regions may compute some twice
}
