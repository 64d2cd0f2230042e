#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <tenet/core/link_cost.hpp>
#include <tenet/core/span.hpp>
#include <utility>
#include <vector>

/// What ran when: spans of time that threads record while they work, for whoever looks at them later.
namespace tenet {

class TimelineRecorder;

/// The last spans of one thread or device: a ring whose memory is there from the beginning on.
///
/// One thread at a time adds spans; any thread may copy them meanwhile. A span is eight numbers, each of them stored
/// with release and loaded with acquire: who has loaded a number of span n sees that n has been begun, and leaves out
/// what lay in its place before.
class TimelineRow {
 public:
  TimelineRow(TimelineRecorder& recorder, std::string name, int capacity, int worker)
      : recorder_(&recorder), name_(std::move(name)), worker_(worker), slots_(static_cast<std::size_t>(capacity)) {}

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
  /// Of which rank or replica it has the messages; negative: of none.
  int worker() const { return worker_; }
  TimelineRecorder& recorder() const { return *recorder_; }

 private:
  using Words = std::array<std::uint64_t, 8>;
  using Slot = std::array<std::atomic<std::uint64_t>, 8>;
  static_assert(sizeof(Span) == sizeof(Words), "a span is a line of the cache");

  TimelineRecorder* recorder_;
  std::string name_;
  int worker_;
  std::vector<Slot> slots_;
  alignas(64) std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> done_{0};
};

/// What a message between so many workers, ranks or replicas, is expected to cost.
struct TimelineLink {
  int workers = 1;
  LinkCost cost{};
};

/// The rows of one rank. Rows stay where they are.
class TimelineRecorder {
 public:
  /// Each row keeps so many spans, of 64 bytes.
  explicit TimelineRecorder(int capacity) : capacity_(capacity) {}
  TimelineRecorder(const TimelineRecorder&) = delete;
  TimelineRecorder& operator=(const TimelineRecorder&) = delete;

  TimelineRow& add_row(std::string name, int worker = -1) {
    auto row = std::make_unique<TimelineRow>(*this, std::move(name), capacity_, worker);
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

}  // namespace tenet
