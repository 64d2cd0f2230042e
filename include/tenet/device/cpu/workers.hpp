#pragma once

#include <atomic>
#include <memory>
#include <tenet/core/large_memory.hpp>
#include <tenet/core/processors.hpp>
#include <tenet/core/wait.hpp>
#include <tenet/core/worker_sum.hpp>
#include <tenet/core/worker_team.hpp>
#include <thread>
#include <type_traits>
#include <vector>

namespace tenet::cpu {

/// A function without its type, called as function(arguments…) while it lives: its body is compiled once, and what
/// calls it once for all of them. It must not throw.
template <class... Arguments>
class FunctionReference {
 public:
  template <class Function>
  FunctionReference(Function&& function)
      : call_(&call<std::remove_reference_t<Function>>),
        function_(const_cast<void*>(static_cast<const void*>(&function))) {}

  void operator()(Arguments... arguments) const noexcept { call_(function_, arguments...); }

 private:
  template <class Function>
  static void call(void* function, Arguments... arguments) noexcept {
    (*static_cast<Function*>(function))(arguments...);
  }

  void (*call_)(void* function, Arguments...) noexcept;
  void* function_;
};

/// task(index, worker)
using TaskReference = FunctionReference<int, int>;
/// range(first, last)
using RangeReference = FunctionReference<long, long>;

/// A pool of threads that runs numbered tasks; the calling thread takes part as worker 0.
///
/// Threads spin for some microseconds between calls and then sleep. `for_each` allocates nothing and is to be called by
/// one thread at a time. How work is cut into tasks is the caller's: a kernel cuts by shapes only, never by `size()`,
/// so that its result does not depend on the number of threads.
class Workers {
 public:
  /// A pool of `threads` workers, the caller included; 0: as many as `available_processors()`. All but the caller keep
  /// to some processors, if these are given.
  [[gnu::noinline]] explicit Workers(int threads = 0, const ProcessorSet& own = {}) {
    const int processors = available_processors();
    size_ = threads > 0 ? threads : processors;
    spins_ = size_ <= processors ? 4000 : 0;  // spinning helps nobody when there are more threads than processors
    threads_ = std::vector<std::thread>(static_cast<std::size_t>(size_ - 1));
    int worker = 0;
    for (std::thread& thread : threads_)
      thread = std::thread([this, place = ++worker, own] {
        if (own.count() > 0) keep_to(own);
        serve(place);
      });
  }

  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  ~Workers() {
    waiting_.store(stop, std::memory_order_release);
    waiting_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  /// Number of workers, the caller included.
  int size() const { return size_; }

  /// With the other devices that train; see there.
  WorkerSum worker_sum;
  WorkerTeam team;

  /// Calls task(index, worker) once for every index in [0, tasks), on any worker, in any order; returns when all are
  /// done. A call from inside a task runs inline, on that task's worker. Tasks must not throw.
  [[gnu::noinline]] void for_each(int tasks, const TaskReference& task) {
    const Place outer = place_;
    if (tasks <= 1 || size_ == 1 || outer.pool == this) return run_inline(tasks, task);
    task_ = &task;
    tasks_ = tasks;
    running_.store(tasks, std::memory_order_relaxed);
    waiting_.store(tasks, std::memory_order_release);  // publishes the two above to whoever claims a task
    waiting_.notify_all();
    place_ = {this, 0};
    work(0);
    place_ = outer;
    for (int spin = 0; spin < spins_ && running_.load(std::memory_order_acquire) != 0; ++spin) pause();
    for (int left = running_.load(std::memory_order_acquire); left != 0;
         left = running_.load(std::memory_order_acquire)) {
      running_.wait(left, std::memory_order_acquire);
    }
  }

  /// Like `for_each`, in order on the calling thread: for work that is smaller than waking a thread.
  [[gnu::noinline]] void run_inline(int tasks, const TaskReference& task) {
    const Place outer = place_;
    const int worker = outer.pool == this ? outer.worker : 0;
    place_ = {this, worker};
    for (int index = 0; index < tasks; ++index) task(index, worker);
    place_ = outer;
  }

  /// Gives every worker at least `floats` floats of scratch memory; contents are lost when it grows.
  /// Not to be called while tasks run.
  [[gnu::noinline]] void reserve_scratch(long floats) {
    if (floats <= scratch_floats_) return;
    scratch_floats_ = (floats + 1023) / 1024 * 1024 + 16;  // not a multiple of 4 KiB: workers' caches collide less
    renew(scratch_, scratch_floats_ * size_, false);       // as much as the largest kernel takes for the largest batch
  }

  /// A worker's scratch memory, aligned to 64 bytes; null before the first `reserve_scratch`.
  float* scratch(int worker) { return scratch_.get() + scratch_floats_ * worker; }

  /// One block of memory that all workers share, as for weights in the form that a kernel wants: what is lent, if that
  /// is enough, else memory of their own, which grows.
  float* workspace(long floats) {
    if (floats <= lent_floats_) return lent_;
    reserve_workspace(floats);
    return workspace_.get();
  }
  /// Lends the workers a block for what runs until the next call, as a program that knows what is free meanwhile;
  /// without arguments: none.
  void lend_workspace(float* memory = nullptr, long floats = 0) {
    lent_ = memory;
    lent_floats_ = floats;
  }
  /// Has the workers own a block of at least so many floats. Not to be called while tasks run.
  [[gnu::noinline]] void reserve_workspace(long floats) {
    if (floats > workspace_floats_) renew(workspace_, workspace_floats_ = floats);
  }
  /// Floats of that block.
  long owned_workspace() const { return workspace_floats_; }

 private:
  static constexpr int stop = -1;

  struct Place {
    const Workers* pool;
    int worker;
  };

  static void renew(FloatMemory& memory, long floats, bool used_whole = true) {
    memory.reset();
    memory = take_floats(floats, used_whole);
  }

  /// Claims and runs tasks until none is left. A successful claim keeps the call alive, because the caller waits for
  /// the claimed task: only then are task_ and tasks_ read.
  void work(int worker) {
    int left = waiting_.load(std::memory_order_relaxed);
    while (left > 0) {
      if (!waiting_.compare_exchange_weak(left, left - 1, std::memory_order_acquire, std::memory_order_relaxed))
        continue;
      (*task_)(tasks_ - left, worker);
      if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_all();
      left = waiting_.load(std::memory_order_relaxed);
    }
  }

  void serve(int worker) {
    place_ = {this, worker};
    while (true) {
      int left = waiting_.load(std::memory_order_relaxed);
      for (int spin = 0; spin < spins_ && left == 0; ++spin) {
        pause();
        left = waiting_.load(std::memory_order_relaxed);
      }
      if (left == 0) waiting_.wait(0, std::memory_order_relaxed);
      if (left == stop) return;
      work(worker);
    }
  }

  inline static thread_local Place place_{nullptr, 0};  // which pool's task this thread runs, as which worker

  int size_ = 1, spins_ = 0;
  const TaskReference* task_ = nullptr;
  int tasks_ = 0;
  alignas(64) std::atomic<int> waiting_{0};  // tasks that nobody has claimed, or `stop`
  alignas(64) std::atomic<int> running_{0};  // tasks that have not ended
  alignas(64) long scratch_floats_ = 0;
  long workspace_floats_ = 0, lent_floats_ = 0;
  float* lent_ = nullptr;
  FloatMemory scratch_, workspace_;
  std::vector<std::thread> threads_;
};

namespace detail {

/// Work below this runs on the calling thread: about the time that waking another takes.
inline constexpr double inline_flops = 4e5;
inline constexpr double inline_elements = 1 << 15;

/// Runs the tasks of a kernel: by all workers, or one after the other on this thread when waking them costs more than
/// it saves. The tasks are the same either way.
inline void run_tasks(Workers& workers, long tasks, bool small, const TaskReference& task) {
  if (small) {
    workers.run_inline(static_cast<int>(tasks), task);
  } else {
    workers.for_each(static_cast<int>(tasks), task);
  }
}

/// Calls range(first, last) for consecutive ranges of about `cost`-weighted 16 Ki elements that cover [0, count):
/// `cost` is the number of elements that one index stands for. The ranges depend on count, cost and `unit`, which
/// divides their bounds.
[[gnu::noinline]] inline void run_ranges(Workers& workers, long count, long cost, const RangeReference& range,
                                         long unit = 1) {
  const long length = (1 << 14) / (cost > 0 ? cost : 1) / unit * unit;
  const long step = length > 0 ? length : unit;
  auto task = [&](int index, int) {
    const long first = index * step;
    range(first, count - first < step ? count : first + step);
  };
  run_tasks(workers, (count + step - 1) / step,
            static_cast<double>(count) * static_cast<double>(cost) < inline_elements, task);
}

}  // namespace detail

}  // namespace tenet::cpu
