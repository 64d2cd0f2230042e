#pragma once

#include <atomic>
#include <cstring>
#include <exception>
#include <vector>

namespace tenet {

namespace detail {

/// Keeps other threads out for some instructions. <mutex> costs every trainer's includer 0.08 s.
class HeldFlag {
 public:
  explicit HeldFlag(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) flag_.wait(true, std::memory_order_relaxed);
  }
  HeldFlag(const HeldFlag&) = delete;
  HeldFlag& operator=(const HeldFlag&) = delete;
  ~HeldFlag() {
    flag_.clear(std::memory_order_release);
    flag_.notify_one();
  }

 private:
  std::atomic_flag& flag_;
};

}  // namespace detail

/// Logical devices of one kind that follow one another: Cpu<0> and Cpu<1>, say.
struct DeviceRange {
  const char* kind = "";  ///< the kernels' name
  int first = 0, count = 1;

  bool has(const char* of_kind, int device) const {
    return std::strcmp(kind, of_kind) == 0 && device >= first && device < first + count;
  }
};

/// What somebody has queued on logical devices, as a trainer its steps, for whoever has to wait for it and does not
/// know what it is: a program that queues nothing compiles no queue.
class QueuedWork {
 public:
  explicit QueuedWork(const DeviceRange& devices) : devices_(devices) {
    change_all([this](auto& all) { all.push_back(this); });
  }
  QueuedWork(const QueuedWork&) = delete;
  QueuedWork& operator=(const QueuedWork&) = delete;
  virtual ~QueuedWork() {
    change_all([this](auto& all) { std::erase(all, this); });
  }

  /// Waits until all have ended. Throws what the first that failed has thrown; the next call does not.
  virtual void synchronize() = 0;

  /// Waits for all that runs on a device, also where some has failed.
  static void synchronize_all(const char* kind, int device) {
    std::vector<QueuedWork*> found;
    change_all([&](const auto& all) {
      for (QueuedWork* work : all)
        if (work->devices_.has(kind, device)) found.push_back(work);
    });
    std::exception_ptr failure;
    for (QueuedWork* work : found) {
      try {
        work->synchronize();
      } catch (...) {
        if (failure == nullptr) failure = std::current_exception();
      }
    }
    if (failure != nullptr) std::rethrow_exception(failure);
  }

 private:
  /// Those of the process.
  struct All {
    std::atomic_flag is_taken;
    std::vector<QueuedWork*> work{};
  };
  static All& all() {
    static All& never_destroyed = *new All;  // trainers may live longer than anything else
    return never_destroyed;
  }
  template <class Change>
  static void change_all(const Change& change) {
    const detail::HeldFlag held(all().is_taken);
    change(all().work);
  }

  DeviceRange devices_;
};

/// Waits until a logical device has run all that this process has queued for it, as steps of trainers:
/// synchronize(Cpu<0>{}). Of what has failed it throws the `Error` of the trainer, say, that has queued first. To be
/// called by the thread that queues.
template <class Device>
void synchronize(Device = {}) {
  QueuedWork::synchronize_all(Device::Kernels::name, Device::index);
}

}  // namespace tenet
