#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <typeinfo>
#include <utility>
#include <vector>

#include "tenet/core/error.hpp"
#include "tenet/data/dataset.hpp"

namespace tenet {

/// A batch, as a view of memory of its loader: valid until the loop asks for the next one or ends.
struct Batch {
  long epoch = 0;                        ///< The epoch asked for.
  long index = 0;                        ///< Number of this batch in its epoch, from 0.
  int size = 0;                          ///< Samples in it; only an epoch's last batch may have fewer than the others.
  const void* input = nullptr;           ///< size x input_extents, row-major, 64-byte aligned; null: not read.
  const void* target = nullptr;          ///< size x target_extents, row-major, 64-byte aligned; null: not read.
  const long* samples = nullptr;         ///< The data set's index of each sample.
  const SampleLayout* layout = nullptr;  ///< What one sample looks like.

  /// The inputs as one array of size x input_extents; throws `Error` if their type is not `T`.
  template <class T = float>
  std::span<const T> inputs() const {
    return view<T>(input, layout->input_size(), layout->input_kind, "Batch::inputs");
  }
  /// The targets as one array of size x target_extents; throws `Error` if their type is not `T`.
  template <class T = std::int32_t>
  std::span<const T> targets() const {
    return view<T>(target, layout->target_size(), layout->target_kind, "Batch::targets");
  }

 private:
  template <class T>
  std::span<const T> view(const void* data, long each, DataKind kind, const char* where) const {
    if (kind != data_kind<T>) fail(where, "element type", name_of(kind), name_of(data_kind<T>));
    return {static_cast<const T*>(data), static_cast<std::size_t>(size * each)};
  }
};

/// Where batches live: ordinary memory, or page-locked memory for fast copies to a device; `allocate` gives 64-byte
/// aligned memory or throws.
struct BatchMemory {
  void* (*allocate)(std::size_t bytes) = [](std::size_t bytes) { return ::operator new(bytes, std::align_val_t(64)); };
  void (*release)(void* memory) = [](void* memory) { ::operator delete(memory, std::align_val_t(64)); };
};

namespace detail {

/// Throws the exception being handled again: the standard types and `Error` keep their type and get `where` before
/// their message, any other passes unchanged; and all of them do in a program without RTTI (-fno-rtti).
[[noreturn, gnu::cold]] inline void rethrow_with(const std::string& where) {
  try {
    throw;
  } catch (const std::exception& error) {
#ifdef __cpp_rtti
    std::string message = where;
    message.append(error.what());
    const auto again = [&]<class E>(const E*) {
      if (typeid(error) == typeid(E)) throw E(message);  // the exact type: a derived one would lose what it carries
    };
    again(static_cast<Error*>(nullptr));
    again(static_cast<std::runtime_error*>(nullptr));
    again(static_cast<std::logic_error*>(nullptr));
    again(static_cast<std::invalid_argument*>(nullptr));
    again(static_cast<std::out_of_range*>(nullptr));
    again(static_cast<std::length_error*>(nullptr));
    again(static_cast<std::domain_error*>(nullptr));
    again(static_cast<std::range_error*>(nullptr));
    again(static_cast<std::overflow_error*>(nullptr));
    again(static_cast<std::underflow_error*>(nullptr));
#else
    (void)error, (void)where;
#endif
    throw;
  }
}

/// The part of a loader which does not know the data set's type: slots for batches, and threads which fill them.
///
/// Batch b lives in slot b mod slots. Workers claim batches in order, at most `slots` ahead of what the caller has
/// given back, and the caller waits for batch after batch: order and content do not depend on the number of workers.
/// One mutex guards all counters; the samples of a slot belong to its worker until it is `ready`, then to the caller.
class BatchQueue {
 public:
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

 protected:
  [[gnu::noinline]] BatchQueue(const SampleLayout& layout, int batch_size, int workers, int prefetch,
                               BatchMemory memory)
      : memory_(memory),
        batch_size_(batch_size),
        // One slot more than what may be ahead: the caller holds one.
        slots_(workers == 0 ? 1 : static_cast<std::size_t>(workers) * static_cast<std::size_t>(prefetch) + 1),
        threads_(static_cast<std::size_t>(workers)) {
    input_bytes_ = layout.input_bytes();
    target_bytes_ = layout.target_bytes();
    const long input_block = round_up(input_bytes_ * batch_size), target_block = round_up(target_bytes_ * batch_size);
    block_ =
        static_cast<std::byte*>(memory_.allocate(slots_.size() * static_cast<std::size_t>(input_block + target_block)));
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].input = block_ + static_cast<long>(i) * (input_block + target_block);
      slots_[i].target = slots_[i].input + input_block;
    }
  }

  [[gnu::noinline]] ~BatchQueue() {
    join();
    memory_.release(block_);
  }

  /// Writes one sample; called from the workers.
  virtual void read(long index, long epoch, void* input, void* target) const = 0;

  /// Starts an epoch over the samples `order`, which must stay until `stop`.
  [[gnu::noinline]] void start(long epoch, std::span<const long> order, long batches) {
    {
      const std::lock_guard lock(mutex_);
      epoch_ = epoch;
      order_ = order;
      batches_ = batches;
      claimed_ = released_ = 0;
      cancelled_ = false;
    }
    try {
      for (std::thread& thread : threads_)
        if (!thread.joinable()) thread = std::thread([this] { work(); });
    } catch (...) {
      stop();
      throw;
    }
    claimable_.notify_all();
  }

  /// Begins an epoch over the samples `order` of which none is read.
  void choose(long epoch, std::span<const long> order) {
    epoch_ = epoch;
    order_ = order;
  }
  /// Which samples batch `index` has.
  void describe(long index, Batch& batch) const {
    batch.epoch = epoch_;
    batch.index = index;
    batch.size = size_of(index);
    batch.samples = order_.data() + index * batch_size_;
  }

  /// Waits for batch `index`, the one after the last, whose memory is given back; throws what reading it threw.
  [[gnu::noinline]] void next(long index, Batch& batch) {
    Slot& slot = slots_[static_cast<std::size_t>(index) % slots_.size()];
    if (threads_.empty()) {
      fill(slot, index);
    } else {
      std::unique_lock lock(mutex_);
      released_ = index;
      claimable_.notify_one();
      done_.wait(lock, [&] { return slot.ready; });
      slot.ready = false;
    }
    if (slot.error) {
      failed_sample_ = slot.failed_sample;
      std::rethrow_exception(std::exchange(slot.error, nullptr));
    }
    describe(index, batch);
    batch.input = slot.input;
    batch.target = slot.target;
  }

  /// Ends the epoch, finished or not; returns when no worker touches a slot any more.
  [[gnu::noinline]] void stop() {
    cancelled_ = true;
    std::unique_lock lock(mutex_);
    batches_ = 0;
    done_.wait(lock, [&] { return busy_ == 0; });
    for (Slot& slot : slots_) {
      slot.ready = false;
      slot.error = nullptr;
    }
  }

  /// Ends the threads; a derived class calls it before its members go.
  [[gnu::noinline]] void join() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = cancelled_ = true;
    }
    claimable_.notify_all();
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
  }

  long failed_sample_ = -1;

 private:
  struct Slot {
    std::byte* input = nullptr;
    std::byte* target = nullptr;
    bool ready = false;
    std::exception_ptr error;
    long failed_sample = -1;
  };

  static long round_up(long bytes) { return (bytes + 63) / 64 * 64; }

  int size_of(long batch) const {
    return static_cast<int>(std::min<long>(batch_size_, static_cast<long>(order_.size()) - batch * batch_size_));
  }

  [[gnu::noinline]] void fill(Slot& slot, long batch) noexcept {
    const int size = size_of(batch);
    for (int i = 0; i < size && !cancelled_; ++i) {
      const long sample = order_[static_cast<std::size_t>(batch * batch_size_ + i)];
      try {
        try {
          read(sample, epoch_, slot.input + i * input_bytes_, slot.target + i * target_bytes_);
        } catch (...) {
          std::string where;
          Message("DataLoader: sample ", sample, " (batch ").append_to(where);
          Message(batch, " of epoch ", epoch_).append_to(where);
          rethrow_with(where.append("): "));
        }
      } catch (...) {
        slot.error = std::current_exception();
        slot.failed_sample = sample;
        return;
      }
    }
  }

  [[gnu::noinline]] void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      claimable_.wait(lock, [&] {
        return closing_ || (claimed_ < batches_ && claimed_ < released_ + static_cast<long>(slots_.size()));
      });
      if (closing_) return;
      const long batch = claimed_++;
      Slot& slot = slots_[static_cast<std::size_t>(batch) % slots_.size()];
      ++busy_;
      lock.unlock();
      fill(slot, batch);
      lock.lock();
      --busy_;
      slot.ready = true;
      done_.notify_one();  // only the caller waits there
    }
  }

  BatchMemory memory_;
  std::byte* block_ = nullptr;
  long input_bytes_ = 0, target_bytes_ = 0;
  int batch_size_;
  std::vector<Slot> slots_;
  std::vector<std::thread> threads_;

  std::mutex mutex_;
  std::condition_variable claimable_;  // a worker may claim a batch, or must end
  std::condition_variable done_;       // a worker finished a batch
  std::atomic<bool> cancelled_ = false;
  bool closing_ = false;
  int busy_ = 0;                     // workers filling a slot
  long claimed_ = 0, released_ = 0;  // batches begun; batches the caller is done with
  long epoch_ = 0, batches_ = 0;
  std::span<const long> order_;
};

}  // namespace detail
}  // namespace tenet
