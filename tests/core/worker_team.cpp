#include "tenet/core/worker_team.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace tenet;

TEST_CASE("a worker that is alone adds up its sums itself") {
  const float sum = 0;
  CHECK(WorkerTeam().size() == 1);
  CHECK_FALSE(WorkerTeam().begin_sum(&sum, 1, 100));
  CHECK_FALSE(WorkerTeam(0, 1, {}, nullptr).begin_sum(&sum, 1, 100));
}

TEST_CASE("a team says where a sum goes, and when it is to be finished") {
  struct Others {
    std::vector<float> sum{0, 0, 0}, terms;
    std::vector<WorkerTeam::Task> tasks;
  } others;
  const WorkerTeam team(
      1, 2,
      {[](void* context, const float*, long places, long terms) {
         Others& all = *static_cast<Others*>(context);
         if (places != 3) return WorkerTeam::Sum{};
         all.terms.resize(static_cast<std::size_t>(terms));
         return WorkerTeam::Sum{all.sum.data(), all.terms.data()};
       },
       [](void* context, const WorkerTeam::Task& finish) { static_cast<Others*>(context)->tasks.push_back(finish); }},
      &others);
  const std::vector<float> own(3);
  CHECK_FALSE(team.begin_sum(own.data(), 2, 6));
  {
    const WorkerTeam::Sum sum = team.begin_sum(own.data(), 3, 6);
    REQUIRE(sum);
    others.terms = {1, 2, 3, 10, 20, 30};
    team.end_sum([sum, rank = team.rank()] { sum.to[rank] = sum.terms[rank] + sum.terms[3 + rank]; });
  }
  REQUIRE(others.tasks.size() == 1);
  CHECK(others.sum == std::vector<float>{0, 0, 0});
  others.tasks[0]();  // it has all that it needs
  CHECK(others.sum == std::vector<float>{0, 22, 0});
}
