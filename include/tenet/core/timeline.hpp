#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// What ran when: spans of time that threads record while they work, for whoever looks at them later.
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
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
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

class TimelineRecorder;

/// The last spans of one thread or device: a ring whose memory is there from the beginning on.
///
/// One thread at a time adds spans; any thread may copy them meanwhile. A span is eight numbers, each of them stored
/// with release and loaded with acquire: who has loaded a number of span n sees that n has been begun, and leaves out
/// what lay in its place before.
class TimelineRow {
 public:
  TimelineRow(TimelineRecorder& recorder, std::string name, int capacity)
      : recorder_(&recorder), name_(std::move(name)), slots_(static_cast<std::size_t>(capacity)) {}

  void add(const Span& span) noexcept {
    const std::uint64_t number = begun_.load(std::memory_order_relaxed);
    begun_.store(number + 1, std::memory_order_relaxed);
    const Words words = std::bit_cast<Words>(span);
    Slot& slot = slots_[number % slots_.size()];
    for (std::size_t i = 0; i < words.size(); ++i) slot[i].store(words[i], std::memory_order_release);
    done_.store(number + 1, std::memory_order_release);
  }

  /// The spans that are kept, in the order in which they ended.
  std::vector<Span> spans() const {
    const std::uint64_t done = done_.load(std::memory_order_acquire), size = slots_.size();
    std::vector<Span> result;
    std::uint64_t first = done > size ? done - size : 0;
    result.reserve(static_cast<std::size_t>(done - first));
    for (std::uint64_t number = first; number < done; ++number) {
      Words words;
      for (std::size_t i = 0; i < words.size(); ++i)
        words[i] = slots_[number % size][i].load(std::memory_order_acquire);
      result.push_back(std::bit_cast<Span>(words));
    }
    // Others may have taken the place of the first ones meanwhile.
    const std::uint64_t begun = begun_.load(std::memory_order_relaxed);
    const std::uint64_t lost = begun > size + first ? begun - size - first : 0;
    result.erase(result.begin(),
                 result.begin() + static_cast<std::ptrdiff_t>(lost < done - first ? lost : done - first));
    return result;
  }
  /// How many were added, of which the last ones are kept.
  long added() const { return static_cast<long>(done_.load(std::memory_order_acquire)); }
  long capacity() const { return static_cast<long>(slots_.size()); }

  const std::string& name() const { return name_; }
  TimelineRecorder& recorder() const { return *recorder_; }

 private:
  using Words = std::array<std::uint64_t, 8>;
  using Slot = std::array<std::atomic<std::uint64_t>, 8>;
  static_assert(sizeof(Span) == sizeof(Words), "a span is a line of the cache");

  TimelineRecorder* recorder_;
  std::string name_;
  std::vector<Slot> slots_;
  alignas(64) std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> done_{0};
};

/// What a message between so many workers, ranks or replicas, is expected to cost: see `LinkCost`.
struct TimelineLink {
  int workers = 1;
  double seconds = 0, seconds_per_float = 0, seconds_per_sum = 0;
};

/// The rows of one rank. Rows stay where they are.
class TimelineRecorder {
 public:
  /// Each row keeps so many spans, of 64 bytes.
  explicit TimelineRecorder(int capacity) : capacity_(capacity) {}
  TimelineRecorder(const TimelineRecorder&) = delete;
  TimelineRecorder& operator=(const TimelineRecorder&) = delete;

  TimelineRow& add_row(std::string name) {
    auto row = std::make_unique<TimelineRow>(*this, std::move(name), capacity_);
    const Lock lock(locked_);  // replicas add theirs at the same time
    return *rows_.emplace_back(std::move(row));
  }
  /// To be asked for when no row is added.
  const std::vector<std::unique_ptr<TimelineRow>>& rows() const { return rows_; }

  void describe_link(const TimelineLink& link) {
    const Lock lock(locked_);
    link_ = link;
  }
  const TimelineLink& link() const { return link_; }
  /// Which of how many ranks this is.
  void describe_rank(int rank, int ranks) {
    rank_ = rank;
    ranks_ = ranks;
  }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  /// For moments, and seldom: <mutex> would be in every program.
  struct Lock {
    std::atomic_flag& flag;
    explicit Lock(std::atomic_flag& of) : flag(of) {
      while (flag.test_and_set(std::memory_order_acquire)) flag.wait(true, std::memory_order_relaxed);
    }
    ~Lock() {
      flag.clear(std::memory_order_release);
      flag.notify_one();
    }
  };

  int capacity_, rank_ = 0, ranks_ = 1;
  TimelineLink link_;
  std::atomic_flag locked_;
  std::vector<std::unique_ptr<TimelineRow>> rows_;
};

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
class OpenSpan {
 public:
  OpenSpan(TimelineRow* row, const Span& span) : row_(row), span_(span) {
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
  TimelineRow* row_;
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
