#include "tenet/parallel/slowness.hpp"

#include <catch2/catch.hpp>
#include <set>

using namespace tenet;

TEST_CASE("one worker is slow, always or in turns", "[slowness]") {
  const auto one = one_is_slow(2, 3.0);
  const auto turns = slow_in_turns(4, 3.0);
  std::set<int> slow_ones;
  int changes = 0;  // from one step to the next
  for (long step = 0; step < 100; ++step) {
    int slow = 0;
    if (step > 0)
      for (int worker = 0; worker < 4; ++worker)
        changes += turns(worker, step) == 3.0 && turns(worker, step - 1) == 1.0;
    for (int worker = 0; worker < 4; ++worker) {
      CHECK(one(worker, step) == (worker == 2 ? 3.0 : 1.0));
      const double factor = turns(worker, step);
      CHECK((factor == 1.0 || factor == 3.0));
      if (factor == 3.0) ++slow, slow_ones.insert(worker);
    }
    CHECK(slow == 1);
  }
  CHECK(slow_ones.size() == 4);
  CHECK(changes > 60);  // three of four are another one
}

TEST_CASE("jitter is log-normal, and the same for the same worker and step", "[slowness]") {
  const auto jitter = with_jitter(0.3);
  double sum = 0, squares = 0;
  constexpr int workers = 100, steps = 100;
  for (int worker = 0; worker < workers; ++worker)
    for (long step = 0; step < steps; ++step) {
      const double x = std::log(jitter(worker, step));
      sum += x;
      squares += x * x;
    }
  constexpr double n = workers * steps;
  CHECK(sum / n == Approx(0).margin(4 * 0.3 / 100));
  CHECK(std::sqrt(squares / n) == Approx(0.3).epsilon(0.05));
  CHECK(jitter(5, 7) == with_jitter(0.3)(5, 7));
  CHECK(jitter(5, 7) != jitter(7, 5));
  for (const int other : {4, 6}) {
    CHECK(jitter(5, 7) != jitter(other, 7));
    CHECK(jitter(5, 7) != jitter(5, other));
  }
  CHECK(jitter(5, 7) != with_jitter(0.3, 2)(5, 7));
}
