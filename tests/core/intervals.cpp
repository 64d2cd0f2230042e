#include "tenet/core/intervals.hpp"

#include <catch2/catch.hpp>

using namespace tenet;
using Intervals = std::vector<Interval>;

TEST_CASE("intervals are united", "[intervals]") {
  CHECK(united({}).empty());
  CHECK(united({{5, 5}, {7, 3}}).empty());
  CHECK(united({{10, 20}, {0, 5}}) == Intervals{{0, 5}, {10, 20}});
  CHECK(united({{0, 5}, {5, 8}, {9, 10}}) == Intervals{{0, 8}, {9, 10}});  // those that meet are one
  CHECK(united({{0, 100}, {10, 20}, {30, 40}, {90, 120}}) == Intervals{{0, 120}});
  CHECK(length_of(united({{0, 10}, {5, 15}, {20, 21}})) == 16);
}

TEST_CASE("the time that two lists of intervals share", "[intervals]") {
  CHECK(overlap_of({}, {{0, 10}}) == 0);
  CHECK(overlap_of({{0, 10}}, {{10, 20}}) == 0);
  CHECK(overlap_of({{0, 10}}, {{3, 5}, {8, 30}}) == 4);
  CHECK(overlap_of({{0, 4}, {6, 10}, {12, 20}}, {{2, 7}, {9, 13}, {15, 16}}) == 2 + 1 + 1 + 1 + 1);
  CHECK(overlap_of({{2, 7}, {9, 13}, {15, 16}}, {{0, 4}, {6, 10}, {12, 20}}) == 6);
  CHECK(overlap_of({{0, 10}}, {{0, 10}}) == 10);
}

TEST_CASE("intervals without the time of others", "[intervals]") {
  CHECK(without({}, {{0, 10}}).empty());
  CHECK(without({{0, 10}}, {}) == Intervals{{0, 10}});
  CHECK(without({{0, 10}}, {{0, 10}}).empty());
  CHECK(without({{0, 10}}, {{10, 20}}) == Intervals{{0, 10}});
  CHECK(without({{5, 10}}, {{0, 7}}) == Intervals{{7, 10}});
  CHECK(without({{5, 10}}, {{7, 12}}) == Intervals{{5, 7}});
  CHECK(without({{0, 10}, {12, 20}}, {{2, 3}, {5, 13}, {15, 16}, {18, 30}}) ==
        Intervals{{0, 2}, {3, 5}, {13, 15}, {16, 18}});
  CHECK(without({{0, 4}, {6, 10}}, {{3, 12}}) == Intervals{{0, 3}});
  CHECK(without({{0, 2}, {4, 6}, {8, 12}}, {{1, 9}}) == Intervals{{0, 1}, {9, 12}});  // one may take from many
}
