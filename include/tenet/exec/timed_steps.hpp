#pragma once

#include <cmath>
#include <tenet/core/timeline.hpp>
#include <tenet/device/timed_event.hpp>
#include <vector>

namespace tenet {

/// For the timeline: the steps that a device was given, each between two of its events. They run later, on a clock of
/// the device's own, and are added to the executor's row when they have run. Nothing at all where the executor's type
/// has no row.
template <class Executor>
class TimedSteps {
 public:
  void begin(Executor&) {}
  void restart(Executor&) {}
  void end_step(Executor&, const Span&) {}
  void add_to_row(Executor&) {}
};

template <HasTimelineRow Executor>
class TimedSteps<Executor> {
 public:
  /// Waits until the device has run all that it was given, and lays its clock beside the host's: an event of a device
  /// that has nothing to do is somewhere between the call and its end, a few microseconds; in the middle, as far as the
  /// host can know.
  void begin(Executor& executor) {
    add_to_row(executor);
    if (executor.timeline_row == nullptr) return;
    executor.synchronize();
    const std::int64_t before = timeline_now();
    record(executor, {});
    executor.synchronize();
    begin_ = before + (timeline_now() - before) / 2;
  }
  /// The next step begins here: what the device was given since the last one is not part of it.
  void restart(Executor& executor) {
    if (!given_.empty()) record(executor, {});
  }
  /// What this is about was given to the device; its time is still to come.
  void end_step(Executor& executor, const Span& span) {
    if (!given_.empty()) record(executor, span);
  }
  /// To be called when the steps have run, or may be waited for.
  void add_to_row(Executor& executor) {
    std::int64_t begin = begin_;
    for (std::size_t i = 1; i < given_.size(); ++i) {
      Span& span = given_[i];
      span.begin = std::exchange(begin, begin_ + std::llround(1e9 * events_[0].elapsed_seconds(events_[i])));
      span.end = begin;
      if (*span.name != '\0') executor.timeline_row->add(span);
    }
    given_.clear();
  }

 private:
  void record(Executor& executor, const Span& given) {
    if (events_.size() == given_.size()) events_.emplace_back();
    events_[given_.size()].record(executor);
    given_.push_back(given);
  }

  std::int64_t begin_ = 0;  ///< on the host's clock, of the first event
  std::vector<TimedEventOf<Executor>> events_;
  std::vector<Span> given_;  ///< what ended with each of the first events; without a name: nothing that is shown
};

}  // namespace tenet
