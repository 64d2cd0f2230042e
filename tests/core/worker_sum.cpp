#include "tenet/core/worker_sum.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace tenet;

TEST_CASE("a worker that is alone has the sum") {
  const WorkerSum sum;
  const std::vector<float> from{1, 2, 3};
  std::vector<float> to(3);
  sum(from.data(), to.data(), 3);
  CHECK(to == from);
  sum(to.data(), 3);
  CHECK(to == from);
}

TEST_CASE("others add theirs, where the numbers are left") {
  std::vector<float> others{10, 20, 30};
  const WorkerSum sum(
      [](void* context, float* numbers, long floats) {
        for (long i = 0; i < floats; ++i) numbers[i] += (*static_cast<std::vector<float>*>(context))[i];
      },
      &others);
  const std::vector<float> from{1, 2, 3};
  std::vector<float> to(3);
  sum(from.data(), to.data(), 3);
  CHECK(to == std::vector<float>{11, 22, 33});
  CHECK(from == std::vector<float>{1, 2, 3});
  sum(to.data(), to.data(), 2);  // in place
  CHECK(to == std::vector<float>{21, 42, 33});
}
