#pragma once

#include <atomic>
#include <cstring>
#include <exception>
#include <vector>

namespace tenet {

/// Logical devices of one kind that follow one another: Cpu<0> and Cpu<1>, say.
struct DeviceRange {
  const char* kind = "";  ///< the kernels' name
  int first = 0, count = 1;
};

/// Steps that a trainer has queued, for whoever has to wait for them and does not know what they are: a program that
/// queues none compiles no queue.
class QueuedSteps {
 public:
  explicit QueuedSteps(const DeviceRange& devices) : devices_(devices) {
    change_all([this](auto& all) { all.push_back(this); });
  }
  QueuedSteps(const QueuedSteps&) = delete;
  QueuedSteps& operator=(const QueuedSteps&) = delete;
  virtual ~QueuedSteps() {
    change_all([this](auto& all) { std::erase(all, this); });
  }

  /// Waits until all have ended. Throws what the first that failed has thrown; the next call does not.
  virtual void synchronize() = 0;

  /// Waits for those of all trainers whose steps run on one of the devices, also where some have failed.
  static void synchronize_all(const char* kind, int device) {
    std::vector<QueuedSteps*> found;
    change_all([&](const auto& all) {
      for (QueuedSteps* steps : all)
        if (steps->runs_on(kind, device)) found.push_back(steps);
    });
    std::exception_ptr failure;
    for (QueuedSteps* steps : found) {
      try {
        steps->synchronize();
      } catch (...) {
        if (failure == nullptr) failure = std::current_exception();
      }
    }
    if (failure != nullptr) std::rethrow_exception(failure);
  }

 private:
  bool runs_on(const char* kind, int device) const {
    return std::strcmp(devices_.kind, kind) == 0 && device >= devices_.first &&
           device < devices_.first + devices_.count;
  }

  /// Those of the process.
  struct All {
    std::atomic_flag is_taken;  // for some instructions; <mutex> costs every trainer's includer 0.08 s
    std::vector<QueuedSteps*> steps{};
  };
  static All& all() {
    static All& never_destroyed = *new All;  // trainers may live longer than anything else
    return never_destroyed;
  }
  template <class Change>
  static void change_all(const Change& change) {
    while (all().is_taken.test_and_set(std::memory_order_acquire)) {
    }
    change(all().steps);
    all().is_taken.clear(std::memory_order_release);
  }

  DeviceRange devices_;
};

/// Waits until a logical device has run all steps that trainers of this process have queued for it:
/// synchronize(Cpu<0>{}). Of those that failed it throws the `Error` of the trainer that has queued first. To be called
/// by the thread that queues them.
template <class Device>
void synchronize(Device = {}) {
  QueuedSteps::synchronize_all(Device::Kernels::name, Device::index);
}

}  // namespace tenet
