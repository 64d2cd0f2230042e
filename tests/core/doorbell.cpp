#include "tenet/core/doorbell.hpp"

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

TEST_CASE("whoever sleeps until something holds is woken for it, not sooner, and opens the doorbell", "[doorbell]") {
  Doorbell doorbell;
  std::atomic<int> rings{0};
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    for (; !is_over; std::this_thread::sleep_for(1ms)) {
      ++rings;
      doorbell.ring();
    }
  });
  int looks = 0;
  doorbell.sleep_until([&] {
    ++looks;
    return rings >= 20;
  });
  is_over = true;
  other.join();
  CHECK(rings >= 20);
  CHECK(looks >= 2);
  CHECK(looks <= rings + 1);  // once for each ring, not in between
}
