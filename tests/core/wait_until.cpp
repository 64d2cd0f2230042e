#include "tenet/core/wait_until.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

using namespace tenet;
using namespace std::chrono_literals;

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
