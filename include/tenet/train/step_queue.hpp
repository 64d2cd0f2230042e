#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <tenet/core/buffer.hpp>
#include <tenet/exec/queued_work.hpp>
#include <tenet/exec/shared_queue.hpp>
#include <tenet/train/given.hpp>
#include <tenet/train/pending_step.hpp>
#include <utility>
#include <vector>

namespace tenet {

/// Where a trainer's steps run.
struct PlaceOfSteps {
  DeviceRange devices;
  ProcessorSet processors{};  ///< the thread's meanwhile; none: all that it may use
  bool is_alone = false;      ///< not in the queues that the devices have in this process
};

/// What a queued step works with, and what it waits for before it begins.
struct QueuedBatch {
  detail::GivenPart inputs{nullptr}, targets{nullptr};
  int size = 0;
  detail::Awaited after{};
};

/// A trainer's steps in their order, in the queues of its devices. Each has a copy of its batch, unless that lies on
/// the device, and of the settings at the time of its submission: the caller may use its memory at once. When a step
/// fails, those behind it are skipped until somebody synchronizes; what others have in these queues is not.
///
/// A step runs as run(settings, batch). Batches are copied to places that serve one step after the
/// other. All places together have no more than `limits.bytes`, unless a single batch does; when all batches have the
/// same size, nothing is allocated after the first ones.
template <class Settings, class Run>
class StepQueue final : public QueuedWork {
 public:
  StepQueue(const PlaceOfSteps& place, QueueLimits limits, Run run)
      : QueuedWork(place.devices),
        processors_(place.processors),
        steps_(limits),
        run_(run),
        tasks_(place.devices, place.is_alone) {}

  /// Waits while the queue is full. The step runs behind what is awaited, and fails where that has.
  PendingStep submit(const Settings& settings, detail::QueuedPart inputs, detail::QueuedPart targets, int batch,
                     detail::Awaited after = {}) {
    const std::size_t targets_at = (inputs.bytes.size() + 63) / 64 * 64;
    Place& place = free_place(static_cast<long>(targets_at + targets.bytes.size()));
    auto* const memory = reinterpret_cast<std::byte*>(place.memory.data());
    place.batch = {part_at(memory, inputs), part_at(memory + targets_at, targets), batch, std::move(after)};
    place.settings = settings;
    place.kept = {std::move(inputs.memory), std::move(targets.memory)};
    detail::StepOutcome& outcome = free_outcome();
    place.outcome = &outcome;
    place.is_free.store(false, std::memory_order_relaxed);
    outcome.holders.fetch_add(1, std::memory_order_relaxed);
    PendingStep result{detail::HeldOutcome(&outcome)};
    steps_.add(place.bytes());
    tasks_.submit([this, &place] { run(place); }, place.bytes());
    return result;
  }

  void synchronize() override {
    tasks_.wait();
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  /// Bytes of all places.
  long bytes() const {
    long sum = 0;
    for (const auto& place : places_) sum += place->bytes();
    return sum;
  }

 private:
  /// A step's batch, and what else it needs.
  struct Place {
    explicit Place(long bytes) : memory((bytes + 3) / 4) {}
    long bytes() const { return 4 * memory.size(); }

    Buffer memory;  // inputs, and behind them targets, as far as they are copied
    QueuedBatch batch;
    Settings settings{};
    std::array<std::shared_ptr<const void>, 2> kept;  // what they lie in
    detail::StepOutcome* outcome = nullptr;
    std::atomic<bool> is_free{true};
  };

  /// On the first device's thread.
  void run(Place& place) {
    detail::StepOutcome& outcome = *place.outcome;
    const QueueMeeting::All all(tasks_.meeting());
    if (failure_ == nullptr) {
      try {
        tasks_.queue().go_on_at(processors_);
        outcome.result = run_(place.settings, std::as_const(place.batch));
      } catch (...) {
        failure_ = std::current_exception();
      }
    }
    outcome.failure = failure_;
    const long bytes = place.bytes();
    place.batch.after = {};
    place.kept = {};
    place.is_free.store(true, std::memory_order_release);
    outcome.end();
    steps_.remove(bytes);
  }

  /// Copies it there, unless it stays where it is.
  static detail::GivenPart part_at(std::byte* memory, const detail::QueuedPart& part) {
    if (part.stays.data != nullptr) return part.stays;
    std::memcpy(memory, part.bytes.data(), part.bytes.size());
    return memory;
  }

  /// A place of at least so many bytes; waits until the queue has room for it.
  Place& free_place(long bytes) {
    steps_.wait_for_room(bytes);
    const long most = std::max(bytes, steps_.limits().bytes);
    for (auto& place : places_)
      if (is_free(place) && place->bytes() >= bytes && place->bytes() <= most) return *place;
    // Those that are free do not fit: others take their memory.
    std::erase_if(places_, is_free);
    return *places_.emplace_back(std::make_unique<Place>(bytes));
  }
  static bool is_free(const std::unique_ptr<Place>& place) { return place->is_free.load(std::memory_order_acquire); }

  /// An outcome that nobody holds any longer; the one that has served longest is asked first. There is one more where
  /// none is found among so many: results that somebody keeps are kept.
  detail::StepOutcome& free_outcome() {
    for (std::size_t tries = 0; tries < std::min<std::size_t>(outcomes_.size(), 64); ++tries) {
      next_outcome_ = (next_outcome_ + 1) % outcomes_.size();
      detail::StepOutcome& outcome = *outcomes_[next_outcome_];
      if (outcome.holders.load(std::memory_order_acquire) != 1 || outcome.ended.load(std::memory_order_acquire) == 0)
        continue;
      outcome.ended.store(0, std::memory_order_relaxed);
      return outcome;
    }
    const auto at = outcomes_.begin() + static_cast<std::ptrdiff_t>(next_outcome_);
    return **outcomes_.insert(at, detail::HeldOutcome(new detail::StepOutcome));
  }

  ProcessorSet processors_;
  TasksUnderWay steps_;
  Run run_;
  std::vector<std::unique_ptr<Place>> places_;
  std::vector<detail::HeldOutcome> outcomes_;
  std::size_t next_outcome_ = 0;
  std::exception_ptr failure_;  // written by the queue's thread; read here when all steps have ended
  OwnTasks tasks_;              // last: they end before what they use
};

}  // namespace tenet
