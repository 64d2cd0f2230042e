#include "tenet/comm/machine_topology.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

using namespace tenet;

namespace {

constexpr LinkCost inside{1e-6, 1e-9, 2e-10, true};

template <class Number>
bool keeps_tree(const std::vector<Number>& machine_of_rank) {
  return MachineTopology(machine_of_rank, inside).cost().keeps_tree;
}

}  // namespace

TEST_CASE("ranks with the same number are on one machine", "[machines]") {
  const MachineTopology machines(std::vector<std::uint64_t>{7, 9, 7, 1'000'000'000'000, 9, 7}, inside);
  CHECK(machines.count() == 3);
  CHECK(machines.fewest() == 1);
  CHECK(machines.most() == 3);
  CHECK(machines.ranks(0) == std::vector{0, 2, 5});
  CHECK(machines.ranks(1) == std::vector{1, 4});
  CHECK(machines.ranks(2) == std::vector{3});
  CHECK(machines.ranks_at(0) == std::vector{0, 1, 3});
  for (int machine = 0; machine < machines.count(); ++machine)
    for (int place = 0; place < static_cast<int>(machines.ranks(machine).size()); ++place) {
      const int rank = machines.ranks(machine)[static_cast<std::size_t>(place)];
      CHECK(machines.machine_of(rank) == machine);
      CHECK(machines.place_of(rank) == place);
    }
  CHECK(machines.are_together(0, 5));
  CHECK(!machines.are_together(0, 1));
}

TEST_CASE("what a machine costs is what its links cost", "[machines]") {
  const MachineCost cost = MachineTopology(std::vector{0, 0, 1}, inside).cost();
  CHECK(cost.count == 2);
  CHECK(cost.fewest == 1);
  CHECK(cost.most == 2);
  CHECK(cost.seconds == 1e-6);
  CHECK(cost.seconds_per_float == 1e-9);
  CHECK(cost.shares);
  CHECK(MachineTopology(std::vector{0, 0, 1}, inside).inside().seconds_per_sum == 2e-10);
}

TEST_CASE("machines that have subtrees of ranks keep the order of the tree", "[machines]") {
  CHECK(keeps_tree(std::vector{0, 0, 1, 1}));
  CHECK(keeps_tree(std::vector{5, 5, 3, 3, 4, 4}));
  CHECK(keeps_tree(std::vector<std::string>{"a", "a", "a", "a"}));
  CHECK(keeps_tree(std::vector{0, 1, 2}));
  CHECK(!keeps_tree(std::vector{0, 1, 0, 1}));              // neighbours are on different machines
  CHECK(!keeps_tree(std::vector{0, 0, 0, 1}));              // different numbers
  CHECK(!keeps_tree(std::vector{0, 0, 0, 1, 1, 1}));        // three have no subtree
  CHECK(!keeps_tree(std::vector{0, 0, 1, 1, 2, 2, 0, 0}));  // different numbers
  CHECK(!keeps_tree(std::vector{0, 1, 1, 0}));
}
