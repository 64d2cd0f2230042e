#include "tenet/comm/subgroup.hpp"

#include <algorithm>
#include <tenet/comm/collectives.hpp>

#include "../support/collectives.hpp"
#include "../support/machines.hpp"

using namespace tenet;
using ranks::OnMachines;

static_assert(Transport<Subgroup<ThreadTransport>> && MayShareMemory<Subgroup<ThreadTransport>>);

TEST_CASE("ranks of a group do together what ranks do", "[subgroup]") {
  const std::vector<std::vector<int>> groups{{4, 1, 3}, {0, 5}, {2}};
  const auto found = ranks::collect(6, [&](ThreadTransport& transport) {
    for (const std::vector<int>& group : groups) {
      const auto own = std::find(group.begin(), group.end(), transport.rank());
      if (own == group.end()) continue;
      Subgroup part(transport, group, static_cast<int>(own - group.begin()), transport.link());
      std::vector<float> data = collectives::numbers_of(part.rank(), 5000);
      all_reduce_by_ring(part, data.data(), 5000, {"sum", 0, 1}, collectives::weight_of(part.rank()));
      broadcast(part, part.size() - 1, data.data(), 1, {"number", 0, 1});
      barrier(part, {"barrier", 0, 1});
      if (part.arrived(0)) fail("arrived", "behind all", "nothing", "something");
      return data;
    }
    return std::vector<float>{};
  });
  for (const std::vector<int>& group : groups)
    for (const int rank : group) {
      double worst = 0;
      REQUIRE(found[static_cast<std::size_t>(rank)].size() == 5000);
      for (long i = 0; i < 5000; ++i)
        worst = std::fmax(worst, std::fabs(found[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)] -
                                           collectives::weighted_sum(static_cast<int>(group.size()), i)));
      CAPTURE(rank);
      CHECK(worst < 1e-5);
    }
}

TEST_CASE("a group's errors name ranks as the whole does", "[subgroup]") {
  const std::vector<int> group{3, 1};
  const auto messages = ranks::run(
      4,
      [&](ThreadTransport& transport) {
        if (transport.rank() != 1) return;
        Subgroup part(transport, group, 1, transport.link());
        float number = 0;
        part.receive_into(0, &number, 1, {"bucket", 3, 17});
      },
      std::chrono::milliseconds(50));
  CHECK(messages[1] ==
        "rank 1, bucket 3 of step 17: waits for a message from rank 3; expected within 0.05 s, found nothing");
}

TEST_CASE("groups of a machine, and of one place on all machines", "[subgroup]") {
  const auto found = ranks::collect(5, [](ThreadTransport& transport) {
    OnMachines on(transport, {0, 1, 0, 1, 1});
    const auto inside = Subgroup<OnMachines>::of_machine(on, *on.machines());
    std::vector<float> result{static_cast<float>(inside.rank()), static_cast<float>(inside.size()),
                              static_cast<float>(inside.link().seconds)};
    if (inside.rank() < on.machines()->fewest()) {
      const auto between = Subgroup<OnMachines>::between_machines(on, *on.machines());
      result.insert(result.end(), {static_cast<float>(between.rank()), static_cast<float>(between.size()),
                                   static_cast<float>(between.link().seconds)});
    }
    return result;
  });
  CHECK(found[0] == std::vector<float>{0, 2, 1e-6f, 0, 2, 2e-5f});
  CHECK(found[1] == std::vector<float>{0, 3, 1e-6f, 1, 2, 2e-5f});
  CHECK(found[2] == std::vector<float>{1, 2, 1e-6f, 0, 2, 2e-5f});
  CHECK(found[3] == std::vector<float>{1, 3, 1e-6f, 1, 2, 2e-5f});
  CHECK(found[4] == std::vector<float>{2, 3, 1e-6f});
}

TEST_CASE("ranks of whose machines nothing is known are all on one", "[subgroup]") {
  const auto check = [](auto& transport) {
    auto group = Subgroup<std::remove_reference_t<decltype(transport)>>::of_machine(transport);
    if (&group.transport() != &transport) fail("transport", "another one", "that of all ranks", "not it");
    if (group.rank() != transport.rank() || group.size() != 3) fail("group", "other ranks", "all", group.size());
    float number = static_cast<float>(group.rank() + 1), sum = 0;
    // They have memory in common, as all ranks have.
    const bool shared = group.share(&number, 1, {"numbers", 0, 1}, 1, [&](const SharedNumbers* of_rank) {
      for (int r = 0; r < 3; ++r) sum += *of_rank[r].data;
    });
    all_reduce(group, &number, 1, {"sum", 1, 1});
    return std::vector<float>{sum, static_cast<float>(shared), number};
  };
  const std::vector<float> all{6, 1, 6};
  CHECK(ranks::collect(3, [&](ThreadTransport& transport) { return check(transport); }) ==
        std::vector<std::vector<float>>{all, all, all});
  CHECK(ranks::collect(3, [&](ThreadTransport& transport) {
          OnMachines on(transport, {5, 5, 5});
          return check(on);
        }) == std::vector<std::vector<float>>{all, all, all});
}

TEST_CASE("a group that is no machine has no memory in common", "[subgroup]") {
  const std::vector<int> group{0, 2};
  ranks::run_well(3, [&](ThreadTransport& transport) {
    if (transport.rank() == 1) return;
    Subgroup part(transport, group, transport.rank() / 2, transport.link());
    float number = 1;
    if (part.memory(1) != nullptr) fail("memory", "some", "none", "some");
    if (part.share(&number, 1, {"number", 0, 1}, 1, [](const SharedNumbers*) {})) fail("share", "done", "not", "done");
  });
}
