#include "tenet/ops/sum_over_workers.hpp"

#include <catch2/catch.hpp>
#include <tenet/device/cpu.hpp>
#include <tenet/device/reference.hpp>
#include <vector>

using namespace tenet;

namespace {

/// The kernel reads its count from the attribute, and what it adds from the executor.
template <class Kernels>
void check() {
  const auto run = &Instance<ops::SumOverWorkers, Scalar>::template run<Kernels>;
  typename Kernels::Executor executor{};
  const std::vector<float> from{1, 2, 3, 4};
  std::vector<float> to(4);
  typename Kernels::Arguments arguments;
  arguments.operands[0] = from.data();
  arguments.written = to.data();
  arguments.attribute = 3;
  run(executor, arguments);
  CHECK(to == std::vector<float>{1, 2, 3, 0});
  long asked = 0;
  executor.worker_sum = WorkerSum(
      [](void* context, float* numbers, long floats) {
        *static_cast<long*>(context) += floats;
        numbers[0] = 7;
      },
      &asked);
  run(executor, arguments);
  CHECK(asked == 3);
  CHECK(to == std::vector<float>{7, 2, 3, 0});
}

}  // namespace

TEST_CASE("sums over workers are the executor's to make") {
  check<ReferenceKernels>();
  check<CpuKernels>();
}
