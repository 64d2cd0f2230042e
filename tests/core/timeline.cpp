#include "tenet/core/timeline.hpp"

#include <catch2/catch.hpp>
#include <thread>

using namespace tenet;

namespace {
std::vector<long> numbers(const TimelineRow& row) {
  std::vector<long> result;
  for (const Span& span : row.spans()) result.push_back(span.number);
  return result;
}
}  // namespace

TEST_CASE("a row keeps its last spans, and knows how many there were", "[timeline]") {
  TimelineRecorder recorder(3);
  TimelineRow& row = recorder.add_row("device 0");
  CHECK(row.spans().empty());
  CHECK(row.capacity() == 3);
  for (long i = 0; i < 3; ++i) row.add({.begin = i, .end = i + 1, .number = i});
  CHECK(numbers(row) == std::vector<long>{0, 1, 2});
  CHECK(row.added() == 3);
  for (long i = 3; i < 8; ++i) row.add({.number = i});
  CHECK(numbers(row) == std::vector<long>{5, 6, 7});
  CHECK(row.added() == 8);
}

TEST_CASE("a span comes out as it went in", "[timeline]") {
  TimelineRecorder recorder(1);
  TimelineRow& row = recorder.add_row("r");
  static const int subject = 0;
  row.add({.begin = -5,
           .end = 1L << 60,
           .name = "name",
           .subject = &subject,
           .number = 7,
           .step = 8,
           .bytes = 9,
           .peer = -2,
           .kind = SpanKind::message});
  const Span span = row.spans().at(0);
  CHECK(span.begin == -5);
  CHECK(span.end == 1L << 60);
  CHECK(std::string(span.name) == "name");
  CHECK(span.subject == &subject);
  CHECK(span.number == 7);
  CHECK(span.step == 8);
  CHECK(span.bytes == 9);
  CHECK(span.peer == -2);
  CHECK(span.kind == SpanKind::message);
}

TEST_CASE("rows stay where they are, and know their recorder", "[timeline]") {
  TimelineRecorder recorder(2);
  std::vector<TimelineRow*> rows;
  for (int i = 0; i < 50; ++i) rows.push_back(&recorder.add_row(std::to_string(i)));
  REQUIRE(recorder.rows().size() == 50);
  for (std::size_t i = 0; i < 50; ++i) {
    CHECK(recorder.rows()[i].get() == rows[i]);
    CHECK(rows[i]->name() == std::to_string(i));
    CHECK(&rows[i]->recorder() == &recorder);
  }
}

TEST_CASE("spans are copied whole while others are added", "[timeline]") {
  TimelineRecorder recorder(16);
  TimelineRow& row = recorder.add_row("busy");
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (long i = 0; !stop.load(); ++i) row.add({.begin = i, .end = i, .number = i, .step = i, .bytes = i});
  });
  long torn = 0, disordered = 0, most = 0;
  while (row.added() < 1000) std::this_thread::yield();
  for (const std::int64_t end = timeline_now() + 200'000'000; timeline_now() < end;) {  // 0.2 s
    long last = -1;
    const std::vector<Span> spans = row.spans();
    most = std::max(most, static_cast<long>(spans.size()));
    for (const Span& span : spans) {
      torn += span.begin != span.end || span.end != span.number || span.number != span.step || span.step != span.bytes;
      disordered += last >= 0 && span.number != last + 1;
      last = span.number;
    }
  }
  stop = true;
  writer.join();
  CHECK(torn == 0);
  CHECK(disordered == 0);
  CHECK(most <= 16);
  CHECK(row.spans().size() == 16);
}
