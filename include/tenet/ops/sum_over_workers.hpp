#pragma once

#include <tenet/ops/instance.hpp>

namespace tenet::ops {

/// Of numbers that each worker has for its own samples: the sum over all workers. No network calls it: a pass puts it
/// into the graph (graph/batch_sums.hpp), whatever the type of the numbers is; their count is the attribute.
struct SumOverWorkers : KernelOperation {
  static constexpr const char* name = "sum_over_workers";
  static constexpr bool full_precision = true;
  static constexpr Scalar result(auto) { return {}; }
  static void run(auto& executor, const auto& arguments, auto) {
    executor.worker_sum(arguments.template operand<float>(0), arguments.template result<float>(), arguments.attribute);
  }
};

}  // namespace tenet::ops
