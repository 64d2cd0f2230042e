#include "tenet/exec/event.hpp"

#include <catch2/catch.hpp>
#include <thread>

#include "../support/message.hpp"
#include "tenet/train/pending_step.hpp"

using namespace tenet;
using namespace std::chrono_literals;

namespace {
struct Named final : detail::Outcome {
  std::string what() const override { return "copy 7"; }
};
}  // namespace

TEST_CASE("an event of nothing has ended", "[event]") {
  const Event event;
  CHECK(event.ready());
  CHECK_NOTHROW(event.wait());
  const detail::Awaited awaited = event;
  CHECK_NOTHROW(awaited());
}

TEST_CASE("an event is waited for until it has ended, by all who have it", "[event]") {
  const detail::Held<Named> outcome(new Named);
  const Event event{outcome}, copy = event;
  CHECK_FALSE(event.ready());
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);  // longer than it looks
    outcome->end();
  });
  copy.wait();
  CHECK(event.ready());
  other.join();
}

TEST_CASE("an event that does not come in time is named", "[event]") {
  const Event event{detail::Held<Named>(new Named)};
  const auto begin = std::chrono::steady_clock::now();
  CHECK(message_of([&] { event.wait(30ms); }) ==
        "Event: copy 7 has not ended; expected within 0.030000 s, found that it waits or runs");
  CHECK(std::chrono::steady_clock::now() - begin >= 30ms);
}

TEST_CASE("an event throws what has failed, each time, and where a step waits for it", "[event]") {
  const detail::Held<Named> outcome(new Named);
  const Event event{outcome};
  outcome->failure = std::make_exception_ptr(Error("copy 7: no memory"));
  outcome->end();
  const detail::Awaited awaited = event;
  CHECK(event.ready());
  for (int i = 0; i < 2; ++i) {
    CHECK(message_of([&] { event.wait(); }) == "copy 7: no memory");
    CHECK(message_of([&] { awaited(); }) == "copy 7: no memory");
  }
}

TEST_CASE("a step's event is the step's, and keeps its outcome", "[event]") {
  detail::HeldOutcome outcome(new detail::StepOutcome);
  Event event;
  {
    const PendingStep step{outcome};
    event = step;
  }
  CHECK(outcome->holders == 2);
  CHECK_FALSE(event.ready());
  outcome->end();
  outcome.reset();
  CHECK(event.ready());
  CHECK_NOTHROW(event.wait());
}
