#include "tenet/parallel/relaxed_access.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

using namespace tenet;

TEST_CASE("numbers are loaded from any address, as many as there are", "[relaxed_access]") {
  std::vector<float> from(16), to(16);
  std::iota(from.begin(), from.end(), 1.0f);
  for (long first = 0; first < 4; ++first)
    for (long count = 0; count < 8; ++count) {
      INFO(count << " from " << first << " on");
      std::fill(to.begin(), to.end(), 0.0f);
      RelaxedAccess::load(from.data() + first, to.data() + 3, count);
      for (long i = 0; i < 16; ++i) {
        const bool is_loaded = i >= 3 && i < 3 + count;
        REQUIRE(to[static_cast<std::size_t>(i)] == (is_loaded ? static_cast<float>(first + i - 3 + 1) : 0.0f));
      }
    }
}

TEST_CASE("what has changed is stored, and nothing else", "[relaxed_access]") {
  const std::vector<float> before(7, 1.0f);
  // Every pattern of changes: numbers that have not changed are another thread's meanwhile, and stay.
  for (long first = 0; first < 3; ++first)
    for (unsigned changed = 0; changed < 1u << before.size(); ++changed) {
      std::vector<float> now = before, to(12, 5.0f);
      for (unsigned i = 0; i < now.size(); ++i)
        if ((changed >> i & 1) != 0) now[i] = 2;
      RelaxedAccess::store(before.data(), now.data(), to.data() + first, 7);
      for (long i = 0; i < 12; ++i) {
        const bool is_stored = i >= first && i < first + 7 && (changed >> (i - first) & 1) != 0;
        REQUIRE(to[static_cast<std::size_t>(i)] == (is_stored ? 2.0f : 5.0f));
      }
    }
}

TEST_CASE("of long runs what has changed is stored, and nothing else", "[relaxed_access]") {
  constexpr std::size_t count = 60;
  const std::vector<float> before(count, 1.0f);
  // All or none have changed but for one, which is each of them in turn; also none and all.
  for (std::size_t first = 0; first < 3; ++first)
    for (const bool most : {false, true})
      for (std::size_t other = 0; other <= count; ++other) {
        CAPTURE(first, most, other);
        std::vector<float> now = before, to(count + 4, 5.0f), expected = to;
        for (std::size_t i = 0; i < count; ++i)
          if (most != (i == other)) now[i] = expected[first + i] = 2 + static_cast<float>(i);
        RelaxedAccess::store(before.data(), now.data(), to.data() + first, static_cast<long>(count));
        REQUIRE(to == expected);
      }
}

TEST_CASE("what is not a number any longer is stored, too", "[relaxed_access]") {
  const std::vector<float> before{0, 1, std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> to = before;
  RelaxedAccess::store(before.data(), std::vector<float>{-0.0f, NAN, 2}.data(), to.data(), 3);
  CHECK(std::signbit(to[0]));
  CHECK(std::isnan(to[1]));
  CHECK(to[2] == 2);
}

TEST_CASE("of two threads that write neighbours neither loses the other's", "[relaxed_access]") {
  constexpr int numbers = 1000, rounds = 200;
  std::vector<float> shared(numbers, 0.0f);
  const auto write_each_second = [&](int own) {
    std::vector<float> before(numbers), now(numbers);
    for (int round = 1; round <= rounds; ++round) {
      RelaxedAccess::load(shared.data(), before.data(), numbers);
      now = before;
      for (int i = own; i < numbers; i += 2) ++now[static_cast<std::size_t>(i)];
      RelaxedAccess::store(before.data(), now.data(), shared.data(), numbers);
    }
  };
  std::thread other(write_each_second, 0);
  write_each_second(1);
  other.join();
  CHECK(std::all_of(shared.begin(), shared.end(), [](float number) { return number == rounds; }));
}
