#include "tenet/core/span.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "tenet/core/timeline.hpp"

using namespace tenet;

namespace {
struct Worker {
  TimelineRow* timeline_row = nullptr;
};
struct Plain {};
}  // namespace

TEST_CASE("open spans last to the end of their scope, and only where there is a row", "[span]") {
  TimelineRecorder recorder(4);
  Worker worker{&recorder.add_row("w")}, without;
  const std::int64_t before = timeline_now();
  {
    const auto outer = open_span(worker, {.name = "outer"});
    const auto inner = open_span(worker, {.name = "inner"});
    const auto nowhere = open_span(without, {.name = "nowhere"});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const std::int64_t after = timeline_now();
  const std::vector<Span> spans = worker.timeline_row->spans();
  REQUIRE(spans.size() == 2);
  CHECK(std::string(spans[0].name) == "inner");  // ended first
  CHECK(spans[1].begin >= before);
  CHECK(spans[1].begin <= spans[0].begin);
  CHECK(spans[0].end - spans[0].begin >= 2'000'000);
  CHECK(spans[0].end <= spans[1].end);
  CHECK(spans[1].end <= after);

  Plain plain;
  STATIC_REQUIRE(std::is_same_v<decltype(open_span(plain, {})), NoSpan>);
  STATIC_REQUIRE(std::is_empty_v<RepeatedSpan<Plain>>);
}

TEST_CASE("a repeated span begins and ends again and again", "[span]") {
  TimelineRecorder recorder(4);
  Worker worker{&recorder.add_row("w")};
  RepeatedSpan waiting(worker, {.name = "a batch", .kind = SpanKind::wait});
  for (int i = 0; i < 3; ++i) {
    waiting.begin();
    waiting.end();
  }
  const std::vector<Span> spans = worker.timeline_row->spans();
  REQUIRE(spans.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(spans[i].begin <= spans[i].end);
    CHECK(spans[i].kind == SpanKind::wait);
    if (i > 0) CHECK(spans[i - 1].end <= spans[i].begin);
  }
}
