#pragma once

#include <atomic>
#include <bit>
#include <exception>
#include <tenet/core/doorbell.hpp>
#include <tenet/core/function.hpp>
#include <tenet/core/wait.hpp>
#include <thread>
#include <utility>
#include <vector>

namespace tenet {

/// What a queue holds at most before whoever submits has to wait.
struct QueueLimits {
  int tasks = 64;
  long bytes = 1L << 30;    ///< that tasks say they keep alive; a single task may exceed it
  int spins = usual_spins;  ///< so often a thread that waits looks before it sleeps
};

/// Tasks that were submitted and have not ended. One thread at a time submits, one runs them, in their order; any may
/// wait.
class TasksUnderWay {
 public:
  explicit TasksUnderWay(QueueLimits limits) : limits_(limits) {}

  const QueueLimits& limits() const { return limits_; }
  /// How many have been submitted, ever; begins anew after 2^32.
  unsigned submitted() const { return submitted_.load(std::memory_order_relaxed); }
  int waiting() const { return static_cast<int>(submitted() - done_.load(std::memory_order_acquire)); }
  /// By its number: what `submitted` was behind its submission.
  bool has_run(unsigned task) const { return static_cast<int>(task - done_.load(std::memory_order_acquire)) <= 0; }

  /// Whether a task that keeps so many bytes alive can be added.
  bool has_room(long bytes) const {
    return waiting() < limits_.tasks &&
           (waiting() == 0 || bytes_.load(std::memory_order_relaxed) + bytes <= limits_.bytes);
  }
  void wait_for_room(long bytes) const {
    wait_until_done([=, this] { return has_room(bytes); });
  }
  /// Until a task has run, and those before it.
  void wait_for(unsigned task) const {
    wait_until_done([=, this] { return has_run(task); });
  }

  /// Before `wake`, whoever runs tasks may sleep on.
  void add(long bytes) {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    submitted_.store(submitted() + 1, std::memory_order_release);
  }
  void wake() const { more_.ring(); }
  /// Whoever runs tasks waits for the next one, when it has run so many.
  void wait_for_more(unsigned run) const {
    wait_at(more_, [=, this] { return submitted_.load(std::memory_order_acquire) != run; });
  }
  /// The first of them has ended.
  void remove(long bytes) {
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    done_.fetch_add(1, std::memory_order_release);
    ended_.ring();
  }

 private:
  template <class Ready>
  void wait_until_done(Ready ready) const {
    if (ready()) return;
    wake();  // it may not know of all tasks yet
    wait_at(ended_, ready);
  }
  /// In a loop for a moment, then asleep.
  template <class Ready>
  void wait_at(Doorbell& doorbell, Ready ready) const {
    for (int spin = 0; spin < limits_.spins; ++spin) {
      if (ready()) return;
      pause();
    }
    doorbell.sleep_until(ready);
  }

  QueueLimits limits_;
  alignas(64) std::atomic<unsigned> submitted_{0};
  alignas(64) std::atomic<unsigned> done_{0};
  std::atomic<long> bytes_{0};
  mutable Doorbell more_, ended_;  // tasks
};

/// Tasks that a thread of its own runs in their order. Whoever submits one goes on at once, so that preparing the next
/// task and running this one take place at the same time.
///
/// What a task throws comes out of the next `synchronize`; the tasks behind it are skipped. One thread at a time may
/// submit and synchronize.
///
/// A template, so that only programs which queue compile it.
template <class Task = Function<void()>>
class QueueOf {
 public:
  /// `first` runs before all tasks, on the queue's thread: to bind it to processors, say. It must not throw.
  explicit QueueOf(QueueLimits limits = {}, Task first = {})
      : tasks_(limits), slots_(std::bit_ceil(static_cast<unsigned>(limits.tasks))), thread_([this, first] {
          if (first) first();
          serve();
        }) {}

  QueueOf(const QueueOf&) = delete;
  QueueOf& operator=(const QueueOf&) = delete;

  /// Runs what is still to run.
  ~QueueOf() {
    submit({});
    thread_.join();
  }

  /// Whether a task that keeps so many bytes alive can be added at once; waits until it can.
  bool has_room(long bytes = 0) const { return tasks_.has_room(bytes); }
  void wait_for_room(long bytes = 0) const { tasks_.wait_for_room(bytes); }
  /// Adds a task; waits while the queue is full. `bytes` is what it keeps alive until it has run.
  void submit(Task task, long bytes = 0) {
    append(std::move(task), bytes);
    wake();
  }
  /// The same for who adds more at once: the queue's thread, where it sleeps, does so until `wake`, or until somebody
  /// waits for a task.
  void append(Task task, long bytes = 0) {
    wait_for_room(bytes);
    slot(tasks_.submitted()) = {std::move(task), bytes};
    tasks_.add(bytes);
  }
  void wake() const { tasks_.wake(); }

  /// Waits until all tasks have run. Throws what the first that failed has thrown; `failed_task` says which it was.
  void synchronize() { synchronize(submitted()); }
  /// Waits for those up to one of them, by its number: what `submitted` was behind its submission.
  void synchronize(unsigned task) {
    wait_for(task);
    if (!has_failed_.load(std::memory_order_acquire)) return;
    wait_for(submitted());  // the others are skipped
    has_failed_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  /// The same, whether it has failed or not; any thread may.
  void wait_for(unsigned task) const { tasks_.wait_for(task); }
  /// The number of the last task that has failed, from 1; 0: none has. To be asked behind `synchronize`.
  unsigned failed_task() const { return failed_task_; }

  bool has_run(unsigned task) const { return tasks_.has_run(task); }
  /// How many tasks have been submitted, ever; begins anew after 2^32.
  unsigned submitted() const { return tasks_.submitted(); }

  /// Tasks that have been submitted and have not ended.
  int waiting() const { return tasks_.waiting(); }

 private:
  struct Slot {
    Task task;  ///< none: the last
    long bytes = 0;
  };

  void serve() {
    for (unsigned next = 0;; ++next) {
      tasks_.wait_for_more(next);
      Slot& now = slot(next);
      if (!now.task) return;
      try {
        if (!has_failed_.load(std::memory_order_relaxed)) now.task();
      } catch (...) {
        failure_ = std::current_exception();
        failed_task_ = next + 1;
        has_failed_.store(true, std::memory_order_release);
      }
      now.task = {};  // what it keeps alive ends before the task counts as done
      tasks_.remove(now.bytes);
    }
  }

  /// Numbers of tasks begin anew after 2^32: the slots are a power of two.
  Slot& slot(unsigned number) { return slots_[number % slots_.size()]; }

  TasksUnderWay tasks_;
  std::vector<Slot> slots_;
  std::exception_ptr failure_;  // written by the thread before `has_failed_`, read behind it
  std::atomic<bool> has_failed_{false};
  unsigned failed_task_ = 0;
  std::thread thread_;
};
using DeviceQueue = QueueOf<>;

}  // namespace tenet
