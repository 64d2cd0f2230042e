#include "tenet/comm/rings.hpp"

#include <array>

#include "../support/collectives.hpp"
#include "../support/ranks.hpp"

using namespace tenet;

namespace {

static_assert(has_lines_for(3, 48) && !has_lines_for(3, 47));
static_assert(parts_of(160, 2, 3, 10).first == 32 && parts_of(160, 2, 3, 10).count == 48);
static_assert(parts_of(150, 8, 2, 10).first == 120 && parts_of(150, 8, 2, 10).count == 30);

/// Counts what is sent to whom.
struct CountingTransport : ThreadTransport {
  std::array<int, 4> sent{};

  void send(int to, const float* data, long floats, MessageLabel label) {
    ++sent[static_cast<std::size_t>(to)];
    ThreadTransport::send(to, data, floats, label);
  }
};

}  // namespace

TEST_CASE("parts cover all numbers, one after the other", "[collectives]") {
  for (const long floats : {0L, 1L, 15L, 16L, 33L, 1000L, 61712L}) {
    for (const int parts : {1, 2, 3, 7, 64}) {
      long next = 0;
      for (int part = 0; part < parts; ++part) {
        const FloatRange found = part_of(floats, part, parts);
        CHECK(found.first == next);
        CHECK(found.count >= 0);
        if (floats >= 16L * parts) CHECK(found.first % 16 == 0);
        next += found.count;
      }
      CHECK(next == floats);
    }
  }
}

TEST_CASE("all_reduce by a ring", "[collectives]") {
  collectives::check_all_reduce_of_threads([](auto&&... arguments) { all_reduce_by_ring(arguments...); });
}

TEST_CASE("all_reduce by two rings", "[collectives]") {
  collectives::check_all_reduce_of_threads([](auto&&... arguments) { all_reduce_by_two_rings(arguments...); });
}

TEST_CASE("two rings go in opposite directions, half of the numbers each way", "[collectives]") {
  ranks::run_well(4, [](ThreadTransport& plain) {
    CountingTransport transport{plain};
    std::vector<float> numbers(1000, 1.0f);
    all_reduce_by_two_rings(transport, numbers.data(), 1000, {"numbers", 0, 0});
    const int next = (plain.rank() + 1) % 4, previous = (plain.rank() + 3) % 4;
    std::array<int, 4> expected{};
    expected[static_cast<std::size_t>(next)] = expected[static_cast<std::size_t>(previous)] = 2 * 3;
    if (transport.sent != expected) fail("two rings", "messages", "six to each neighbour", "others");
  });
}
