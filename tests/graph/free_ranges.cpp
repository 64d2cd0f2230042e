#include "tenet/graph/free_ranges.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

TEST_CASE("free ranges are joined, and the best fitting one is taken") {
  detail::FreeRanges ranges;
  const long a = ranges.take(16), b = ranges.take(32), c = ranges.take(16), d = ranges.take(64);
  CHECK(ranges.top() == 128);
  ranges.give_back(b, 32);
  ranges.give_back(a, 16);  // joins b
  CHECK(ranges.take(48) == a);
  ranges.give_back(a, 48);
  ranges.give_back(d, 64);
  CHECK(ranges.take(32) == a);  // the smaller of the two that fit
  CHECK(ranges.take(64) == d);
  CHECK(ranges.top() == 128);
  ranges.give_back(d, 64);
  CHECK(ranges.take(80) == d);  // the range at the end grows
  CHECK(ranges.top() == 144);
  CHECK(c == 48);
}

TEST_CASE("the largest free range is found, and what is free up to the end") {
  detail::FreeRanges ranges;
  CHECK(ranges.largest().size == 0);
  CHECK(ranges.end_of_taken() == 0);
  const long a = ranges.take(32), b = ranges.take(16), c = ranges.take(64), d = ranges.take(48);
  CHECK(ranges.largest().size == 0);
  CHECK(ranges.end_of_taken() == ranges.top());
  ranges.give_back(a, 32);
  ranges.give_back(c, 64);
  CHECK(ranges.largest().offset == c);
  CHECK(ranges.largest().size == 64);
  CHECK(ranges.end_of_taken() == ranges.top());
  ranges.give_back(d, 48);
  CHECK(ranges.end_of_taken() == c);
  CHECK(ranges.largest().size == 112);
  ranges.give_back(b, 16);
  CHECK(ranges.end_of_taken() == 0);
  CHECK(ranges.largest().size == ranges.top());
}
