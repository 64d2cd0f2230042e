#include "tenet/comm/machine_collectives.hpp"

#include <atomic>
#include <chrono>
#include <numeric>
#include <tenet/comm/collectives.hpp>
#include <tenet/comm/machine_transport.hpp>
#include <thread>

#include "../support/collectives.hpp"
#include "../support/machines.hpp"

using namespace tenet;
using ranks::OnMachines;

namespace {

const std::vector<std::vector<int>> places{{0, 0, 1, 1},       {0, 0, 0, 0, 1, 1, 1, 1}, {0, 1, 0, 1},  // powers of two
                                           {0, 0, 0, 1, 1, 1}, {0, 0, 1, 1, 2, 2},       {2, 0, 1, 0, 2, 1},  // others
                                           {0, 0, 0, 1},       {0, 1, 1, 1, 1},          {0, 0, 0, 1, 1, 2, 2, 2},
                                           {0, 1, 0}};  // different numbers

/// all_reduce on a transport whose ranks are threads on these machines.
template <class Reduce>
void check_all_reduce(const std::vector<int>& machine_of_rank, Reduce reduce) {
  CAPTURE(machine_of_rank);
  for (const long floats : {1L, 5L, 100L, 1000L, 5000L})
    collectives::check_all_reduce(
        [&](int count, auto body) {
          return ranks::collect(count, [&](ThreadTransport& transport) {
            OnMachines on(transport, machine_of_rank);
            return body(on);
          });
        },
        static_cast<int>(machine_of_rank.size()), floats, reduce);
}

constexpr auto by_ring = [](auto& group, auto... arguments) { all_reduce_by_ring(group, arguments...); };
constexpr auto quickest = [](auto& group, auto... arguments) { all_reduce(group, arguments...); };

}  // namespace

TEST_CASE("all_reduce by parts of machines, for any numbers of ranks of each", "[machine_collectives]") {
  for (const std::vector<int>& of_rank : places)
    for (const bool rings : {false, true}) {
      check_all_reduce(of_rank, [&](OnMachines& transport, auto... arguments) {
        all_reduce_by_parts_of_machines(transport, *transport.machines(), arguments..., rings, by_ring);
      });
      check_all_reduce(of_rank, [&](OnMachines& transport, auto... arguments) {
        all_reduce_by_parts_of_machines(transport, *transport.machines(), arguments..., rings, quickest);
      });
    }
}

TEST_CASE("all_reduce by machines, in parts and whole", "[machine_collectives]") {
  for (const std::vector<int>& of_rank : places)
    for (const bool in_parts : {false, true})
      check_all_reduce(of_rank, [&](OnMachines& transport, auto... arguments) {
        all_reduce_by_machines(transport, *transport.machines(), arguments..., in_parts);
      });
}

TEST_CASE("all_reduce of ranks that know their machines", "[machine_collectives]") {
  for (const std::vector<int>& of_rank : places)
    check_all_reduce(of_rank, [&](OnMachines& transport, auto... arguments) { all_reduce(transport, arguments...); });
}

TEST_CASE("broadcast from any rank of any machine, whole and in parts", "[machine_collectives]") {
  for (const std::vector<int>& of_rank : places)
    for (const long floats : {1L, 37L, 20'000L})
      for (int root = 0; root < static_cast<int>(of_rank.size()); ++root) {
        CAPTURE(of_rank, floats, root);
        std::atomic<long> wrong{0}, between{0};
        ranks::run_well(static_cast<int>(of_rank.size()), [&](ThreadTransport& transport) {
          OnMachines on(transport, of_rank);
          std::vector<float> data(static_cast<std::size_t>(floats), -1.0f);
          if (on.rank() == root) std::iota(data.begin(), data.end(), 5.0f);
          broadcast_by_machines(on, *on.machines(), root, [&](auto& group, int root_of_group) {
            detail::broadcast_among_equals(group, root_of_group, data.data(), floats, {"data", 0, 1});
          });
          for (long i = 0; i < floats; ++i) wrong += data[static_cast<std::size_t>(i)] != 5.0f + static_cast<float>(i);
          between += on.sent_between;
        });
        CHECK(wrong == 0);
        // Each machine but the root's gets them once, if not in parts, which are sent twice.
        const int machines = MachineTopology(of_rank, {}).count();
        CHECK(between >= (machines - 1) * floats);
        if (floats < 100) CHECK(between == (machines - 1) * floats);
      }
}

TEST_CASE("broadcast and barrier go by machines where that takes less", "[machine_collectives]") {
  const std::vector<int> of_rank{2, 0, 1, 0, 2, 1};  // neighbours are on different machines
  std::atomic<long> between{0}, messages{0}, left_early{0};
  std::atomic<int> come{0};
  ranks::run_well(6, [&](ThreadTransport& transport) {
    OnMachines on(transport, of_rank);
    float data = static_cast<float>(on.rank());
    broadcast(on, 3, &data, 1L, {"data", 0, 1});
    if (data != 3) throw Error("another number");
    between += on.sent_between;
    for (int round = 1; round <= 20; ++round) {
      std::this_thread::sleep_for(std::chrono::microseconds(100 * ((on.rank() + round) % 3)));
      ++come;
      on.messages = 0;
      barrier(on, {"meeting", 0, round});
      messages += on.messages;
      left_early += come < 6 * round;
    }
  });
  CHECK(between == 2);
  CHECK(left_early == 0);
  // Twice a message of each rank inside, and two of each of the three first ones between them; among equals: three.
  CHECK(messages == 20 * (2 * 6 + 2 * 3));
  STATIC_REQUIRE(!broadcasts_by_machines(6, 100, LinkCost{}));
  STATIC_REQUIRE(!meets_by_machines(6, LinkCost{}));
  // Inside it takes as long as between: four machines of two would take a round more.
  constexpr LinkCost alike{.seconds = 1, .seconds_per_float = 1, .machine = {4, 2, 2, 1, 1}};
  STATIC_REQUIRE(!broadcasts_by_machines(8, 1, alike));
  STATIC_REQUIRE(!meets_by_machines(8, alike));
}

namespace {

/// What rank 0 has sent inside of its machine, and to other machines.
template <class Reduce>
std::pair<long, long> sent(const std::vector<int>& machine_of_rank, long floats, Reduce reduce) {
  std::pair<long, long> result;
  ranks::run_well(static_cast<int>(machine_of_rank.size()), [&](ThreadTransport& transport) {
    OnMachines on(transport, machine_of_rank);
    std::vector<float> data(static_cast<std::size_t>(floats));
    reduce(on, data.data(), floats, MessageLabel{"sum", 0, 1}, 1.0f);
    if (on.rank() == 0) result = {on.sent_inside, on.sent_between};
  });
  return result;
}
constexpr auto in_parts(bool rings) {
  return [=](OnMachines& transport, auto... arguments) {
    all_reduce_by_parts_of_machines(transport, *transport.machines(), arguments..., rings, by_ring);
  };
}

}  // namespace

TEST_CASE("a rank of k on a machine sends 1/k of the numbers to others", "[machine_collectives]") {
  constexpr long m = 16 * 3 * 4 * 100;
  for (const bool rings : {false, true}) {
    CAPTURE(rings);
    // 2 (k - 1)/k m inside, and 2 (M - 1)/M of m/k between M machines
    CHECK(sent({0, 0, 1, 1}, m, in_parts(rings)) == std::pair{m, m / 2});
    CHECK(sent({0, 0, 0, 0, 1, 1, 1, 1}, m, in_parts(rings)) == std::pair{2 * 3 * m / 4, m / 4});
    CHECK(sent({0, 0, 0, 1, 1, 1}, m, in_parts(rings)) == std::pair{2 * 2 * m / 3, m / 3});
    CHECK(sent({0, 0, 1, 1, 2, 2}, m, in_parts(rings)) == std::pair{m, 2 * 2 * m / 3 / 2});
    // The owner of all numbers among three sends them back to two.
    CHECK(sent({0, 0, 0, 1}, m, in_parts(rings)) == std::pair{2 * m, m});
  }
  // All numbers of a rank of a flat ring, but for those to the next rank, of which one of a machine is not on it.
  CHECK(sent({1, 0, 1, 0}, m, [](auto&&... arguments) { all_reduce_by_ring(arguments...); }) ==
        std::pair{0L, 2 * 3 * m / 4});
}

TEST_CASE("machines that keep the tree have its bits, whole, in parts and by the quickest way",
          "[machine_collectives]") {
  for (const std::vector<int>& of_rank :
       {std::vector{0, 0, 1, 1}, std::vector{0, 0, 0, 0, 1, 1, 1, 1}, std::vector{0, 0, 1, 1, 2, 2, 3, 3},
        std::vector{0, 1, 0, 1}, std::vector{0, 0, 0, 1}, std::vector{0, 1, 1, 1, 0, 0, 1, 0}})
    for (const long floats : {1L, 50L, 1000L, 100'000L}) {
      CAPTURE(of_rank, floats);
      const int n = static_cast<int>(of_rank.size());
      const auto bits = [&](auto reduce) {
        return ranks::collect(n, [&](ThreadTransport& transport) {
          OnMachines on(transport, of_rank);
          std::vector<float> data = collectives::numbers_of(on.rank(), floats);
          reduce(on, data.data(), floats, MessageLabel{"sum", 0, 1}, 1.0f / static_cast<float>(3 + 2 * on.rank()));
          return data;
        });
      };
      const auto tree = bits([](auto&&... arguments) { all_reduce_by_halving(arguments...); });
      // Of a power of two ranks, wherever they are.
      CHECK(bits([](auto&&... arguments) { all_reduce(arguments...); }) == tree);
      if (!MachineTopology(of_rank, {}).cost().keeps_tree) continue;
      for (const bool whole : {false, true})
        CHECK(bits([&](OnMachines& transport, auto... arguments) {
                all_reduce_by_machines(transport, *transport.machines(), arguments..., !whole);
              }) == tree);
    }
}

namespace {

using Both = MachineTransport<ThreadTransport, ThreadTransport>;
static_assert(SharesInside<Both>);

/// Counts how often a rank shares numbers.
struct Counted : Both {
  std::atomic<int>* count;
  Counted(Both both, std::atomic<int>& to) : Both(std::move(both)), count(&to) {}
  bool share_inside(float* data, long size, MessageLabel label, float weight, auto use) {
    ++*count;
    return Both::share_inside(data, size, label, weight, use);
  }
};

}  // namespace

TEST_CASE("ranks of a machine that share memory add up in it, to the same bits", "[machine_collectives]") {
  for (const std::vector<int>& of_rank : places) {
    const int n = static_cast<int>(of_rank.size());
    for (const long floats : {1L, 100L, 5000L}) {
      CAPTURE(of_rank, floats);
      const MachineTopology machines(of_rank, {});
      std::vector<std::unique_ptr<ThreadNetwork>> networks;
      for (int machine = 0; machine < machines.count(); ++machine)
        networks.push_back(std::make_unique<ThreadNetwork>(static_cast<int>(machines.ranks(machine).size())));
      std::atomic<int> shared{0};
      const auto found = ranks::collect(n, [&](ThreadTransport& transport) {
        const int rank = transport.rank();
        Counted both(
            {ThreadTransport(*networks[static_cast<std::size_t>(machines.machine_of(rank))], machines.place_of(rank)),
             transport, of_rank},
            shared);
        std::vector<float> data;
        for (int step = 0; step < 3; ++step) {
          data = collectives::numbers_of(rank, floats);
          all_reduce_by_parts_of_machines(both, *both.machines(), data.data(), floats, {"sum", 0, step},
                                          collectives::weight_of(rank), false, by_ring);
        }
        return data;
      });
      CHECK(shared == 3 * n);
      double worst = 0;
      for (long i = 0; i < floats; ++i)
        worst = std::fmax(worst, std::fabs(found[0][static_cast<std::size_t>(i)] - collectives::weighted_sum(n, i)));
      CHECK(worst < 1e-5);
      for (const auto& of : found) CHECK(of == found[0]);
    }
  }
}
