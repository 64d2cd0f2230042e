#include "tenet/train/planned_steps.hpp"

#include <catch2/catch.hpp>
#include <tenet/tenet.hpp>

#include "../support/joining_device.hpp"
#include "../support/networks.hpp"

using namespace tenet;

namespace {

PlannedStep step(Pass pass, int number, double cost, int device = 0, std::vector<int> before = {}) {
  PlannedStep result;
  result.pass = pass;
  result.number = number;
  result.cost = cost;
  result.device = device;
  result.before = std::move(before);
  return result;
}
std::vector<std::pair<double, double>> times(const std::vector<PlannedSpan>& spans) {
  std::vector<std::pair<double, double>> result;
  for (const PlannedSpan& span : spans) result.emplace_back(span.begin, span.end);
  return result;
}
using Times = std::vector<std::pair<double, double>>;

constexpr auto as_many = [](int, long floats) { return static_cast<double>(floats); };
/// A bucket of 100 numbers takes 50 s, others 7.
constexpr Moving by_hand{"sends", "", as_many,
                         [](int, long floats, const LinkCost&) { return floats == 100 ? 50.0 : 7.0; }};
/// Numbers take a second each, or no time, or nobody knows.
constexpr Moving second_each{"sends", "", as_many,
                             [](int, long floats, const LinkCost&) { return static_cast<double>(floats); }};
constexpr Moving at_once{"sends", "", as_many, [](int, long, const LinkCost&) { return 0.0; }};
constexpr Moving without_formula{"sends", "", as_many};

/// Forward, backward, and an update of 12 s; two buckets, of which the second one's parameters are needed first.
PlannedSteps of_two_buckets(const Traffic& traffic) {
  PlannedSteps program;
  program.steps = {step(Pass::forward, 0, 10), step(Pass::backward, 1, 20), step(Pass::backward, 2, 30),
                   step(Pass::update, 3, 12)};
  program.buckets = {{2, 8, 1}, {3, 4, 0}};
  program.parameter_floats = 12;
  program.traffic = traffic;
  return program;
}

}  // namespace

TEST_CASE("steps follow each other, buckets leave when they are ready, the update waits for them", "[planned_steps]") {
  PlannedSteps program;
  program.steps = {step(Pass::forward, 0, 10), step(Pass::backward, 1, 20), step(Pass::backward, 2, 30),
                   step(Pass::update, 3, 5)};
  program.buckets = {{2, 100}, {3, 10}, {3, 1}};
  program.traffic.gradients = &by_hand;
  const PlannedSchedule plan = planned_schedule(program, {});
  CHECK(times(plan.steps) == Times{{0, 10}, {10, 30}, {30, 60}, {94, 99}});
  CHECK(times(plan.buckets) == Times{{30, 80}, {80, 87}, {87, 94}});
  CHECK(plan.computing == 65);
  CHECK(plan.end == 99);
  // Updated as they come: the last one takes 1/111 of the update.
  program.updates_by_buckets = true;
  CHECK(planned_schedule(program, {}).end == Approx(94 + 5.0 / 111));
  program.traffic.gradients = &at_once;
  CHECK(planned_schedule(program, {}).end == 65);
  program.updates_by_buckets = false;
  program.traffic.gradients = &by_hand;
  // In the next pass, which needs the bucket of 1 number first, and updates the others while it waits for that.
  program.updates_late = true;
  program.buckets = {{2, 100, 2, 1}, {3, 10, 1, 1}, {3, 1, 0, 0}};
  CHECK(planned_schedule(program, {}).end == Approx(94 + 5.0 / 111));
  CHECK(planned_schedule(program, {}).steps.back().begin == Approx(94 + 5.0 / 111 - 5));
  // In the order of need, of which the next pass begins at 87 with the first. The second one has come at 94, before the
  // backward pass reads its parameters.
  program.leaving = {0, 2, 1};
  CHECK(times(planned_schedule(program, {}).buckets) == Times{{30, 80}, {80, 87}, {87, 94}});
  CHECK(planned_schedule(program, {}).end == Approx(87 + 5.0 * 11 / 111));
  program.leaving = {};
  program.updates_late = false;
  // Twice as long for each unit of cost; links stay as they are.
  CHECK(times(planned_schedule(program, {.seconds_of_cost = 2}).steps) ==
        Times{{0, 20}, {20, 60}, {60, 120}, {134, 144}});
}

TEST_CASE("costs grow with the samples of a replica, the update is shared", "[planned_steps]") {
  PlannedSteps program;
  program.replicas = 2;
  program.steps = {step(Pass::forward, 0, 10), step(Pass::update, 1, 8)};
  program.steps[0].cost_of_sample = 3;
  CHECK(times(planned_schedule(program, {.batch = 8}).steps) == Times{{0, 22}, {22, 26}});
  program.shares_update = false;  // as devices with memories of their own
  CHECK(times(planned_schedule(program, {.batch = 8}).steps) == Times{{0, 22}, {22, 30}});
}

TEST_CASE("each worker updates a part, and parameters are gathered as they are needed", "[planned_steps]") {
  const PlannedSteps program = of_two_buckets({.gradients = &second_each, .parameters = &second_each});
  const PlannedSchedule plan = planned_schedule(program, {.workers = 3});
  CHECK(times(plan.steps) == Times{{0, 10}, {10, 30}, {30, 60}, {64, 68}});
  CHECK(times(plan.buckets) == Times{{30, 38}, {60, 64}});
  // A third of bucket 1's part of the update is done at 64 + 4 / 3, bucket 0's with all of it.
  REQUIRE(plan.parameters.size() == 2);
  CHECK(plan.parameters[0].index == 1);
  CHECK(plan.parameters[0].begin == Approx(64 + 4.0 / 3));
  CHECK(plan.parameters[1].index == 0);
  CHECK(plan.parameters[1].begin == Approx(68 + 4.0 / 3));
  CHECK(plan.parameters[1].end == Approx(76 + 4.0 / 3));
  CHECK(plan.end == 68);  // the next step may begin
}

TEST_CASE("parameters that move alone do so behind the step, in those steps in which workers meet", "[planned_steps]") {
  const PlannedSteps program = of_two_buckets({.parameters = &second_each, .steps = 4});
  const PlannedSchedule plan = planned_schedule(program, {});
  CHECK(times(plan.steps) == Times{{0, 10}, {10, 30}, {30, 60}, {60, 72}});
  CHECK(plan.buckets.empty());
  CHECK(times(plan.parameters) == Times{{72, 84}});
  CHECK(plan.parameters[0].index == -1);
  CHECK(plan.end == 84);
  CHECK(planned_schedule(program, {.meets = false}).parameters.empty());
  CHECK(planned_schedule(program, {.meets = false}).end == 72);
}

TEST_CASE("what has no formula is not planned, nor what servers update", "[planned_steps]") {
  PlannedSteps program = of_two_buckets({.gradients = &without_formula, .parameters = &second_each});
  const auto check_computing = [&](const Times& expected) {
    const PlannedSchedule plan = planned_schedule(program, {.workers = 3});
    CHECK(plan.buckets.empty());
    CHECK(plan.parameters.empty());
    CHECK(times(plan.steps) == expected);
  };
  const Times all{{0, 10}, {10, 30}, {30, 60}, {60, 72}};
  check_computing(all);
  program.traffic = {.gradients = &second_each, .is_known = false};
  check_computing(all);
  program.traffic = {};
  check_computing(all);
  program.updates = false;
  check_computing({{0, 10}, {10, 30}, {30, 60}});
}

TEST_CASE("a step that does more or less than was scheduled is planned by what it does", "[planned_steps]") {
  using Joint = Program<TrainingProgram<networks::Residual, CrossEntropy, PlainSgd, Image<2, 6, 5>,
                                        joining::Kernels<true>, UpdateInBackward>>;
  const PlannedSteps planned = planned_steps<Joint>("training", 1, BucketPlan<1>{});
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

TEST_CASE("devices wait for the steps of others that theirs need", "[planned_steps]") {
  const double wait = StepCosts::wait;
  PlannedSteps program;
  program.devices = 2;
  program.steps = {step(Pass::forward, 0, 10, 0, {0, 0}), step(Pass::forward, 1, 500, 1, {0, 0}),
                   step(Pass::forward, 2, 20, 0, {1, 0}), step(Pass::forward, 3, 5, 0, {3, 2}),
                   step(Pass::update, 4, 40, on_all_devices, {4, 2})};
  const PlannedSchedule plan = planned_schedule(program, {});
  const double end = 500 + wait + 5;
  // The last one is shared: half of it on each device, behind what it needs of the other one.
  CHECK(times(plan.steps) ==
        Times{{0, 10}, {0, 500}, {10, 30}, {500 + wait, end}, {end, end + 20}, {end + wait, end + wait + 20}});
  CHECK(plan.computing == 10 + 500 + 20 + 5 + 40);
}

TEST_CASE("a program's steps have names, passes and costs", "[planned_steps]") {
  using P = Program<TrainingProgram<networks::Residual, CrossEntropy, Sgd, Image<2, 6, 5>, CpuKernels>>;
  constexpr auto buckets = plan_buckets(P::lowered, P::slots, 64);
  const PlannedSteps found = planned_steps<P>("training", 1, buckets);
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
  REQUIRE(static_cast<int>(found.buckets.size()) == buckets.count);
  CHECK(found.buckets[0].ready == buckets.buckets[0].ready);
  for (int i = 0; i < buckets.count; ++i)
    CHECK(found.buckets[static_cast<std::size_t>(buckets.by_need[static_cast<std::size_t>(i)])].needed == i);
  CHECK(found.parameter_floats == P::slots.parameter_floats);
  double flops = 0;
  for (const PlannedStep& one : found.steps) flops += one.flops_of_sample;
  CHECK(flops == Approx(static_cast<double>(P::flops.per_sample)).epsilon(0.02));  // regions may compute some twice
}
