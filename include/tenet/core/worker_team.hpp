#pragma once

#include <new>
#include <type_traits>

namespace tenet {

/// The devices of a process that run the same steps, each on as many samples of its own, as the kernels of one of them
/// see the others; one that works alone is a team of one.
///
/// A kernel may leave it to the team to sum over all samples what it would sum over those of its device. Then each
/// device brings its terms of the sum to memory that all see, and goes on; later, when all have done so, each adds up
/// some places of the sum. So what a place of the sum costs beside its terms is paid once, not on each device, and
/// there are no sums of devices to be added. No device waits for another before its steps have ended.
class WorkerTeam {
 public:
  /// A sum over the samples of all devices; null where there is none.
  struct Sum {
    float* to = nullptr;     ///< all places, for all devices
    float* terms = nullptr;  ///< room for the terms of all devices
    explicit operator bool() const { return to != nullptr; }
  };

  /// What a device does of a sum when all terms are there: a function object, which is copied.
  class Task {
   public:
    template <class Function>
    explicit Task(Function function) : call_(&call<Function>) {
      static_assert(std::is_trivially_copyable_v<Function> && sizeof(Function) <= sizeof function_);
      new (function_) Function(function);
    }
    void operator()() const { call_(function_); }

   private:
    template <class Function>
    static void call(const void* function) {
      (*static_cast<const Function*>(function))();
    }
    void (*call_)(const void*);
    alignas(16) unsigned char function_[128];
  };

  /// What the team is made of; `context` is the device's.
  struct Functions {
    Sum (*begin_sum)(void* context, const float* own, long places, long terms) = nullptr;
    void (*end_sum)(void* context, const Task& finish) = nullptr;
  };

  WorkerTeam() = default;
  WorkerTeam(int rank, int size, const Functions& functions, void* context)
      : rank_(rank), size_(size), functions_(functions), context_(context) {}

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Begins a sum that this device would write to `own`, with room for so many floats of terms; null if the team takes
  /// none there. All devices begin the same sums in the same order.
  Sum begin_sum(const float* own, long places, long terms) const {
    return size_ > 1 ? functions_.begin_sum(context_, own, places, terms) : Sum{};
  }
  /// This device's terms are there. finish() is called by the thread that calls this, then or before the device's steps
  /// have ended.
  template <class Function>
  void end_sum(Function finish) const {
    functions_.end_sum(context_, Task(finish));
  }

 private:
  int rank_ = 0, size_ = 1;
  Functions functions_;
  void* context_ = nullptr;
};

}  // namespace tenet
