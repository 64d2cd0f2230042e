#include "tenet/comm/machine_times.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <tenet/comm/simulated_transport.hpp>
#include <tenet/core/random.hpp>

using namespace tenet;

namespace {

const std::vector<std::vector<int>> places{
    {0, 0, 1, 1}, {0, 0, 0, 0, 1, 1, 1, 1}, {0, 1, 0, 1}, {0, 0, 0, 1, 1, 1}, {0, 0, 1, 1, 2, 2}, {2, 0, 1, 0, 2, 1},
    {0, 0, 0, 1}, {0, 0, 0, 1, 1, 2, 2, 2}, {0, 0, 0, 0}, {0, 1, 2, 3}};
constexpr SimulatedLink between{1e-5, 1.25e9}, quick{1e-6, 1e10}, far_wire{2e-5, 1e8, true}, near_wire{3e-6, 1e9, true};

/// What ranks do one after the other.
enum class Call { quickest, parts, rings, in_parts, whole, ring, doubling, broadcast };

template <class T>
void call(T& transport, Call which, float* data, long floats) {
  const MessageLabel label{"sum", 0, 1};
  const auto outer = [](auto& group, auto... arguments) { all_reduce_by_ring(group, arguments...); };
  const MachineTopology* const machines = transport.machines();
  if (machines == nullptr || which == Call::quickest) return all_reduce(transport, data, floats, label);
  switch (which) {
    case Call::parts:
    case Call::rings:
      return all_reduce_by_parts_of_machines(transport, *machines, data, floats, label, 1, which == Call::rings, outer);
    case Call::in_parts:
    case Call::whole:
      return all_reduce_by_machines(transport, *machines, data, floats, label, 1, which == Call::in_parts);
    case Call::ring:
      return all_reduce_by_ring(transport, data, floats, label);
    case Call::doubling:
      return all_reduce_by_doubling(transport, data, floats, label);
    case Call::broadcast:
    case Call::quickest:
      return broadcast(transport, 0, data, floats, label);
  }
}
void time(RankTimes& times, Call which, long floats) {
  const auto outer = [](RankTimesOfGroup& group, long count) { time_ring(group, count); };
  if (times.machines() == nullptr || which == Call::quickest) return time_all_reduce(times, floats);
  switch (which) {
    case Call::parts:
    case Call::rings:
      return time_parts_of_machines(times, floats, which == Call::rings, outer);
    case Call::in_parts:
    case Call::whole:
      return time_machines(times, floats, which == Call::in_parts);
    case Call::ring:
      return time_ring(times, floats);
    case Call::doubling:
      return time_doubling(times, floats);
    case Call::broadcast:
    case Call::quickest:
      return time_broadcast(times, floats);
  }
}

}  // namespace

TEST_CASE("by machines each rank's clock is that of a simulated network, to the bit", "[machine_times]") {
  for (const std::vector<int>& of_rank : places)
    for (const auto& [link, inside] :
         {std::pair{between, quick}, std::pair{far_wire, near_wire}, std::pair{quick, between}})
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        CAPTURE(of_rank, link.latency, seed);
        const int n = static_cast<int>(of_rank.size());
        Random random(seed);
        struct Act {
          Call which;
          long floats;
          std::vector<double> computes;
        };
        std::vector<Act> acts;
        for (int i = 0; i < 16; ++i) {
          Act act{static_cast<Call>(i % 8), 1 + static_cast<long>(random.below(i % 3 == 0 ? 60 : 20'000)), {}};
          for (int rank = 0; rank < n; ++rank)
            act.computes.push_back(random.below(3) == 0 ? static_cast<double>(random.uniform(0, 1e-3f)) : 0.0);
          acts.push_back(act);
        }
        SimulatedNetwork network(n, {.link = link,
                                     .machine_of = [&](int rank) { return of_rank[static_cast<std::size_t>(rank)]; },
                                     .inside = inside});
        network.run([&](SimulatedTransport& transport) {
          for (const Act& act : acts) {
            transport.compute(act.computes[static_cast<std::size_t>(transport.rank())]);
            std::vector<float> data(static_cast<std::size_t>(act.floats));
            call(transport, act.which, data.data(), act.floats);
          }
        });
        RankTimes times(of_rank, link, inside);
        for (const Act& act : acts) {
          for (int rank = 0; rank < n; ++rank) times.compute(rank, act.computes[static_cast<std::size_t>(rank)]);
          time(times, act.which, act.floats);
        }
        for (int rank = 0; rank < n; ++rank) CHECK(times.clock(rank) == network.ended(rank));
      }
}

namespace {

std::vector<int> consecutive(int machines, int ranks) {
  std::vector<int> result;
  for (int rank = 0; rank < machines * ranks; ++rank) result.push_back(rank / ranks);
  return result;
}

}  // namespace

TEST_CASE("machines take what the formulas say, and what all_reduce expects of them", "[machine_times]") {
  constexpr long m = 16 * 8 * 64 * 4;
  constexpr SimulatedLink link{1.0 / 1024, 1 << 20}, inside{1.0 / 8192, 1 << 24};
  constexpr double alpha = link.latency, beta = 4 / link.bytes_per_second, near = inside.latency,
                   near_beta = 4 / inside.bytes_per_second, floats = m;
  RankTimes times(consecutive(64, 8), link, inside);
  CHECK(times.cost().machine.count == 64);
  time_all_reduce(times, m);
  // Halving inside, and between 64 machines for an eighth of the numbers.
  const double expected =
      2 * 3 * near + 2 * 7.0 / 8 * floats * near_beta + 2 * 6 * alpha + 2 * 63.0 / 64 * floats / 8 * beta;
  CHECK(times.last() == Approx(expected));
  CHECK(AllReduceTimes(512, m, times.cost()).least() == Approx(expected));
  for (const auto& [machines, ranks] : {std::pair{4, 3}, std::pair{3, 4}, std::pair{6, 5}})
    for (const bool in_parts : {false, true}) {
      RankTimes again(consecutive(machines, ranks), link, inside);
      const AllReduceTimes ways(machines * ranks, 15 * m, again.cost());
      time_machines(again, 15 * m, ways.in_parts);
      CAPTURE(machines, ranks, in_parts);
      CHECK(again.last() == Approx(ways.by_machines).epsilon(0.01));
    }
}

TEST_CASE("512 machines of eight ranks take less than a third of what as many ranks by themselves take",
          "[machine_times]") {
  const auto begin = std::chrono::steady_clock::now();
  RankTimes flat(4096, between), machines(consecutive(512, 8), between, quick);
  time_all_reduce(flat, 25'000'000);
  time_all_reduce(machines, 25'000'000);
  CHECK(machines.last() < flat.last() / 3);
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 5);
}

TEST_CASE("ranks of one machine, and one rank on each, know no machines", "[machine_times]") {
  const RankTimes one(std::vector{7, 7, 7}, between, quick);
  CHECK(one.machines() == nullptr);
  CHECK(one.link().latency == quick.latency);
  CHECK(one.cost().machine.count == 1);
  RankTimes each(std::vector{0, 1, 2}, between, quick), flat(3, between);
  time_all_reduce(each, 1000);
  time_all_reduce(flat, 1000);
  CHECK(each.last() == flat.last());
}
