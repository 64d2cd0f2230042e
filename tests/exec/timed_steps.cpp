#include "tenet/exec/timed_steps.hpp"

#include <catch2/catch.hpp>

#include "../support/far_device.hpp"
#include "tenet/device/timeline.hpp"

using namespace tenet;

namespace {

using Executor = RecordedExecutor<far::Executor>;
static_assert(HasTimedEvents<Executor>);

struct Given {
  TimelineRecorder recorder{100};
  Executor executor{0};
  TimedSteps<Executor> steps;
  int subjects[4]{};

  Given() {
    far::Event::recorded = 0;
    far::Event::time_of_event = [](long i) {  // of the device's clock, which began at some other time
      constexpr double seconds[]{7, 8, 10, 13, 20, 21, 25};
      return seconds[i];
    };
    executor.timeline_row = &recorder.add_row("device");
  }
};

}  // namespace

TEST_CASE("steps have the device's times, beside the host's clock", "[timed_steps]") {
  Given given;
  auto& [recorder, executor, steps, subjects] = given;
  const std::int64_t before = timeline_now();
  steps.begin(executor);
  const std::int64_t after = timeline_now();
  CHECK(executor.waits == 2);  // it had nothing to do when its clock was read
  steps.end_step(executor, {.name = "first", .subject = &subjects[0]});
  steps.restart(executor);
  steps.end_step(executor, {.name = "second", .subject = &subjects[1]});
  CHECK(executor.timeline_row->added() == 0);  // they have not run
  steps.add_to_row(executor);
  steps.add_to_row(executor);  // nothing more
  const std::vector<Span> spans = executor.timeline_row->spans();
  REQUIRE(spans.size() == 2);
  const std::int64_t begin = spans[0].begin, second = 1'000'000'000;
  CHECK(begin >= before);
  CHECK(begin <= after);
  CHECK(spans[0].end == begin + 1 * second);
  CHECK(spans[1].begin == begin + 3 * second);
  CHECK(spans[1].end == begin + 6 * second);
  CHECK(std::string(spans[1].name) == "second");
  CHECK(spans[0].subject == &subjects[0]);
  CHECK(spans[1].subject == &subjects[1]);
  CHECK(spans[1].kind == SpanKind::step);
}

TEST_CASE("each run has an event of its own beside the host's clock, and adds what the last one has left",
          "[timed_steps]") {
  Given given;
  auto& [recorder, executor, steps, subjects] = given;
  steps.begin(executor);
  steps.end_step(executor, {.name = "first", .subject = &subjects[0]});
  steps.begin(executor);
  CHECK(executor.timeline_row->added() == 1);
  steps.end_step(executor, {.name = "second", .subject = &subjects[1]});
  steps.add_to_row(executor);
  const std::vector<Span> spans = executor.timeline_row->spans();
  REQUIRE(spans.size() == 2);
  CHECK(spans[1].end - spans[1].begin == 3'000'000'000);
  CHECK(spans[1].begin - spans[0].begin < 1'000'000'000);  // and not where the device's clock has it
}

TEST_CASE("without a row nothing is recorded, and nothing waited for", "[timed_steps]") {
  Given given;
  auto& [recorder, executor, steps, subjects] = given;
  executor.timeline_row = nullptr;
  steps.begin(executor);
  steps.restart(executor);
  steps.end_step(executor, {.name = "first", .subject = &subjects[0]});
  steps.add_to_row(executor);
  CHECK(executor.waits == 0);
  CHECK(far::Event::recorded == 0);
  STATIC_REQUIRE(std::is_empty_v<TimedSteps<far::Executor>>);
}
