#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <tenet/core/error.hpp>
#include <tenet/core/wait.hpp>
#include <tenet/train/fit_options.hpp>

namespace tenet {

namespace detail {

/// What becomes of a step. The thread that runs it writes the first two, and then `ended`. The queue and the step's
/// `PendingStep` hold it; when only the queue does, it serves another step.
struct StepOutcome {
  StepResult result{};
  std::exception_ptr failure{};
  std::atomic<int> ended{0};
  std::atomic<int> holders{1};
};

struct ReleaseOutcome {
  void operator()(StepOutcome* outcome) const {
    if (outcome->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete outcome;
  }
};
using HeldOutcome = std::unique_ptr<StepOutcome, ReleaseOutcome>;

/// To be called where a step's exception is caught: throws an `Error` that says which step it was. The exception itself
/// is nested in it, for `std::rethrow_if_nested`.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_step(long number) {
  std::string what = "an exception that is not a std::exception";
  try {
    throw;
  } catch (const std::exception& failure) {
    what = failure.what();
  } catch (...) {
  }
  std::throw_with_nested(Error("step " + std::to_string(number) + ": " + what));
}

}  // namespace detail

/// A step that a trainer's `step_async` has queued. It may outlive the trainer, be given to another thread, or be
/// dropped, if nobody wants the result.
class PendingStep {
 public:
  PendingStep() = default;
  explicit PendingStep(detail::HeldOutcome outcome) : outcome_(std::move(outcome)) {}

  /// Whether the step has ended, so that `get` does not wait.
  bool ready() const { return outcome().ended.load(std::memory_order_acquire) != 0; }

  /// Waits until the step has ended. Throws `Error` if it has failed, or has been skipped because one before it has.
  StepResult get() const {
    for (int spin = 0; spin < 4000 && !ready(); ++spin) pause();
    outcome().ended.wait(0, std::memory_order_acquire);
    if (outcome().failure != nullptr) std::rethrow_exception(outcome().failure);
    return outcome().result;
  }

 private:
  const detail::StepOutcome& outcome() const {
    if (outcome_ == nullptr) fail("PendingStep", "it belongs to no step", "what step_async has returned", "none");
    return *outcome_;
  }

  detail::HeldOutcome outcome_;
};

}  // namespace tenet
