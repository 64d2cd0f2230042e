#pragma once

#include <time.h>

#include <cstdint>
#include <type_traits>

/// Spans of time, as workers record them in their rows of a timeline. Without such a row nothing is recorded, and none
/// of `timeline.hpp` is compiled.
namespace tenet {

/// What a span is about.
enum class SpanKind : unsigned char {
  step,           ///< a step of a program; `subject` is the step
  update,         ///< the optimizer's steps over a part of the parameters; `subject` is the first of them
  training_step,  ///< all that a trainer does for a batch of `number` samples
  wait,           ///< for what `name` says: nothing else is done
  collective,     ///< what all ranks do together, such as to add up a bucket
  message,        ///< sent to, or received from, rank `peer`
  request,        ///< of a key-value store, from being asked for until it is done; `number` is the key
};

/// Nanoseconds of the machine's steady clock. It is one clock for all processes of a machine, so that what they record
/// can be laid side by side; those of two machines have nothing to do with each other.
inline std::int64_t timeline_now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);  // what std::chrono asks, whose header costs 0.1 s
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// Something that took time. Names are not copied: they are literals.
struct Span {
  std::int64_t begin = 0, end = 0;  ///< `timeline_now()`
  const char* name = "";
  const void* subject = nullptr;  ///< see `SpanKind`
  long number = -1;               ///< of the bucket, say; negative: none
  long step = -1;                 ///< of the training; negative: none
  long bytes = 0;                 ///< moved
  int peer = -1;                  ///< negative: none
  SpanKind kind = SpanKind::step;
};

class TimelineRow;

/// What has a row in which its work is recorded; without the policy `Timeline` nothing has one. It may be null.
template <class T>
concept HasTimelineRow = requires(T& worker) { static_cast<TimelineRow*>(worker.timeline_row); };

/// What a worker is but for its row: kernels are the same whether what they do is recorded or not.
template <class Worker>
[[gnu::always_inline]] inline auto& without_row(Worker& worker) {
  if constexpr (requires { typename Worker::WithoutRow; })
    return static_cast<typename Worker::WithoutRow&>(worker);
  else
    return worker;
}

/// A span from here to the end of the scope.
template <class Row>
class OpenSpan {
 public:
  OpenSpan(Row* row, const Span& span) : row_(row), span_(span) {
    if (row_ != nullptr) span_.begin = timeline_now();
  }
  OpenSpan(const OpenSpan&) = delete;
  OpenSpan& operator=(const OpenSpan&) = delete;
  ~OpenSpan() {
    if (row_ == nullptr) return;
    span_.end = timeline_now();
    row_->add(span_);
  }

 private:
  Row* row_;
  Span span_;
};
struct NoSpan {
  constexpr ~NoSpan() {}  // so that it is not called an unused variable
};

/// A span of a worker that begins and ends again and again; nothing at all where the worker's type has no row.
template <class Worker>
class RepeatedSpan {
 public:
  RepeatedSpan(Worker& worker, [[maybe_unused]] const Span& span) {
    if constexpr (HasTimelineRow<Worker>) kept_ = {worker.timeline_row, span};
  }
  void begin() {
    if constexpr (HasTimelineRow<Worker>) kept_.span.begin = timeline_now();
  }
  void end() {
    if constexpr (HasTimelineRow<Worker>) {
      kept_.span.end = timeline_now();
      if (kept_.row != nullptr) kept_.row->add(kept_.span);
    }
  }

 private:
  struct Kept {
    TimelineRow* row = nullptr;
    Span span{};
  };
  [[no_unique_address]] std::conditional_t<HasTimelineRow<Worker>, Kept, NoSpan> kept_;
};

/// Opens a span in a worker's row; nothing at all where the worker's type has none.
template <class Worker>
[[gnu::always_inline]] inline auto open_span(Worker& worker, [[maybe_unused]] const Span& span) {
  if constexpr (HasTimelineRow<Worker>)
    return OpenSpan(worker.timeline_row, span);
  else
    return NoSpan{};
}

}  // namespace tenet
