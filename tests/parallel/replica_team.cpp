#include "tenet/parallel/replica_team.hpp"

#include <tenet/tenet.hpp>

#include "../support/network.hpp"
#include "../support/networks.hpp"

using namespace tenet;

namespace {

using WideStep = Program<TrainingProgram<networks::WideLinears, CrossEntropy, Sgd, Features<16>, CpuKernels>>;
using Group = Replicas<Cpu<0, 1>>;
using Team = ReplicaTeam<WideStep, Group>;

constexpr long once_floats = 520 * 300, twice_floats = 300 * 300;
/// The parameter of so many floats, and where it is.
constexpr int slot_of(long floats) {
  for (int i = 0; i < WideStep::slots.count; ++i)
    if (WideStep::slots.slots[i].type->size() == floats) return i;
  throw "there is no such parameter";
}
constexpr long offset_of(long floats) { return WideStep::slots.slots[slot_of(floats)].offset; }
constexpr long once = offset_of(once_floats), twice = offset_of(twice_floats);

struct OfReplicas {
  std::vector<std::vector<float>> of;
  explicit OfReplicas(int replicas)
      : of(static_cast<std::size_t>(replicas),
           std::vector<float>(static_cast<std::size_t>(WideStep::slots.parameter_floats))) {}
  auto each() {
    return [this](int r) { return of[static_cast<std::size_t>(r)].data(); };
  }
};

}  // namespace

TEST_CASE("replicas add up one sum of what all of them give, each some places, without waiting", "[replica_team]") {
  Group replicas(2);
  Team team(replicas);
  OfReplicas gradients(2);
  std::atomic<bool> first_goes_on{false};
  for (int step = 0; step < 20; ++step) {
    first_goes_on = false;
    team.begin(true, gradients.each(), 7);
    std::atomic<bool> too_early{false}, late{false}, has_room{true};
    replicas.run([&](int r) {
      team.run(r, [&] {
        const WorkerTeam& own = replicas.executor(r).team;
        const WorkerTeam::Sum sum = own.begin_sum(gradients.each()(r) + once, once_floats, 4);
        if (!sum || sum.to != gradients.of[0].data() + once) {
          has_room = false;
          return;
        }
        if (r == 1) wait_until([&] { return first_goes_on.load(); }, std::chrono::minutes(1));
        sum.terms[2 * r] = static_cast<float>(10 * r + step);
        sum.terms[2 * r + 1] = static_cast<float>(100 * r + step);
        own.end_sum([sum, r, &late, &too_early, &first_goes_on] {
          if (!first_goes_on) too_early = true;
          if (r == 0) late = true;
          sum.to[r] = sum.terms[r] + sum.terms[2 + r];
        });
        if (r == 0) first_goes_on = true;
      });
    });
    CHECK(has_room);
    CHECK_FALSE(too_early);
    CHECK(late);  // by the replica that was first, before its run has ended
    CHECK(gradients.of[0][once] == static_cast<float>(10 + 2 * step));
    CHECK(gradients.of[0][once + 1] == static_cast<float>(100 + 2 * step));
  }
  CHECK(team.memory_floats() >= 4);
  // Where these lie: behind some that are not sums, before others.
  std::vector<std::pair<FloatRange, bool>> parts;
  team.for_each_part({once - 3, once_floats + 5}, [&](long first, long floats, bool is_sum) {
    parts.push_back({{first, floats}, is_sum});
  });
  REQUIRE(parts.size() == 3);
  const long begins[] = {once - 3, once, once + once_floats}, counts[] = {3, once_floats, 2};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(parts[i].first.first == begins[i]);
    CHECK(parts[i].first.count == counts[i]);
    CHECK(parts[i].second == (i == 1));
  }
  parts.clear();
  team.for_each_part({once + 5, 7}, [&](long first, long floats, bool is_sum) {
    parts.push_back({{first, floats}, is_sum});
  });
  REQUIRE(parts.size() == 1);
  CHECK((parts[0].first.first == once + 5 && parts[0].first.count == 7 && parts[0].second));
}

TEST_CASE("replicas take no sum that somebody reads before all have ended", "[replica_team]") {
  Group replicas(2);
  Team team(replicas);
  OfReplicas gradients(2);
  const auto takes = [&](bool begin, long offset, long floats) {
    std::atomic<int> taken{0};
    team.begin(begin, gradients.each(), 7);
    replicas.run([&](int r) {
      team.run(r, [&] {
        const WorkerTeam& own = replicas.executor(r).team;
        if (!own.begin_sum(gradients.each()(r) + offset, floats, 4)) return;
        ++taken;
        own.end_sum([] {});
      });
    });
    CHECK(replicas.executor(0).team.size() == 1);  // what runs next works alone
    return taken == 2;
  };
  CHECK(takes(true, once, once_floats));
  CHECK_FALSE(takes(false, once, once_floats));
  CHECK_FALSE(takes(true, once + 9, once_floats));  // not where a gradient is
  CHECK_FALSE(takes(true, twice, twice_floats));    // a later step adds to it
  team.begin(true, gradients.each(), 7);
  bool found = false;
  team.for_each_part({0, WideStep::slots.parameter_floats}, [&](long, long, bool is_sum) { found = found || is_sum; });
  CHECK_FALSE(found);  // those of the run before
}

TEST_CASE("a replica that fails ends the waiting for its terms", "[replica_team]") {
  Group replicas(2);
  Team team(replicas);
  OfReplicas gradients(2);
  for (const int failing : {1, 0}) {
    team.begin(true, gradients.each(), 7);
    CHECK_THROWS_WITH(replicas.run([&](int r) {
      try {
        team.run(r, [&] {
          if (r == failing) throw std::runtime_error("no memory");
          const WorkerTeam& own = replicas.executor(r).team;
          own.begin_sum(gradients.each()(r) + once, once_floats, 4);
          own.end_sum([] {});
        });
      } catch (...) {
        team.abandon();
        throw;
      }
    }),
                      "no memory");
    CHECK(replicas.executor(failing).team.size() == 1);
  }
}

TEST_CASE("a replica that gives no terms is named when the limit has passed", "[replica_team]") {
  Group replicas(2, std::chrono::milliseconds(20));
  Team team(replicas);
  OfReplicas gradients(2);
  team.begin(true, gradients.each(), 7);
  CHECK_THROWS_WITH(replicas.run([&](int r) {
    team.run(r, [&] {
      if (r == 1) return;
      const WorkerTeam& own = replicas.executor(r).team;
      own.begin_sum(gradients.each()(r) + once, once_floats, 4);
      own.end_sum([] {});
    });
  }),
                    "replica 0, gradient of parameter " + std::to_string(slot_of(once_floats)) +
                        " of step 7: waits for the terms of replica 1; expected within 0.02 s, found nothing");
}
