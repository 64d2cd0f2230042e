#include "tenet/comm/all_reduce_ways.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

TEST_CASE("numbers are shared where links say that they can be, and there are enough of them", "[collectives]") {
  constexpr LinkCost messages{1e-7, 2e-10, 4e-10}, shares{1e-7, 2e-10, 4e-10, true};
  STATIC_REQUIRE(!AllReduceTimes(2, 100'000, messages).shares);
  STATIC_REQUIRE(AllReduceTimes(2, 100'000, shares).shares);
  STATIC_REQUIRE(!AllReduceTimes(2, 10, shares).shares);  // doubling waits once
  STATIC_REQUIRE(AllReduceTimes(8, 10, shares).shares);   // and here three times
  STATIC_REQUIRE(AllReduceTimes(8, 100'000, shares).least() < AllReduceTimes(8, 100'000, messages).least());
}

namespace {

/// So many machines of so many ranks each: inside a message costs a tenth.
constexpr LinkCost machines_of(int count, int ranks, bool shares = false, bool keeps_tree = true) {
  return {1e-5, 1e-8, 0, false, false, {count, ranks, ranks, 1e-6, 1e-9, shares, keeps_tree}};
}

}  // namespace

TEST_CASE("ranks go by machines where that is quicker", "[all_reduce_ways]") {
  constexpr long m = 1'000'000;
  for (const int count : {2, 3, 8})
    for (const int ranks : {2, 3, 8}) {
      CAPTURE(count, ranks);
      const LinkCost link = machines_of(count, ranks), flat = detail::between_machines(link);
      const int n = count * ranks;
      const AllReduceTimes times(n, m, link);
      CHECK(times.quickest() == AllReduceWay::machines);
      CHECK(times.in_parts);
      CHECK(times.least() < AllReduceTimes(n, m, flat).least());
      CHECK(times.least() == Approx(detail::seconds_inside(m, link, false) +
                                    AllReduceTimes(count, (m + ranks - 1) / ranks, flat).least()));
      const AllReduceTimes few(n, 1, link);
      CHECK(few.quickest() == AllReduceWay::machines);
      CHECK(few.in_parts == (ranks == 3));  // for which doubling has a round more
      CHECK(few.least() < 1.0001 * (AllReduceTimes(ranks, 1, detail::inside_machine(link)).least() +
                                    AllReduceTimes(count, 1, flat).least()));
    }
  // Nothing is gained where a machine has one rank, or where links inside are no better.
  CHECK(AllReduceTimes(4, m, machines_of(4, 1)).quickest() == AllReduceWay::halving);
  LinkCost slow = machines_of(2, 3);
  slow.machine.seconds = 1e-3;
  CHECK(AllReduceTimes(6, 10, slow).quickest() == AllReduceWay::doubling);
}

TEST_CASE("a power of two ranks goes by machines only where these keep the tree", "[all_reduce_ways]") {
  CHECK(!AllReduceTimes(8, 1'000'000, machines_of(2, 4, false, false)).on_machines);
  CHECK(AllReduceTimes(6, 1'000'000, machines_of(2, 3, false, false)).on_machines);
  LinkCost uneven = machines_of(2, 1, false, false);
  uneven.machine.most = 3;
  CHECK(!AllReduceTimes(4, 1'000'000, uneven).on_machines);
  uneven.machine.most = 5;
  CHECK(AllReduceTimes(6, 1'000'000, uneven).in_parts);
  CHECK(AllReduceTimes(6, 1, uneven).by_machines > 0);
}

TEST_CASE("seconds inside of machines are those of the way that is taken there", "[all_reduce_ways]") {
  constexpr long m = 4800;
  const auto seconds = [](int ranks, bool shares, bool rings) {
    return detail::seconds_inside(m, machines_of(2, ranks, shares), rings);
  };
  const auto formula = [](int rounds, double share) { return 2 * rounds * 1e-6 + share * m * 2e-9; };
  CHECK(seconds(8, false, false) == Approx(formula(3, 7.0 / 8)));  // halving
  CHECK(seconds(8, true, false) == Approx(formula(1, 7.0 / 8)));   // sharing
  CHECK(seconds(3, false, false) == Approx(formula(1, 2.0 / 3)));  // each to each
  CHECK(seconds(8, true, true) == Approx(formula(7, 7.0 / 8)));    // a ring
  LinkCost uneven = machines_of(2, 2);
  uneven.machine.most = 5;
  for (const bool rings : {false, true}) CHECK(detail::seconds_inside(m, uneven, rings) == Approx(formula(1, 4.0 / 2)));
}
