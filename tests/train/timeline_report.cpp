#include "tenet/train/timeline_report.hpp"

#include <catch2/catch.hpp>

#include "../support/trace.hpp"

using namespace tenet;
using Catch::Matchers::Contains;

namespace {

Span span(SpanKind kind, std::int64_t begin, std::int64_t end) {
  return {.begin = begin, .end = end, .name = "s", .kind = kind};
}
RecordedRow row(std::vector<Span> spans) { return {"row", static_cast<long>(spans.size()), std::move(spans)}; }

/// A program of four steps, the last of them the update.
struct Hand {
  char memory[4 * 8]{};
  PlannedSteps program;
  Hand() {
    program.name = "training";
    program.first = memory;
    program.size = 8;
    program.trains = true;
    const Pass passes[]{Pass::forward, Pass::forward, Pass::backward, Pass::update};
    for (int s = 0; s < 4; ++s) {
      PlannedStep step;
      step.name = "step" + std::to_string(s);
      step.pass = passes[s];
      step.number = s;
      step.cost = 10;
      step.cost_of_sample = s == 2 ? 20 : 0;
      program.steps.push_back(step);
    }
  }
  const void* step(int s) const { return memory + 8 * s; }
  void add(TimelineRow& row, int s, std::int64_t begin, std::int64_t end, SpanKind kind = SpanKind::step) const {
    row.add({.begin = begin, .end = end, .name = "op", .subject = step(s), .kind = kind});
  }
};

}  // namespace

TEST_CASE("how much of the communication is hidden, on spans by hand", "[timeline_report]") {
  using enum SpanKind;
  const auto share = [](std::vector<RecordedRow> rows) { return communication_overlap(rows); };
  CHECK(share({}).seconds == 0);
  CHECK(share({}).hidden_share() == 0);

  // All of it, none of it, a part of it.
  CHECK(share({row({span(step, 0, 100)}), row({span(collective, 20, 60)})}).hidden_share() == Approx(1));
  CHECK(share({row({span(step, 0, 100)}), row({span(collective, 100, 160)})}).hidden_share() == 0);
  const CommunicationOverlap part =
      share({row({span(step, 0, 100), span(step, 100, 130), span(step, 150, 200)}), row({span(collective, 110, 160)})});
  CHECK(part.seconds == Approx(50e-9));
  CHECK(part.hidden_seconds == Approx(30e-9));

  // Messages lie within their collective: each point in time counts once, on whichever row.
  const CommunicationOverlap nested =
      share({row({span(update, 0, 10)}), row({span(message, 2, 4), span(message, 4, 6), span(collective, 0, 20)}),
             row({span(request, 15, 40)})});
  CHECK(nested.seconds == Approx(40e-9));
  CHECK(nested.hidden_seconds == Approx(10e-9));
  // Two devices compute.
  CHECK(share({row({span(step, 0, 10)}), row({span(step, 5, 20)}), row({span(collective, 8, 24)})}).hidden_seconds ==
        Approx(12e-9));
  // To wait, and all that a training step contains, is not to compute.
  CHECK(
      share({row({span(wait, 0, 100), span(training_step, 0, 100)}), row({span(collective, 0, 50)})}).hidden_share() ==
      0);
}

TEST_CASE("of communication, waiting for other ranks is told from moving", "[timeline_report]") {
  using enum SpanKind;
  const auto share = [](std::vector<RecordedRow> rows) { return communication_overlap(rows); };
  // A device's waiting is not the link's.
  const CommunicationOverlap found = share({row({span(step, 0, 50), span(wait, 50, 100), span(step, 100, 110)}),
                                            row({span(wait, 10, 40), span(message, 40, 60), span(wait, 70, 90),
                                                 span(message, 90, 100), span(collective, 10, 100)})});
  CHECK(found.seconds == Approx(90e-9));
  CHECK(found.hidden_seconds == Approx(40e-9));
  CHECK(found.moving_seconds == Approx(40e-9));
  CHECK(found.hidden_moving_seconds == Approx(10e-9));
  CHECK(found.hidden_share_of_moving() == Approx(0.25));
  // While one link waits numbers move on the other.
  CHECK(share({row({span(wait, 0, 10), span(collective, 0, 10)}), row({span(collective, 5, 10)})}).moving_seconds ==
        Approx(5e-9));
  CHECK(share({row({span(wait, 0, 10), span(collective, 0, 10)})}).hidden_share_of_moving() == 0);
  // A request of a server lasts until it is answered; meanwhile messages move numbers, its own or those of others.
  const CommunicationOverlap served =
      share({row({span(step, 0, 50)}), row({span(message, 10, 14), span(message, 90, 96), span(request, 10, 100)})});
  CHECK(served.seconds == Approx(90e-9));
  CHECK(served.hidden_seconds == Approx(40e-9));
  CHECK(served.moving_seconds == Approx(10e-9));
  CHECK(served.hidden_moving_seconds == Approx(4e-9));
}

TEST_CASE("passes are the steps of one that follow each other", "[timeline_report]") {
  const Hand hand;
  TimelineRecorder recorder(100);
  TimelineRow& r = recorder.add_row("device 0");
  const auto passes = [&] {
    std::string found;
    for (const RecordedPass& pass : passes_of({"", 0, r.spans()}, {&hand.program, 1}))
      found +=
          std::string(name_of(pass.pass)) + " " + std::to_string(pass.begin) + "-" + std::to_string(pass.end) + " ";
    return found;
  };
  hand.add(r, 0, 0, 10);
  hand.add(r, 1, 12, 20);
  r.add({.begin = 21, .end = 25, .kind = SpanKind::wait});
  hand.add(r, 2, 25, 40);
  hand.add(r, 3, 41, 50);
  CHECK(passes() == "forward 0-20 backward 25-40 update 41-50 ");
  hand.add(r, 0, 60, 70);  // the next run
  hand.add(r, 0, 80, 90);  // and one that ended there
  hand.add(r, 1, 90, 95);
  CHECK(passes() == "forward 0-20 backward 25-40 update 41-50 forward 60-70 forward 80-95 ");
  hand.add(r, 3, 100, 110);
  hand.add(r, 3, 115, 120, SpanKind::update);  // parts of one update
  r.add({.begin = 50, .end = 130, .kind = SpanKind::training_step});
  hand.add(r, 3, 140, 150, SpanKind::update);  // of another training step
  CHECK(passes() ==
        "forward 0-20 backward 25-40 update 41-50 forward 60-70 forward 80-95 update 100-120 update 140-150 ");
  const int elsewhere = 0;
  r.add({.begin = 160, .end = 170, .subject = &elsewhere});  // of no known program
  CHECK(passes_of({"", 0, r.spans()}, {&hand.program, 1}).size() == 7);
}

TEST_CASE("a report of rows by hand", "[timeline_report]") {
  const Hand hand;
  TimelineRecorder recorder(100);
  TimelineRow &device = recorder.add_row("device 0"), &link = recorder.add_row("communication \"x\"", 2);
  // Three training steps, of 100, 60 and 400 microseconds: the first is the median.
  const std::int64_t lengths[]{100'000, 60'000, 400'000};
  std::int64_t begin = 1'000'000;
  for (int t = 0; t < 3; ++t) {
    const std::int64_t l = lengths[t] / 10;
    hand.add(device, 0, begin, begin + 2 * l);
    hand.add(device, 1, begin + 2 * l, begin + 3 * l);
    hand.add(device, 2, begin + 3 * l, begin + 6 * l);
    device.add({.begin = begin + 6 * l, .end = begin + 8 * l, .name = "gradients", .kind = SpanKind::wait});
    hand.add(device, 3, begin + 8 * l, begin + 9 * l);
    device.add({.begin = begin,
                .end = begin + 10 * l,
                .name = "training step",
                .number = 4,
                .step = t + 1,
                .kind = SpanKind::training_step});
    link.add({.begin = begin + 6 * l, .end = begin + 7 * l, .name = "numbers", .kind = SpanKind::wait});
    link.add(
        {.begin = begin + 5 * l, .end = begin + 8 * l, .name = "bucket", .number = 0, .kind = SpanKind::collective});
    link.add({.begin = begin + 7 * l,
              .end = begin + 8 * l,
              .name = "send",
              .subject = "bucket",
              .number = 0,
              .bytes = 4000,
              .peer = 1,
              .kind = SpanKind::message});
    begin += 10 * l;
  }
  const TimelineReport report(recorder, {&hand.program, 1}, 1);
  CHECK(report.overlap().hidden_share() == Approx(1.0 / 3));
  CHECK(report.text() ==
        "device 0                     busy  0.000392 s,  70 % of the time; 18 spans\n"
        "communication \"x\"            busy  0.000168 s,  30 % of the time; 9 spans\n"
        "link from 2 to 1             busy  0.000056 s,  10 % of the time; 3 messages, 0.012 MB\n"
        "communication: 0.000168 s, 33 % of it hidden behind computation; numbers moved for 0.000112 s, 50 % of it "
        "hidden\n"
        "training step 1 (median of those kept): 100.0 us with 4 samples\n"
        "  pass        measured us   planned us\n"
        "  forward            30.0         11.7\n"  // 2 of 12 parts of 70 us: costs are 10, 10, 10 + 4 · 20 and 10
        "  backward           30.0         52.5\n"
        "  update             10.0          5.8\n"
        "  furthest from the plan: step2, measured 30.0 us, planned 52.5 us\n"
        "  furthest from the plan: step0, measured 20.0 us, planned 5.8 us\n"
        "  furthest from the plan: step1, measured 10.0 us, planned 5.8 us\n");

  const trace::File file(report.events().text());
  CHECK(file.rows.at({0, 2}) == "communication \"x\"");
  const auto waits = file.of(0, 1, "wait");
  REQUIRE(waits.size() == 3);
  CHECK(waits[0].name == "wait for gradients");
  CHECK(waits[0].begin == Approx(1060));
  const auto steps = file.of(0, 1, "step");
  CHECK(steps[0].name == "step0");
  CHECK(steps[0].duration == Approx(20));
  CHECK(file.of(0, 2, "collective")[0].name == "bucket 0");
  CHECK(file.rows.at({0, 3}) == "link from 2 to 1");
  const auto sent = file.of(0, 3, "message");
  REQUIRE(sent.size() == 3);
  CHECK(sent[0].name == "send bucket 0");
  CHECK(sent[0].begin == Approx(1070));
  CHECK(sent[0].arguments["bytes"].number == 4000);
  // The plan stands beside the first training step, and is as long as what it computed.
  const auto planned = file.of(TimelineReport::planned_process, 1, "step");
  REQUIRE(planned.size() == 4);
  CHECK(planned[0].begin == Approx(1000));
  CHECK(planned[3].end() == Approx(1070));
}

TEST_CASE("a report says what communication it does not plan", "[timeline_report]") {
  Hand hand;
  hand.program.parts = {{3, 100}, {4, 16, ExchangedPart::Kind::results, -1}};
  hand.program.synchronisation = "somebody's";
  hand.program.traffic = {.gradients = &detail::ring_moves};
  TimelineRecorder recorder(100);
  recorder.describe_link({2, {.seconds = 1e-5, .seconds_per_float = 1e-7, .seconds_per_sum = 0}});
  TimelineRow& device = recorder.add_row("device 0");
  for (int s = 0; s < 4; ++s) hand.add(device, s, 1'000'000 + 10'000 * s, 1'010'000 + 10'000 * s);
  device.add({.begin = 1'000'000, .end = 1'040'000, .number = 4, .step = 1, .kind = SpanKind::training_step});
  constexpr long process = TimelineReport::planned_process;
  const auto planned = [&] { return trace::File(TimelineReport(recorder, {&hand.program, 1}, 1).events().text()); };
  const auto text = [&] { return TimelineReport(recorder, {&hand.program, 1}, 1).text(); };
  const trace::File known = planned();
  const auto buckets = known.of(process, 2, "collective");
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[1].name == "results");
  CHECK(buckets[0].name == "bucket 0");
  CHECK(buckets[0].duration == Approx(2 * 10 + 100 * 0.1));  // us: two latencies, half of the numbers twice
  CHECK(known.processes.at(process) == "planned");
  CHECK_THAT(text(), !Contains("not planned"));
  const Moving without_formula{"sends", "", detail::ring_moves.moved};
  hand.program.traffic = {.gradients = &without_formula};
  const trace::File unknown = planned();
  CHECK(unknown.of(process, 2, "collective").empty());
  CHECK(unknown.processes.at(process) == "planned without communication");
  CHECK_THAT(text(), Contains("\n  communication is not planned: somebody's\n"));
}
