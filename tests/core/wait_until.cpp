#include "tenet/core/wait_until.hpp"

#include <sys/resource.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>
#include <utility>

#include "../support/seconds_of.hpp"

using namespace tenet;
using namespace std::chrono_literals;

namespace {

constexpr auto long_time = 20s;  // which nobody sleeps who is woken

}  // namespace

TEST_CASE("waiting ends when the condition holds, at once or late", "[wait_until]") {
  CHECK(wait_until([] { return true; }, 0ns));
  for (const int spins : {0, 10, 4000}) {
    std::atomic<bool> ready{false};
    std::thread other([&] {
      std::this_thread::sleep_for(20ms);
      ready = true;
    });
    CHECK(wait_until([&] { return ready.load(); }, 60s, spins));
    CHECK(ready);
    other.join();
  }
}

TEST_CASE("waiting ends at its limit", "[wait_until]") {
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(wait_until([] { return false; }, 30ms));
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(took >= 30ms);
  CHECK(took < 20s);
}

#if defined(RUSAGE_THREAD)
TEST_CASE("whoever waits is awake as long as it has patience, and sleeps then", "[wait_until]") {
  const auto sleeps = [] {  // yielding is none of them
    rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nvcsw;
  };
  const long before = sleeps();
  CHECK_FALSE(wait_until([] { return false; }, 5ms, 10, 5ms));
  CHECK(sleeps() - before <= 1);  // one behind its limit
  for (const std::chrono::nanoseconds patience : {0ns, std::chrono::nanoseconds(usual_patience)}) {
    const long begin = sleeps();
    CHECK(wait_until([&] { return sleeps() - begin > 3; }, 10s, 10, patience));
  }
}
#endif

TEST_CASE("whoever waits is woken where nobody is let through, and is told that the time is over", "[wait_until]") {
  Doorbell doorbells[2];
  CHECK(wait_until(
      doorbells[0], [] { return true; }, 0ms));
  CHECK_FALSE(wait_until(
      doorbells[0], [] { return false; }, 0ms));
  CHECK(seconds_of([&] {
          CHECK_FALSE(wait_until(
              doorbells[0], [] { return false; }, 30ms));
        }) >= 30ms);
  // What held when it was looked at need not hold any longer, be it between two sleeps.
  const std::atomic<bool> beside{true};
  for (computes_beside = &beside; const int each : {1, 2, 3, 4, 5, 6, 7}) {
    int looks = 0;
    CHECK(wait_until(
        doorbells[0], [&] { return ++looks == each; }, long_time, 1));
    CHECK(looks == each);
  }
  computes_beside = nullptr;

  // Who wakes by oneself does so every 2 ms.
  constexpr int rounds = 1000;
  std::atomic<int> turn{0};
  const auto take_turns = [&](int own) {
    const std::atomic<bool> computes{true};
    computes_beside = &computes;
    const auto is_own = [&] { return turn.load() % 2 == own; };
    for (int round = 0; round < rounds && wait_until(doorbells[own], is_own, long_time, 1); ++round) {
      ++turn;
      doorbells[1 - own].ring();
    }
    computes_beside = nullptr;
  };
  const auto took = seconds_of([&] {
    std::thread other([&] { take_turns(1); });
    take_turns(0);
    other.join();
  });
  CHECK(turn == 2 * rounds);
  CHECK(took < 1s);
}

TEST_CASE("whoever waits at a doorbell that is muted looks often", "[wait_until]") {
  const std::atomic<bool> computes{true};
  computes_beside = &computes;  // it lets nobody through
  Doorbell doorbell;
  doorbell.mute();
  int looks = 0;
  CHECK_FALSE(wait_until(
      doorbell, [&] { return ++looks < 0; }, 100ms, 1));
  const int muted = std::exchange(looks, 0);
  doorbell.unmute();
  CHECK_FALSE(wait_until(
      doorbell, [&] { return ++looks < 0; }, 100ms, 1));
  CHECK(muted > 3 * looks);
  computes_beside = nullptr;
}
