#include "tenet/train/planned_schedule.hpp"

#include <catch2/catch.hpp>

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
PlannedPart bucket(int number, int ready, long floats, int needed = 0, int read = 0) {
  return {ready, floats, ExchangedPart::Kind::gradients, number, needed, read};
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
  program.parts = {bucket(0, 2, 8, 1), bucket(1, 3, 4, 0)};
  program.parameter_floats = 12;
  program.traffic = traffic;
  return program;
}

}  // namespace

TEST_CASE("steps follow each other, buckets leave when they are ready, the update waits for them",
          "[planned_schedule]") {
  PlannedSteps program;
  program.steps = {step(Pass::forward, 0, 10), step(Pass::backward, 1, 20), step(Pass::backward, 2, 30),
                   step(Pass::update, 3, 5)};
  program.parts = {bucket(0, 2, 100), bucket(1, 3, 10, 1), bucket(2, 3, 1, 2)};
  program.traffic.gradients = &by_hand;
  const PlannedSchedule plan = planned_schedule(program, {});
  CHECK(times(plan.steps) == Times{{0, 10}, {10, 30}, {30, 60}, {94, 99}});
  CHECK(times(plan.parts) == Times{{30, 80}, {80, 87}, {87, 94}});
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
  program.parts = {bucket(0, 2, 100, 2, 1), bucket(1, 3, 10, 1, 1), bucket(2, 3, 1, 0, 0)};
  CHECK(planned_schedule(program, {}).end == Approx(94 + 5.0 / 111));
  CHECK(planned_schedule(program, {}).steps.back().begin == Approx(94 + 5.0 / 111 - 5));
  // In the order of need, of which the next pass begins at 87 with the first. The second one has come at 94, before the
  // backward pass reads its parameters.
  std::swap(program.parts[1], program.parts[2]);
  CHECK(times(planned_schedule(program, {}).parts) == Times{{30, 80}, {80, 87}, {87, 94}});
  CHECK(planned_schedule(program, {}).end == Approx(87 + 5.0 * 11 / 111));
  program.updates_late = false;
  // Twice as long for each unit of cost; links stay as they are.
  CHECK(times(planned_schedule(program, {.seconds_of_cost = 2}).steps) ==
        Times{{0, 20}, {20, 60}, {60, 120}, {134, 144}});
}

TEST_CASE("costs grow with the samples of a replica, the update is shared", "[planned_schedule]") {
  PlannedSteps program;
  program.replicas = 2;
  program.steps = {step(Pass::forward, 0, 10), step(Pass::update, 1, 8)};
  program.steps[0].cost_of_sample = 3;
  CHECK(times(planned_schedule(program, {.batch = 8}).steps) == Times{{0, 22}, {22, 26}});
  program.shares_update = false;  // as devices with memories of their own
  CHECK(times(planned_schedule(program, {.batch = 8}).steps) == Times{{0, 22}, {22, 30}});
}

TEST_CASE("each worker updates a part, and parameters are gathered as they are needed", "[planned_schedule]") {
  const PlannedSteps program = of_two_buckets({.gradients = &second_each, .parameters = &second_each});
  const PlannedSchedule plan = planned_schedule(program, {.workers = 3});
  CHECK(times(plan.steps) == Times{{0, 10}, {10, 30}, {30, 60}, {64, 68}});
  CHECK(times(plan.parts) == Times{{30, 38}, {60, 64}});
  // A third of bucket 1's part of the update is done at 64 + 4 / 3, bucket 0's with all of it.
  REQUIRE(plan.parameters.size() == 2);
  CHECK(plan.parameters[0].index == 1);
  CHECK(plan.parameters[0].begin == Approx(64 + 4.0 / 3));
  CHECK(plan.parameters[1].index == 0);
  CHECK(plan.parameters[1].begin == Approx(68 + 4.0 / 3));
  CHECK(plan.parameters[1].end == Approx(76 + 4.0 / 3));
  CHECK(plan.end == 68);  // the next step may begin
}

TEST_CASE("parameters that move alone do so behind the step, in those steps in which workers meet",
          "[planned_schedule]") {
  const PlannedSteps program = of_two_buckets({.parameters = &second_each, .steps = 4});
  const PlannedSchedule plan = planned_schedule(program, {});
  CHECK(times(plan.steps) == Times{{0, 10}, {10, 30}, {30, 60}, {60, 72}});
  CHECK(plan.parts.empty());
  CHECK(times(plan.parameters) == Times{{72, 84}});
  CHECK(plan.parameters[0].index == -1);
  CHECK(plan.end == 84);
  CHECK(planned_schedule(program, {.meets = false}).parameters.empty());
  CHECK(planned_schedule(program, {.meets = false}).end == 72);
}

TEST_CASE("gradients that move inside of machines take what links there do, and parameters move behind them",
          "[planned_schedule]") {
  // Of four workers on each of two machines; a number takes 1 s inside, and 10 s between them.
  constexpr Moving by_link{"sends", "", as_many, [](int workers, long floats, const LinkCost& link) {
                             return workers * link.seconds + static_cast<double>(floats) * link.seconds_per_float;
                           }};
  PlannedSteps program = of_two_buckets({.gradients = &by_link, .parameters = &by_link, .steps = 4, .inside = true});
  program.parts.push_back({4, 1, ExchangedPart::Kind::results, -1});
  LinkCost link{.seconds = 2, .seconds_per_float = 10};
  link.machine = {.count = 2, .fewest = 4, .most = 4, .seconds = 0.5, .seconds_per_float = 1};
  const PlannedSchedule plan = planned_schedule(program, {.workers = 8, .link = link});
  CHECK(times(plan.parts) == Times{{30, 40}, {60, 66}, {78, 81}});  // 4 · 0.5 and 8, 4 or 1
  CHECK(times(plan.steps) == Times{{0, 10}, {10, 30}, {30, 60}, {66, 78}});
  CHECK(times(plan.parameters) == Times{{81, 81 + 8 * 2 + 12 * 10}});
  CHECK(plan.end == plan.parameters[0].end);
  CHECK(planned_schedule(program, {.workers = 8, .link = link, .meets = false}).end == 81);
  // In the next pass, but for a step behind which workers meet: not before the last bucket has come.
  program.updates_late = true;
  program.parts.pop_back();
  program.parts[1] = bucket(1, 3, 50, 0, 3);  // it would be there in time for the next pass
  const PlannedSchedule late = planned_schedule(program, {.workers = 8, .link = link});
  CHECK(late.parts.back().end == 60 + 2 + 50);
  CHECK(late.parameters[0].begin == late.parts.back().end);
  CHECK(planned_schedule(program, {.workers = 8, .link = link, .meets = false}).end == 72);
  // Whose ranks are all on one machine: its links are those of the transport.
  program = of_two_buckets({.gradients = &by_link, .parameters = &by_link, .steps = 4, .inside = true});
  link = {.seconds = 2, .seconds_per_float = 1};
  CHECK(times(planned_schedule(program, {.workers = 2, .link = link}).parts) == Times{{30, 42}, {60, 68}});
}

TEST_CASE("what has no formula is not planned, nor what servers update", "[planned_schedule]") {
  PlannedSteps program = of_two_buckets({.gradients = &without_formula, .parameters = &second_each});
  const auto check_computing = [&](const Times& expected) {
    const PlannedSchedule plan = planned_schedule(program, {.workers = 3});
    CHECK(plan.parts.empty());
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

TEST_CASE("devices wait for the steps of others that theirs need", "[planned_schedule]") {
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

TEST_CASE("a batch's shards run one after the other, and its last one's gradients leave", "[planned_schedule]") {
  PlannedSteps program = of_two_buckets({.gradients = &at_once});
  program.steps[0].cost_of_sample = 2;
  program.shards_of_worker = 2;
  PlannedSchedule plan = planned_schedule(program, {.batch = 10});
  CHECK(times(plan.steps) == Times{{0, 20}, {20, 40}, {40, 70}, {70, 90}, {90, 110}, {110, 140}, {140, 152}});
  CHECK(times(plan.parts) == Times{{110, 110}, {140, 140}});
  CHECK(plan.computing == 152);
  program.prepared = 1;  // the first step runs before the batch, once
  plan = planned_schedule(program, {.batch = 10});
  CHECK(times(plan.steps) == Times{{0, 20}, {20, 40}, {40, 70}, {70, 90}, {90, 120}, {120, 132}});
  // Of a batch that is cut into 8 for all workers each of 4 has two, and each of 8 has one.
  program.shards_in_all = 8;
  program.prepared = 0;
  CHECK(planned_schedule(program, {.batch = 10, .workers = 4}).steps.size() == 7);
  CHECK(planned_schedule(program, {.batch = 10, .workers = 8}).steps.size() == 4);
}

TEST_CASE("servers update buckets as they come, and send them when the step has ended", "[planned_schedule]") {
  // A server has one half of each bucket.
  PlannedSteps program =
      of_two_buckets({.gradients = &second_each, .parameters = &second_each, .served = [](int, long floats) {
                        return static_cast<double>(floats) / 2;
                      }});
  program.updates = false;
  const PlannedSchedule plan = planned_schedule(program, {.workers = 2});
  CHECK(times(plan.steps) == Times{{0, 10}, {10, 30}, {30, 60}});
  CHECK(times(plan.parts) == Times{{30, 38}, {60, 64}});
  CHECK(plan.end == 64);  // the pushes have been met
  // The update takes 12 s for 12 numbers: bucket 1 is there at 64 + 2, bucket 0 has been since 38 + 4.
  CHECK(times(plan.parameters) == Times{{66, 70}, {70, 78}});
  CHECK(plan.parameters[0].index == 1);
  // A single bucket is asked for when the pass has ended.
  program.parts = {bucket(0, 2, 8)};
  CHECK(times(planned_schedule(program, {}).parameters) == Times{{60, 68}});
  // Means of all ranks come and go at the end, before parameters.
  program.parts.push_back({4, 3, ExchangedPart::Kind::results, -1});
  CHECK(times(planned_schedule(program, {}).parts) == Times{{30, 38}, {60, 66}});
  CHECK(planned_schedule(program, {}).end == 66);
  CHECK(times(planned_schedule(program, {}).parameters) == Times{{60, 68}});
}

TEST_CASE("what ranks tell each other besides gradients takes its time", "[planned_schedule]") {
  const LinkCost link{.seconds = 3, .seconds_per_float = 0.5, .seconds_per_sum = 0};
  PlannedSteps program = of_two_buckets({.gradients = &second_each});
  using enum ExchangedPart::Kind;
  // The pass waits for a sum, in front of its second step; at the end there are results, and running statistics.
  program.parts.insert(program.parts.begin(), {1, 5, sum, -1});
  program.parts.push_back({4, 1, results, -1});
  program.parts.push_back({4, 2, statistics, -1});
  const PlannedSchedule plan = planned_schedule(program, {.workers = 2, .link = link});
  CHECK(times(plan.steps) == Times{{0, 10}, {15, 35}, {35, 65}, {69, 81}});
  CHECK(times(plan.parts) == Times{{10, 15}, {35, 43}, {65, 69}, {81, 82}, {82, 86}});
  CHECK(plan.parts[0].index == 0);
  CHECK(plan.end == 86);
  // A worker by itself has nobody to tell anything.
  CHECK(planned_schedule(of_two_buckets({.gradients = &at_once}), {.link = link}).end == 72);
  // Where they leave with a bucket, and buckets are awaited in the next pass, the step ends with them.
  program.parts.pop_back();
  program.parts.pop_back();
  program.parts.insert(program.parts.begin() + 1, {2, 40, results, -1});
  program.updates_late = true;
  CHECK(planned_schedule(program, {.workers = 2, .link = link}).end >= 75);
  // Of parameters that move alone, results are added up in the quickest way.
  PlannedSteps averaged = of_two_buckets({.parameters = &second_each});
  averaged.parts = {{1, 4, sum, -1}};
  CHECK(times(planned_schedule(averaged, {.workers = 2, .link = link}).parts) ==
        Times{{10, 10 + AllReduceTimes(2, 4, link).least()}});
}
