#pragma once

namespace tenet {

/// What a kernel does with its result while it is still in cache: called once for every contiguous range [first, last)
/// of the result (indices in elements of the whole result), right after the range was written, by the writing thread.
///
/// The ranges of one kernel are disjoint and cover the result, and may be run at the same time by several threads.
struct Epilogue {
  void (*run)(const void* state, long first, long last) = nullptr;
  const void* state = nullptr;

  void operator()(long first, long last) const {
    if (run != nullptr && first < last) run(state, first, last);
  }
  explicit operator bool() const { return run != nullptr; }
};

}  // namespace tenet
