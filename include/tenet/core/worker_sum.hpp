#pragma once

#include <algorithm>

namespace tenet {

/// How an executor adds up numbers over all workers that share a batch, in the midst of a step; one that works alone
/// has them all. Every worker of a training calls it equally often, for as many numbers.
class WorkerSum {
 public:
  /// add_up(context, numbers, floats) makes of each worker's numbers the sum of all workers'.
  using Function = void (*)(void* context, float* numbers, long floats);

  WorkerSum() = default;
  WorkerSum(Function add_up, void* context) : add_up_(add_up), context_(context) {}

  void operator()(float* numbers, long floats) const {
    if (add_up_ != nullptr) add_up_(context_, numbers, floats);
  }
  /// to = the sum over all workers of from.
  void operator()(const float* from, float* to, long floats) const {
    if (to != from) std::copy_n(from, floats, to);
    (*this)(to, floats);
  }

 private:
  Function add_up_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace tenet
