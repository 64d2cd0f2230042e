#pragma once

#include <exception>
#include <string>
#include <tenet/core/error.hpp>
#include <tenet/core/wait.hpp>
#include <tenet/exec/outcome.hpp>
#include <tenet/train/fit_options.hpp>

namespace tenet {

namespace detail {

/// What becomes of a step. The queue and the step's `PendingStep` hold it, and events of it; when only the queue does,
/// it serves another step.
struct StepOutcome final : Outcome {
  StepResult result{};
  std::string what() const override { return "a queued step"; }
};
using HeldOutcome = Held<StepOutcome>;

/// To be called where a step's exception is caught: throws an `Error` that says which step it was.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_step(long number) { fail_of("step " + std::to_string(number)); }

}  // namespace detail

/// A step that a trainer's `step_async` has queued. It may outlive the trainer, be given to another thread, or be
/// dropped, if nobody wants the result. An `Event` (tenet/exec/event.hpp) can be made of it.
class PendingStep {
 public:
  PendingStep() = default;
  explicit PendingStep(detail::HeldOutcome outcome) : outcome_(std::move(outcome)) {}

  /// Whether the step has ended, so that `get` does not wait.
  bool ready() const { return outcome().has_ended(); }

  /// Waits until the step has ended. Throws `Error` if it has failed, or has been skipped because one before it has.
  StepResult get() const {
    for (int spin = 0; spin < 4000 && !ready(); ++spin) pause();
    outcome().ended.wait(0, std::memory_order_acquire);
    if (outcome().failure != nullptr) std::rethrow_exception(outcome().failure);
    return outcome().result;
  }

  const detail::HeldOutcome& held() const { return outcome_; }

 private:
  const detail::StepOutcome& outcome() const {
    if (outcome_ == nullptr) fail("PendingStep", "it belongs to no step", "what step_async has returned", "none");
    return *outcome_;
  }

  detail::HeldOutcome outcome_;
};

}  // namespace tenet
