#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <tenet/core/error.hpp>
#include <tenet/core/large_memory.hpp>
#include <tenet/device/own_memory.hpp>
#include <tenet/exec/event.hpp>
#include <tenet/exec/execution.hpp>
#include <tenet/exec/shared_queue.hpp>
#include <type_traits>
#include <utility>
#include <vector>

/// Numbers in the memory of a logical device, and copies of them that the host does not wait for.
namespace tenet {

namespace detail {

/// What becomes of a copy, or of another task that is no step.
struct TaskOutcome final : Outcome {
  explicit TaskOutcome(std::string name) : name_(std::move(name)) {}
  std::string what() const override { return name_; }

 private:
  std::string name_;
};

/// What a program queues on a logical device beside steps. It stays until the process ends, as the device does: what
/// the queue has been told to wait for holds for trainers that come later, too.
template <class Device_>
class DeviceTasks final : public QueuedWork {
 public:
  using Device = Device_;
  using Executor = typename Device::Kernels::Executor;
  static constexpr bool has_own_memory = HasOwnMemory<Executor>;

  static DeviceTasks& of_process() {
    static DeviceTasks& never_destroyed = *new DeviceTasks;
    return never_destroyed;
  }

  /// "cpu 1", for messages.
  static std::string name() { return std::string(Device::Kernels::name) + " " + std::to_string(Device::index); }

  const std::shared_ptr<SharedQueue>& queue() const { return queue_; }
  /// Where copies are started; only of a device with a memory of its own.
  Executor& executor() { return *executor_; }

  /// Has the device's thread call run(), and hold another device's queue meanwhile, if one is given. What run() throws
  /// is the event's, with the task's name, and comes out of the next `synchronize(Device{})`, too.
  template <class Run>
  Event submit(std::string name, long bytes, Run run, const std::shared_ptr<SharedQueue>& other = nullptr) {
    const Held<TaskOutcome> outcome(new TaskOutcome(std::move(name)));
    const auto meeting = std::make_shared<QueueMeeting>(other == nullptr ? 0 : 1);
    std::vector<std::shared_ptr<SharedQueue>> queues{queue_};
    if (other != nullptr) queues.push_back(other);
    std::vector<unsigned> numbers;
    SharedQueue::submit(
        queues, numbers, [this, outcome, meeting, run] { this->run(*outcome, *meeting, run); },
        [meeting] { meeting->hold(); }, bytes);
    return Event(outcome);
  }

  /// Waits for all that the device has to do.
  void synchronize() override {
    queue_->wait();
    std::exception_ptr failure;
    {
      const HeldFlag held(is_taken_);
      failure = std::exchange(failure_, nullptr);
    }
    if (failure != nullptr) std::rethrow_exception(failure);
  }

 private:
  DeviceTasks()
      : QueuedWork({Device::Kernels::name, Device::index, 1}),
        queue_(SharedQueue::of(Device::Kernels::name, Device::index)) {
    if constexpr (has_own_memory) executor_ = make_executor<Device>();
  }

  template <class Run>
  void run(TaskOutcome& outcome, QueueMeeting& meeting, const Run& run) {
    const QueueMeeting::All all(meeting);
    try {
      queue_->go_on_at(processors_);
      if constexpr (requires { executor_->use(); }) executor_->use();
      run();
    } catch (...) {
      outcome.failure = failure_of(outcome.what());
      const HeldFlag held(is_taken_);
      if (failure_ == nullptr) failure_ = outcome.failure;
    }
    outcome.end();
  }
  std::shared_ptr<SharedQueue> queue_;
  std::unique_ptr<Executor> executor_;
  ProcessorSet processors_ = processors_of<Device>();
  std::atomic_flag is_taken_;
  std::exception_ptr failure_;  // the first one that nobody was told of
};

/// Some memory of a device. Arrays have it, and so has what is queued to work with it.
template <class Device>
class DeviceMemory {
  using Executor = typename Device::Kernels::Executor;

 public:
  explicit DeviceMemory(long bytes) {
    if constexpr (HasOwnMemory<Executor>) {
      memory_ = DeviceTasks<Device>::of_process().executor().allocate(bytes, "an array of the program");
    } else {
      host_ = take_floats((bytes + 3) / 4);
      memory_ = host_.get();
    }
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    if constexpr (HasOwnMemory<Executor>) Executor::free(memory_);
  }
  void* data() const { return memory_; }

 private:
  FloatMemory host_;  // where the device works in the host's
  void* memory_ = nullptr;
};

}  // namespace detail

/// Numbers in the memory of a logical device, which is a part of their type: DeviceArray<float, Cpu<1>>, or Cuda<0>. A
/// trainer or model of that device takes them where they lie; one of another device does not compile with them.
///
///     DeviceArray<float, Cpu<1>> there(images.size());
///     const Event copied = copy_async(images, there);          // the host goes on; `images` stays as it is meanwhile
///     const PendingStep step = trainer.step_async(there, labels_there, 64);
///
/// What is done with an array by `copy_async` and `step_async` is done in the order in which it was queued, by the
/// device's queue. An array may end before that.
template <class T, class Device_>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>, "DeviceArray<T, Device>: numbers that can be copied byte by byte");
  using Tasks = detail::DeviceTasks<Device_>;

 public:
  using Element = T;
  using Device = Device_;

  DeviceArray() = default;
  /// So many, which are zero: they become it in the queue. Throws `Error` if there is no room for them.
  explicit DeviceArray(long size) : size_(size) {
    if (size < 0) fail("DeviceArray", "size", "none or more", size);
    if (size == 0) return;
    memory_ = std::make_shared<detail::DeviceMemory<Device>>(bytes());
    tasks().submit("zeros", 0, [memory = memory_, count = bytes()] {
      if constexpr (Tasks::has_own_memory) {
        tasks().executor().zero(memory->data(), count);
        tasks().executor().synchronize();
      } else {
        std::memset(memory->data(), 0, static_cast<std::size_t>(count));
      }
    });
  }
  DeviceArray(DeviceArray&& other) noexcept : size_(std::exchange(other.size_, 0)), memory_(std::move(other.memory_)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    size_ = std::exchange(other.size_, 0);
    memory_ = std::move(other.memory_);
    return *this;
  }

  long size() const { return size_; }
  long bytes() const { return size_ * static_cast<long>(sizeof(T)); }
  /// Where they lie, in the device's memory; null of none. What is queued may read and write them meanwhile.
  T* data() { return memory_ == nullptr ? nullptr : static_cast<T*>(memory_->data()); }
  const T* data() const { return memory_ == nullptr ? nullptr : static_cast<const T*>(memory_->data()); }
  OnDevice<T, Device> on_device() const { return OnDevice<T, Device>(data(), size_); }
  /// What they lie in, for who works with it later.
  const std::shared_ptr<detail::DeviceMemory<Device>>& memory() const { return memory_; }

  /// Waits until all has run that is queued on the device by now; whether it has failed, `synchronize` says.
  void wait() const { tasks().queue()->wait(); }

 private:
  static Tasks& tasks() { return Tasks::of_process(); }

  long size_ = 0;
  std::shared_ptr<detail::DeviceMemory<Device>> memory_;
};

}  // namespace tenet
