#include "tenet/core/doorbell.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>
#include <utility>

using namespace tenet;
using namespace std::chrono_literals;

namespace {

constexpr auto long_time = 20s;  // which nobody sleeps who is woken

std::chrono::nanoseconds seconds_of(auto call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::steady_clock::now() - begin;
}

}  // namespace

TEST_CASE("whoever sleeps is woken, or wakes when it is time", "[doorbell]") {
  Doorbell doorbell;
  doorbell.open();
  std::atomic<bool> ready{false};
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    ready = true;
    doorbell.ring();
  });
  const auto slept = seconds_of([&] {
    while (!ready) doorbell.sleep_unless([&] { return ready.load(); }, long_time);
  });
  other.join();
  CHECK(slept < long_time / 2);
  CHECK(seconds_of([&] { CHECK(doorbell.sleep_unless([] { return true; }, long_time)); }) < long_time / 2);
  for (const auto most : {0ms, 30ms})
    CHECK(seconds_of([&] { CHECK_FALSE(doorbell.sleep_unless([] { return false; }, most)); }) >= most);
}

TEST_CASE("what throws while somebody looks leaves nobody asleep", "[doorbell]") {
  Doorbell doorbell;
  doorbell.open();
  CHECK_THROWS(doorbell.sleep_unless([]() -> bool { throw 1; }, long_time));
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    doorbell.ring();
  });
  CHECK(seconds_of([&] { doorbell.sleep_unless([] { return false; }, long_time); }) < long_time / 2);
  other.join();
}

TEST_CASE("a doorbell that is not open, or muted, wakes nobody", "[doorbell]") {
  for (const bool is_muted : {false, true}) {
    CAPTURE(is_muted);
    Doorbell doorbell;
    if (is_muted) {
      doorbell.open();
      doorbell.mute();
    }
    std::atomic<bool> stop{false};
    std::thread other([&] {
      for (; !stop; std::this_thread::sleep_for(1ms)) doorbell.ring();
    });
    CHECK(seconds_of([&] { doorbell.sleep_unless([] { return false; }, 100ms); }) >= 100ms);
    doorbell.open();
    if (is_muted) doorbell.unmute();
    CHECK(seconds_of([&] { doorbell.sleep_unless([] { return false; }, long_time); }) < long_time / 2);
    stop = true;
    other.join();
  }
}

TEST_CASE("no ring is lost between looking and falling asleep", "[doorbell]") {
  constexpr int rounds = 20'000;
  Doorbell doorbells[2];
  std::atomic<int> turn{0};
  const auto take_turns = [&](int own) {
    for (int round = 0; round < rounds; ++round) {
      const auto is_own = [&] { return turn.load() % 2 == own; };
      while (!is_own()) doorbells[own].sleep_unless(is_own, long_time);
      ++turn;
      doorbells[1 - own].ring();
    }
  };
  for (Doorbell& doorbell : doorbells) doorbell.open();
  const auto took = seconds_of([&] {
    std::thread other([&] { take_turns(1); });
    take_turns(0);
    other.join();
  });
  CHECK(turn == 2 * rounds);
  CHECK(took < long_time);
}

TEST_CASE("whoever waits is woken where nobody is let through, and is told that the time is over", "[doorbell]") {
  Doorbell doorbells[2];
  CHECK(doorbells[0].wait([] { return true; }, 0ms));
  CHECK_FALSE(doorbells[0].wait([] { return false; }, 0ms));
  CHECK(seconds_of([&] { CHECK_FALSE(doorbells[0].wait([] { return false; }, 30ms)); }) >= 30ms);
  // What held when it was looked at need not hold any longer, be it between two sleeps.
  const std::atomic<bool> beside{true};
  for (computes_beside = &beside; const int each : {1, 2, 3, 4, 5, 6, 7}) {
    int looks = 0;
    CHECK(doorbells[0].wait([&] { return ++looks == each; }, long_time, 1));
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
    for (int round = 0; round < rounds && doorbells[own].wait(is_own, long_time, 1); ++round) {
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

TEST_CASE("whoever waits at a doorbell that is muted looks often", "[doorbell]") {
  const std::atomic<bool> computes{true};
  computes_beside = &computes;  // it lets nobody through
  Doorbell doorbell;
  doorbell.mute();
  int looks = 0;
  CHECK_FALSE(doorbell.wait([&] { return ++looks < 0; }, 100ms, 1));
  const int muted = std::exchange(looks, 0);
  doorbell.unmute();
  CHECK_FALSE(doorbell.wait([&] { return ++looks < 0; }, 100ms, 1));
  CHECK(muted > 3 * looks);
  computes_beside = nullptr;
}
