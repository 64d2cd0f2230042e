#include "tenet/parallel/replica_sums.hpp"

#include <catch2/catch.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

namespace {
using Group = Replicas<Reference>;

/// What each replica has of the sums of numbers r + 1 and 10 · (r + 1), one call after the other.
std::vector<float> add_up_twice(Group& replicas) {
  std::vector<float> found(2 * static_cast<std::size_t>(replicas.size()));
  replicas.run([&](int r) {
    float* const own = found.data() + 2 * r;
    const float first[]{static_cast<float>(r + 1)}, second[]{10.0f * static_cast<float>(r + 1)};
    replicas.executor(r).worker_sum(first, own, 1);
    replicas.executor(r).worker_sum(second, own + 1, 1);
  });
  return found;
}
}  // namespace

TEST_CASE("each replica has the sum of all") {
  Group replicas(3);
  const ReplicaSums sums(replicas);
  for (int round = 0; round < 100; ++round) CHECK(add_up_twice(replicas) == std::vector<float>{6, 60, 6, 60, 6, 60});
}

TEST_CASE("replicas that are one worker among others have the sum of all workers") {
  Group replicas(2);
  ReplicaSums sums(replicas);
  sums.go_on_with([](float* numbers, long floats) {
    for (long i = 0; i < floats; ++i) numbers[i] += 100;
  });
  CHECK(add_up_twice(replicas) == std::vector<float>{103, 130, 103, 130});
}

TEST_CASE("a replica that fails ends the others' waiting") {
  Group replicas(2);
  ReplicaSums sums(replicas);
  CHECK_THROWS_WITH(replicas.run([&](int r) {
    if (r == 1) {
      sums.abandon();
      throw std::runtime_error("the second");
    }
    float number = 1;
    replicas.executor(r).worker_sum(&number, 1);
  }),
                    "the second");
}
