#include "tenet/comm/recorded_transport.hpp"

#include <algorithm>
#include <tenet/comm/collectives.hpp>

#include "../support/doorbells.hpp"
#include "../support/ranks.hpp"

using namespace tenet;

static_assert(Transport<RecordedTransport<ThreadTransport>>);

TEST_CASE("messages are recorded: how long they were waited for, their bytes and the other rank", "[timeline]") {
  std::vector<std::vector<Span>> found(2);
  TimelineLink link;
  LinkCost cost;
  ranks::run_well(2, [&](ThreadTransport& plain) {
    TimelineRecorder recorder(100);
    TimelineRow& device = recorder.add_row("device 0");
    RecordedTransport transport(plain, device, "communication");
    if (transport.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::vector<float> data(1000, 1.0f + static_cast<float>(transport.rank()));
    if (transport.rank() == 0)
      transport.send(1, data.data(), 1000, {"bucket", 3, 7});
    else
      transport.receive(0, 1000, {"bucket", 3, 7},
                        [](const float*, long, long) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
    transport.finish();
    found[static_cast<std::size_t>(transport.rank())] = transport.timeline_row->spans();
    if (transport.rank() == 1) {
      link = recorder.link();
      cost = transport.link();
    }
  });
  CHECK(link.workers == 2);
  CHECK(link.cost == cost);

  REQUIRE(found[0].size() == 2);  // send, and wait until it has been received
  CHECK(std::string(found[0][0].name) == "send");
  CHECK(found[0][1].kind == SpanKind::wait);
  REQUIRE(found[1].size() == 3);
  const Span &waited = found[1][0], &received = found[1][1];
  CHECK(waited.kind == SpanKind::wait);
  CHECK(waited.end - waited.begin > 10'000'000);
  CHECK(received.kind == SpanKind::message);
  CHECK(received.begin == waited.end);
  CHECK(received.end - received.begin >= 5'000'000);
  CHECK(received.bytes == 4000);
  CHECK(received.peer == 0);
  CHECK(received.number == 3);
  CHECK(received.step == 7);
  CHECK(std::string(static_cast<const char*>(received.subject)) == "bucket");
}

TEST_CASE("collectives give the same numbers over a recorded transport", "[timeline]") {
  const auto sums = [](bool recorded) {
    return ranks::collect(3, [&](ThreadTransport& plain) {
      TimelineRecorder recorder(100);
      TimelineRow& device = recorder.add_row("device 0");
      RecordedTransport transport(plain, device, "communication");
      std::vector<float> data(50'000);
      for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<float>(i % 97) / static_cast<float>(plain.rank() + 3);
      if (recorded)
        all_reduce(transport, data.data(), 50'000, {"sum", 0, 1});
      else
        all_reduce(plain, data.data(), 50'000, {"sum", 0, 1});
      return data;
    });
  };
  CHECK(sums(true) == sums(false));
}

TEST_CASE("what ranks share is recorded: how long they waited for all, and how long they use it", "[timeline]") {
  std::vector<std::vector<Span>> found(2);
  ranks::run_well(2, [&](ThreadTransport& plain) {
    TimelineRecorder recorder(100);
    RecordedTransport transport(plain, recorder.add_row("device 0"), "communication");
    if (transport.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::vector<float> data(1000);
    transport.share(data.data(), 1000, {"bucket", 3, 7}, 1,
                    [](const SharedNumbers*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
    found[static_cast<std::size_t>(transport.rank())] = transport.timeline_row->spans();
  });
  for (const auto& spans : found) {
    REQUIRE(spans.size() == 2);
    const Span &waited = spans[0], &moved = spans[1];
    CHECK(waited.kind == SpanKind::wait);
    CHECK(moved.kind == SpanKind::message);
    CHECK(moved.begin == waited.end);
    CHECK(moved.end - moved.begin >= 5'000'000);
    CHECK(moved.bytes == 4000);
    CHECK(moved.number == 3);
    CHECK(moved.step == 7);
  }
  CHECK(found[1][0].end - found[1][0].begin > 10'000'000);
}

TEST_CASE("a message wakes who sleeps until a recorded transport has one", "[timeline]") {
  ranks::run_well(2, [](ThreadTransport& plain) {
    TimelineRecorder recorder(100);
    RecordedTransport transport(plain, recorder.add_row("device 0"), "communication");
    doorbells::wake_second(transport);
  });
}

TEST_CASE("a rank that does not come is named through a recorded transport, too", "[timeline]") {
  const auto messages = ranks::run(
      2,
      [](ThreadTransport& plain) {
        if (plain.rank() == 1) return;
        TimelineRecorder recorder(10);
        RecordedTransport transport(plain, recorder.add_row("device 0"), "communication");
        transport.receive(1, 4, {"bucket", 0, 1}, [](const float*, long, long) {});
      },
      std::chrono::milliseconds(200));
  CHECK(messages[0] ==
        "rank 0, bucket 0 of step 1: waits for a message from rank 1; expected within 0.2 s, found nothing");
}
