#include "tenet/core/wait_until.hpp"

#include <sys/resource.h>

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
