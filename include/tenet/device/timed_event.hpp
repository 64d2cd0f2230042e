#pragma once

#include <chrono>
#include <type_traits>

/// Moments in what an executor runs, to say how long it took.
namespace tenet {

/// The executor has a type of events by which its own clock is read:
///
///     void record(Executor&);                     now is when all has run that the executor was given so far
///     double elapsed_seconds(const Event& end);   between two that were recorded; waits until both have happened
///
/// An executor without one has run what it was given when the call returns: the host's clock serves it.
template <class Executor>
concept HasTimedEvents = requires(Executor& executor, typename Executor::TimedEvent& event) {
  event.record(executor);
  static_cast<double>(event.elapsed_seconds(event));
};

/// The same by the host's steady clock.
class HostEvent {
 public:
  template <class Executor>
  void record(const Executor&) {
    moment_ = std::chrono::steady_clock::now();
  }
  double elapsed_seconds(const HostEvent& end) const {
    return std::chrono::duration<double>(end.moment_ - moment_).count();
  }

 private:
  std::chrono::steady_clock::time_point moment_;
};

namespace detail {
template <class Executor>
struct TimedEventOf {
  using type = HostEvent;
};
template <HasTimedEvents Executor>
struct TimedEventOf<Executor> {
  using type = typename Executor::TimedEvent;
};
}  // namespace detail

/// The events that time what an executor runs.
template <class Executor>
using TimedEventOf = typename detail::TimedEventOf<Executor>::type;

}  // namespace tenet
