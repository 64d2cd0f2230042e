#include "tenet/train/pending_step.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "../support/message.hpp"

using namespace tenet;

namespace {
PendingStep pending(detail::StepOutcome& outcome) {
  outcome.holders.fetch_add(1);
  return PendingStep(detail::HeldOutcome(&outcome));
}
void end(detail::StepOutcome& outcome) {
  outcome.ended.store(1, std::memory_order_release);
  outcome.ended.notify_all();
}
}  // namespace

TEST_CASE("a pending step waits for its result, as often as it is asked", "[pending_step]") {
  const detail::HeldOutcome outcome(new detail::StepOutcome);
  const PendingStep step = pending(*outcome);
  CHECK_FALSE(step.ready());
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than it spins
    outcome->result = {0.5f, 0.75f};
    end(*outcome);
  });
  CHECK(step.get().loss == 0.5f);
  CHECK(step.ready());
  CHECK(step.get().accuracy == 0.75f);
  other.join();
}

TEST_CASE("a pending step throws what its step has thrown", "[pending_step]") {
  const detail::HeldOutcome outcome(new detail::StepOutcome);
  const PendingStep step = pending(*outcome);
  outcome->failure = std::make_exception_ptr(Error("no memory"));
  end(*outcome);
  CHECK(step.ready());
  CHECK(message_of([&] { step.get(); }) == "no memory");
  CHECK(message_of([&] { step.get(); }) == "no memory");
}

TEST_CASE("an outcome is held by its queue and its pending step, whoever goes first", "[pending_step]") {
  detail::HeldOutcome outcome(new detail::StepOutcome);
  {
    PendingStep step = pending(*outcome);
    CHECK(outcome->holders == 2);
    const PendingStep moved = std::move(step);
    CHECK(outcome->holders == 2);
  }
  CHECK(outcome->holders == 1);
  const PendingStep last = pending(*outcome);
  outcome->result.loss = 3;
  end(*outcome);
  outcome.reset();
  CHECK(last.get().loss == 3);
}

TEST_CASE("a pending step of no step is an error", "[pending_step]") {
  const PendingStep none;
  CHECK(message_of([&] { none.get(); }) ==
        "PendingStep: it belongs to no step; expected what step_async has returned, "
        "found none");
  CHECK_FALSE(message_of([&] { none.ready(); }).empty());
}

TEST_CASE("a step's failure says which step it was, and keeps what was thrown", "[pending_step]") {
  const auto failure_of = [](auto thrown) {
    try {
      throw thrown;
    } catch (...) {
      detail::fail_step(17);
    }
  };
  CHECK(message_of([&] { failure_of(std::runtime_error("the disk is full")); }) == "step 17: the disk is full");
  CHECK(message_of([&] { failure_of(3); }) == "step 17: an exception that is not a std::exception");
  try {
    failure_of(std::length_error("too long"));
  } catch (const Error& error) {
    CHECK_THROWS_AS(std::rethrow_if_nested(error), std::length_error);
  }
}
