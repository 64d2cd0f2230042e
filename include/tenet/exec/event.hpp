#pragma once

#include <tenet/core/error.hpp>
#include <tenet/core/time_limit.hpp>
#include <tenet/core/wait_until.hpp>
#include <tenet/exec/outcome.hpp>

namespace tenet {

/// The moment when something has ended that was queued on a logical device: a copy, or a step.
///
///     const Event copied = copy_async(images, there);       // from the host to Cpu<1>, say
///     const Event trained = trainer.step_async(…);
///     wait(Cpu<0>{}, copied);                               // that device's queue waits; the host goes on
///     trained.wait();                                       // the host waits
///
/// An event may be copied, given to another thread, outlive what it is of, or be dropped.
class Event {
 public:
  /// Of nothing: it has ended.
  Event() = default;
  explicit Event(detail::Held<detail::Outcome> outcome) : outcome_(std::move(outcome)) {}
  /// Of a `PendingStep`.
  template <class Pending>
    requires requires(const Pending& pending) { detail::Held<detail::Outcome>(pending.held()); }
  Event(const Pending& pending) : outcome_(pending.held()) {}

  /// Whether it has ended, well or not, so that `wait` does not wait.
  bool ready() const { return outcome_ == nullptr || outcome_->has_ended(); }

  /// Waits until it has ended; no longer than the limit, which is that of `TENET_TIMEOUT` where none is given. Throws
  /// `Error` then, and what has failed of it.
  void wait(std::chrono::nanoseconds limit = time_limit()) const {
    if (outcome_ != nullptr) wait_for(*outcome_, limit);
  }

  /// For a step that is to run behind it: step_async(inputs, targets, batch, event).
  operator detail::Awaited() const {
    if (outcome_ == nullptr) return {};
    return {outcome_, [](const detail::Outcome& outcome) { wait_for(outcome, time_limit()); }};
  }

 private:
  static void wait_for(const detail::Outcome& outcome, std::chrono::nanoseconds limit) {
    if (!wait_until([&] { return outcome.has_ended(); }, limit))
      fail("Event", outcome.what() + " has not ended",
           "within " + std::to_string(std::chrono::duration<double>(limit).count()) + " s", "that it waits or runs");
    if (outcome.failure != nullptr) std::rethrow_exception(outcome.failure);
  }

  detail::Held<detail::Outcome> outcome_;
};

}  // namespace tenet
