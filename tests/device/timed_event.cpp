#include "tenet/device/timed_event.hpp"

#include <catch2/catch.hpp>
#include <thread>

#include "../support/far_device.hpp"

using namespace tenet;

namespace {
struct Plain {};
static_assert(HasTimedEvents<far::Executor> && !HasTimedEvents<Plain>);
static_assert(std::is_same_v<TimedEventOf<far::Executor>, far::Event>);
static_assert(std::is_same_v<TimedEventOf<Plain>, HostEvent>);
}  // namespace

TEST_CASE("events of the host have the times of its clock", "[timed_event]") {
  const Plain executor;
  HostEvent begin, end;
  const auto before = std::chrono::steady_clock::now();
  begin.record(executor);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  end.record(executor);
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - before;
  CHECK(begin.elapsed_seconds(end) >= 0.020);
  CHECK(begin.elapsed_seconds(end) <= all.count());
  CHECK(end.elapsed_seconds(begin) == -begin.elapsed_seconds(end));
  begin.record(executor);  // again
  CHECK(end.elapsed_seconds(begin) >= 0);
}
