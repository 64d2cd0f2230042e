#include "tenet/comm/rings.hpp"

#include "../support/collectives.hpp"
#include "../support/ranks.hpp"

using namespace tenet;

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
