#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <tenet/comm/barrier.hpp>
#include <tenet/core/processors.hpp>
#include <tenet/exec/device_queue.hpp>
#include <tenet/exec/execution.hpp>
#include <vector>

namespace tenet {

/// Some logical devices of one process: an executor each, and a thread each that keeps to its part of the processors.
/// The first one's thread is the caller's, which works while it would else wait. It is not bound, as its processors are
/// the caller's business: it only begins on its part where it comes from another one's. There two replicas would take
/// turns, and who waits for the other keep it from working (measured: two of 112 us of work each took 113 us so, and
/// from 217 to 635 where the scheduler had both on one of two processors).
template <class Device, class Kernels = typename Device::Kernels>
class Replicas {
 public:
  using Executor = typename Kernels::Executor;
  static constexpr int most = 64;

  /// From 1 to `most` replicas, which wait for each other no longer than the limit.
  explicit Replicas(int count, Barrier::Limit limit = time_limit())
      : barrier_(count, limit, "replica"),
        spins_(spins_between(count)),
        processors_(part_of_processors(own_processors(), 0, count)),
        executors_(static_cast<std::size_t>(count)),
        works_(executors_.size()) {
    if (processors_.count() == 0) processors_ = own_processors();
    // Those of a device; as many as its part of the processors has where it does not say.
    const int asked = Device::threads(), processors = available_processors();
    const int threads = asked > 0 ? asked : processors > count ? processors / count : 1;
    for (int replica = 1; replica < count; ++replica)
      queues_.push_back(std::make_unique<DeviceQueue>(QueueLimits{.tasks = 4, .spins = spins_},
                                                      [=] { keep_to_part(replica, count); }));
    run([&](int replica) {  // its workers keep to the same processors
      executors_[index(replica)] = make_executor<Device, Kernels>(threads, replica);
    });
  }

  int size() const { return static_cast<int>(executors_.size()); }
  Barrier::Limit limit() const { return barrier_.limit(); }
  Executor& executor(int replica = 0) { return *executors_[index(replica)]; }

  /// Calls task(replica) for each replica, all at the same time; returns when all have ended. What one of them throws
  /// is thrown here, and ends the others where they meet.
  ///
  /// One that has not ended by the limit behind the first one has failed. Its task works with the caller's memory,
  /// which nobody can take from it: it has the limit again to end. Past that the process ends, with the error as its
  /// last words.
  template <class Task>
  void run(Task&& task) {
    for (std::size_t r = 0; r < works_.size(); ++r)
      works_[r] = {this, &call<std::remove_reference_t<Task>>, std::addressof(task), static_cast<int>(r), nullptr};
    for (std::size_t r = 1; r < works_.size(); ++r) {
      Work* const work = &works_[r];
      queues_[r - 1]->submit([work] { work->run(); });
    }
    move_to(processors_);
    works_[0].run();
    for (int replica = 1; replica < size(); ++replica) wait_for(replica);
    report();
  }

  /// Within a task of `run`: calls task(i) for i from 0 to `tasks`, shared among that replica's workers.
  template <class Task>
  void run_each(int replica, int tasks, const Task& task) {
    for_each_task(executor(replica), tasks, task);
  }

  /// Where tasks of `run` wait for each other.
  void meet(int replica, const MessageLabel& what) {
    const auto span = open_span(executor(replica), {.name = what.what, .step = what.step, .kind = SpanKind::wait});
    barrier_.arrive_and_wait(replica, what);
  }

 private:
  template <class Task>
  static void call(const void* task, int replica) {
    (*static_cast<Task*>(const_cast<void*>(task)))(replica);
  }

  struct Work {
    Replicas* replicas = nullptr;
    void (*function)(const void*, int) = nullptr;
    const void* task = nullptr;
    int replica = 0;
    std::exception_ptr failure = nullptr;

    void run() {
      try {
        function(task, replica);
      } catch (...) {
        failure = std::current_exception();
        replicas->barrier_.abandon();
      }
    }
  };

  /// See `run`.
  void wait_for(int replica) {
    DeviceQueue& queue = *queues_[index(replica - 1)];
    const auto has_ended = [&] { return queue.waiting() == 0; };
    if (wait_until(has_ended, limit(), spins_)) return;
    barrier_.abandon();
    if (works_[0].failure == nullptr) works_[0].failure = failure_without(replica);
    if (wait_until(has_ended, limit())) return;
    try {
      std::rethrow_exception(works_[0].failure);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n%s is still at work: the process ends\n", error.what(),
                   detail::with_number("replica", replica).c_str());
    }
    std::abort();
  }
  [[gnu::cold]] std::exception_ptr failure_without(int replica) const {
    try {
      detail::fail_waiting("replica 0", "waits for " + detail::with_number("replica", replica), {"all tasks", -1, -1},
                           std::chrono::duration<double>(limit()).count());
    } catch (...) {
      return std::current_exception();
    }
  }

  /// Throws what a task has thrown: the first that did not only wait for another one in vain.
  void report() {
    std::exception_ptr found = nullptr;
    for (Work& work : works_) {
      if (work.failure == nullptr) continue;
      try {
        std::rethrow_exception(work.failure);
      } catch (const PeerFailed&) {
        if (found == nullptr) found = std::current_exception();
      } catch (...) {
        found = std::current_exception();
        break;
      }
    }
    if (found == nullptr) return;
    barrier_.reset();
    std::rethrow_exception(found);
  }

  static std::size_t index(int replica) { return static_cast<std::size_t>(replica); }

  Barrier barrier_;
  int spins_;
  ProcessorSet processors_;  // the first replica's part; where there are too few, all
  std::vector<std::unique_ptr<Executor>> executors_;
  std::vector<Work> works_;
  std::vector<std::unique_ptr<DeviceQueue>> queues_;
};

}  // namespace tenet
