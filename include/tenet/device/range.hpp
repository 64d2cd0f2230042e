#pragma once

/// Ranges: what an executor is given, named for a profiler.
namespace tenet {

/// An executor that tells a profiler what it is given from here on, and when that was all. Ranges lie within each other
/// like parentheses; those of a thread are its own.
///
///     void begin_range(const char* name);   void end_range();
template <class Executor>
concept HasRanges = requires(Executor& executor) {
  executor.begin_range("");
  executor.end_range();
};

/// A range from here to the end of the scope, also where that is left by an exception; nothing at all where the
/// executor's type has no ranges.
template <class Executor>
class OpenRange {
 public:
  OpenRange(Executor&, const char*) {}
  OpenRange(const OpenRange&) = delete;
  OpenRange& operator=(const OpenRange&) = delete;
  ~OpenRange() {}  // so that it is not called an unused variable
};
template <HasRanges Executor>
class OpenRange<Executor> {
 public:
  OpenRange(Executor& executor, const char* name) : executor_(&executor) { executor.begin_range(name); }
  OpenRange(const OpenRange&) = delete;
  OpenRange& operator=(const OpenRange&) = delete;
  ~OpenRange() { executor_->end_range(); }

 private:
  Executor* executor_;
};

}  // namespace tenet
