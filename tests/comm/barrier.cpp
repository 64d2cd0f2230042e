#include "tenet/comm/barrier.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "../support/message.hpp"

using namespace tenet;
using namespace std::chrono_literals;

namespace {

/// Runs body(party) on a thread for each.
template <class Body>
void with_threads(int count, Body body) {
  std::vector<std::thread> threads;
  for (int party = 0; party < count; ++party) threads.emplace_back([=] { body(party); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("what all wrote before they met, all see behind it", "[barrier]") {
  for (const int parties : {1, 2, 5}) {
    Barrier barrier(parties);
    std::vector<long> values(static_cast<std::size_t>(parties));  // not atomic: the barrier orders it
    std::atomic<int> wrong{0};
    with_threads(parties, [&](int party) {
      for (long step = 1; step <= 300; ++step) {
        values[static_cast<std::size_t>(party)] = step;
        barrier.arrive_and_wait(party, {"first", -1, step});
        for (const long value : values) wrong += value != step;
        barrier.arrive_and_wait(party, {"second", -1, step});
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("who waits too long says who is missing, and the others' waiting ends, too", "[barrier]") {
  Barrier barrier(3, 50ms, "replica");
  std::vector<std::string> messages(3);
  with_threads(3, [&](int party) {
    if (party != 1)
      messages[static_cast<std::size_t>(party)] = message_of([&] {
        barrier.arrive_and_wait(party, {"gradients", -1, 12});
      });
  });
  const auto own = [](std::size_t i) { return "replica " + std::to_string(i) + ", gradients of step 12: "; };
  const auto names = [&](std::size_t i) {
    return messages[i] == own(i) + "waits for replica 1; expected within 0.05 s, found nothing";
  };
  const auto ended = [&](std::size_t i) { return messages[i] == own(i) + "another replica has failed"; };
  CAPTURE(messages);
  CHECK((names(0) || names(2)));
  CHECK((names(0) || ended(0)));
  CHECK((names(2) || ended(2)));
}

TEST_CASE("a thread that fails ends the others' waiting", "[barrier]") {
  Barrier barrier(2);
  for (int round = 0; round < 2; ++round) {
    int abandoned = 0;
    with_threads(2, [&](int party) {
      if (party == 1) {
        std::this_thread::sleep_for(5ms);
        return barrier.abandon();
      }
      try {
        barrier.arrive_and_wait(party, {"here", -1, 1});
      } catch (const PeerFailed&) {
        ++abandoned;
      }
    });
    CHECK(abandoned == 1);
    barrier.reset();
    with_threads(2, [&](int party) { barrier.arrive_and_wait(party, {"again", -1, 1}); });
    barrier.reset();
  }
}
