#pragma once

#include <atomic>
#include <memory>
#include <tenet/core/processors.hpp>
#include <tenet/exec/device_queue.hpp>
#include <tenet/exec/queued_work.hpp>
#include <vector>

/// One queue for each logical device of a process, and what several of them do together.
namespace tenet {

/// The queue of one logical device, which all that runs there shares: trainers' steps, copies. Any thread may submit.
/// Tasks must not throw, as nobody knows whose failure it would be: each says it to its own.
template <class Task = Function<void()>>
class SharedQueueOf {
 public:
  /// That of a device, which lives while somebody has it.
  static std::shared_ptr<SharedQueueOf> of(const char* kind, int device) {
    All& all = SharedQueueOf::all();
    const detail::HeldFlag held(all.is_taken);
    std::erase_if(all.queues, [](const Named& named) { return named.queue.expired(); });
    for (const Named& named : all.queues)
      if (named.device.has(kind, device))
        if (auto found = named.queue.lock()) return found;
    auto made = std::make_shared<SharedQueueOf>();
    all.queues.push_back({{kind, device}, made});
    return made;
  }

  SharedQueueOf() = default;
  SharedQueueOf(const SharedQueueOf&) = delete;
  SharedQueueOf& operator=(const SharedQueueOf&) = delete;

  /// Has the first of some queues run a task, and the others run `hold` in that place of their order. Returns the
  /// numbers of what they run; waits while one of them is full.
  ///
  /// One flag of the process is held meanwhile. So there is one order of all tasks, and each queue's is a part of it:
  /// a task waits for such before it only, and two that share two devices cannot wait for each other.
  static void submit(const std::vector<std::shared_ptr<SharedQueueOf>>& queues, std::vector<unsigned>& numbers,
                     Task task, const Task& hold, long bytes = 0) {
    const auto bytes_on = [&](std::size_t i) { return i == 0 ? bytes : 0; };
    for (;;) {
      for (std::size_t i = 0; i < queues.size(); ++i) queues[i]->queue_.wait_for_room(bytes_on(i));
      const detail::HeldFlag held(all().submits);
      bool has_room = true;
      for (std::size_t i = 0; i < queues.size(); ++i) has_room &= queues[i]->queue_.has_room(bytes_on(i));
      if (!has_room) continue;  // another thread has been faster
      numbers.resize(queues.size());
      for (std::size_t i = 0; i < queues.size(); ++i) {
        queues[i]->queue_.submit(i == 0 ? std::move(task) : hold, bytes_on(i));
        numbers[i] = queues[i]->queue_.submitted();
      }
      return;
    }
  }
  /// Waits until a task has run, by its number; and those before it. Without a number: all so far.
  void wait_for(unsigned task) const { queue_.wait_for(task); }
  void wait() const { queue_.wait_for(queue_.submitted()); }

  /// Within a task: the queue's thread goes on on these processors; none: on those of before any such call.
  void go_on_at(const ProcessorSet& processors) {
    const ProcessorSet& wanted = processors.count() > 0 ? processors : unbound_;
    if (wanted == bound_) return;  // none at first
    if (unbound_.count() == 0) unbound_ = own_processors();
    if (keep_to(wanted)) bound_ = wanted;
  }

 private:
  struct Named {
    DeviceRange device;
    std::weak_ptr<SharedQueueOf> queue;
  };
  struct All {
    std::atomic_flag is_taken, submits;
    std::vector<Named> queues;
  };
  static All& all() {
    static All& never_destroyed = *new All;  // trainers may live longer than anything else
    return never_destroyed;
  }

  ProcessorSet unbound_, bound_;  // of the queue's thread, if it was ever bound
  QueueOf<Task> queue_;           // last: its thread ends before what it uses
};
using SharedQueue = SharedQueueOf<>;

/// Where queues meet whose devices run tasks together, one task at a time: the first one's thread runs it, the others'
/// are held. A thread waits here for tasks that were submitted before, as `synchronize` does, and no longer than they
/// take: those have limits of their own where they wait for somebody.
class QueueMeeting {
 public:
  explicit QueueMeeting(int others) : others_(static_cast<unsigned>(others)) {}

  /// On another one's thread, for each task: until that has ended.
  void hold() {
    const unsigned before = ended_.load(std::memory_order_relaxed);
    held_.fetch_add(1, std::memory_order_acq_rel);
    held_.notify_one();
    wait_while(ended_, before);
  }

  /// On the first one's thread: while there is one, all others are held.
  class All {
   public:
    explicit All(QueueMeeting& meeting) : meeting_(meeting) {
      const unsigned wanted = meeting_.others_ * (meeting_.ended_.load(std::memory_order_relaxed) + 1);
      for (unsigned held = meeting_.held_.load(std::memory_order_acquire); held != wanted;
           held = meeting_.held_.load(std::memory_order_acquire))
        wait_while(meeting_.held_, held);
    }
    All(const All&) = delete;
    All& operator=(const All&) = delete;
    ~All() {
      meeting_.ended_.fetch_add(1, std::memory_order_acq_rel);
      meeting_.ended_.notify_all();
    }

   private:
    QueueMeeting& meeting_;
  };

 private:
  static void wait_while(const std::atomic<unsigned>& number, unsigned value) {
    for (int spin = 0; spin < usual_spins && number.load(std::memory_order_relaxed) == value; ++spin) pause();
    number.wait(value, std::memory_order_acquire);
  }

  unsigned others_;
  std::atomic<unsigned> held_{0}, ended_{0};  // ever
};

/// The queues of some logical devices for somebody who runs tasks on all of them, one at a time. One thread at a time
/// submits; whoever ends waits for his own tasks.
template <class Task = Function<void()>>
class OwnTasksOf {
 public:
  /// `alone`: in a queue of its own, beside that of the device.
  explicit OwnTasksOf(const DeviceRange& devices, bool alone = false) : meeting_(devices.count - 1) {
    for (int i = 0; i < devices.count; ++i)
      queues_.push_back(alone ? std::make_shared<SharedQueueOf<Task>>()
                              : SharedQueueOf<Task>::of(devices.kind, devices.first + i));
  }
  OwnTasksOf(const OwnTasksOf&) = delete;
  OwnTasksOf& operator=(const OwnTasksOf&) = delete;
  ~OwnTasksOf() { wait(); }

  /// Waits while a queue is full. The task runs on the first device's thread; while it has a `QueueMeeting::All` of
  /// `meeting()` nothing else runs on any of the devices.
  void submit(Task task, long bytes = 0) {
    SharedQueueOf<Task>::submit(
        queues_, last_, std::move(task), [meeting = &meeting_] { meeting->hold(); }, bytes);
  }
  /// Until all of them have run.
  void wait() const {
    for (std::size_t i = 0; i < last_.size(); ++i) queues_[i]->wait_for(last_[i]);
  }

  QueueMeeting& meeting() { return meeting_; }
  /// The first device's.
  SharedQueueOf<Task>& queue() { return *queues_[0]; }

 private:
  QueueMeeting meeting_;
  std::vector<std::shared_ptr<SharedQueueOf<Task>>> queues_;
  std::vector<unsigned> last_;  // the numbers of the last task, by queue; none before the first
};
using OwnTasks = OwnTasksOf<>;

}  // namespace tenet
