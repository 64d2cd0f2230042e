#pragma once

#include <concepts>
#include <span>
#include <tenet/core/buffer.hpp>
#include <type_traits>
#include <utility>

/// Devices with a memory of their own: what the host has is copied there, and back.
namespace tenet {

/// An executor whose kernels read and write memory that only it can give:
///
///     static constexpr bool has_own_memory = true;
///     void* allocate(long bytes, const char* purpose);   static void free(void*);
///     static void* allocate_host(long bytes);            static void free_host(void*);
///     void zero(void*, long bytes);   void copy_in(void* to, const void* from, long bytes);   void copy_out(…);
///     void copy_there(…);             // from its memory to its memory
///     void synchronize();
///     void call_on_host(void (*function)(void*), void* of);   // where ranks have servers: a thread calls function(of)
///
/// Copies, zeros and calls happen in the order in which they were given, together with the kernels; what was copied out
/// is there for a call behind it, and after `synchronize`. The host's memory is what the device copies to while the
/// host goes on.
///
/// It may have more: lanes (exec/lanes.hpp), `record` and `replay` of a `Recording`, `use()` before work by a thread,
/// ranges (device/range.hpp), events that time what it runs (device/timed_event.hpp).
template <class Executor>
concept HasOwnMemory = requires { requires Executor::has_own_memory; };

/// Some numbers that are copied, and where to.
struct NumbersToCopy {
  const float* from = nullptr;
  float* to = nullptr;
  long count = 0;
};
/// An executor that copies a few numbers by a kernel, between its memory and that of `allocate_host`, either way: where
/// it takes longer to start a copy than to copy so much.
template <class Executor>
concept CopiesByKernel = HasOwnMemory<Executor> && requires(Executor& executor, std::span<const NumbersToCopy> copies) {
  run_copies(executor, copies);
};

/// Data that stays in a device's memory, where the device makes batches of it: what `data.on(executor)` gives has
///
///     long words(int batch);   void describe(long epoch, std::span<const long> samples, std::uint32_t* words);
///     void make(Executor&, const std::uint32_t* words, int batch, void* inputs, void* targets);
///
/// `describe` writes the words that a batch is made of, on the host; `make` starts what makes it, with the words and
/// the result in the device's memory.
template <class Data, class Executor>
concept StaysOn =
    HasOwnMemory<Executor> && requires(const Data& data, Executor& executor) { data.on(executor).words(1); };

/// The device of numbers of which the program does not say where they lie.
struct UnnamedDevice {};

/// Numbers that lie in the memory of a device, one after the other, for a trainer or model there to read; or where one
/// has left them. Of a container there, such as a thrust::device_vector, it knows how many they are. `Device` is the
/// logical device, if it is named: what works on another one does not take them.
template <class T, class Device = UnnamedDevice>
struct OnDevice {
  const T* data = nullptr;
  long size = -1;  ///< negative: not known

  explicit OnDevice(const T* numbers, long count = -1) : data(numbers), size(count) {}
  template <class Container>
    requires requires(const Container& container) {
      { container.data().get() } -> std::convertible_to<const T*>;
    }
  explicit OnDevice(const Container& container)
      : data(container.data().get()), size(static_cast<long>(container.size())) {}
  /// The same without the device's name.
  template <class Named>
    requires(std::is_same_v<Device, UnnamedDevice> && !std::is_same_v<Named, UnnamedDevice>)
  OnDevice(const OnDevice<T, Named>& named) : data(named.data), size(named.size) {}
};
template <class Container>
OnDevice(const Container&) -> OnDevice<typename Container::value_type>;

/// What owns numbers in the memory of a logical device: `DeviceArray`.
template <class Array>
concept OwnsOnDevice = requires(const Array& array) {
  typename Array::Device;
  array.on_device();
  array.memory();
};

/// Whether `Found` is the logical device Device, or one of the `count` that begin with it.
template <class Found, class Device, int count = 1>
inline constexpr bool is_device_of = std::is_same_v<typename Found::Kernels, typename Device::Kernels> &&
                                     Found::index >= Device::index && Found::index < Device::index + count;

/// Floats in the memory of a device. `Buffer` with its executor named: that of the host, or of the device.
template <class Executor>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() {
    if (memory_ != nullptr) Executor::free(memory_);
  }

  /// At least so many floats, new ones are zero. When memory is taken, the old contents are lost.
  void grow(Executor& executor, long floats, const char* purpose) {
    if (floats <= size_) return;
    executor.synchronize();  // nothing that runs uses the old memory
    if (memory_ != nullptr) Executor::free(std::exchange(memory_, nullptr));
    size_ = 0;
    memory_ = static_cast<float*>(executor.allocate(floats * 4, purpose));
    executor.zero(memory_, floats * 4);
    size_ = floats;
  }

  float* data() { return memory_; }
  const float* data() const { return memory_; }
  long size() const { return size_; }

 private:
  float* memory_ = nullptr;
  long size_ = 0;
};
template <class Executor>
  requires(!HasOwnMemory<Executor>)
class DeviceBuffer<Executor> : public Buffer {
 public:
  void grow(Executor&, long floats, const char*) { Buffer::grow(floats); }
};

/// Floats in memory of the host that the device copies to while the host goes on.
template <class Executor>
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer() { release(); }
  /// At least so many floats. When memory is taken, the old contents are lost.
  void grow(long floats) {
    if (floats <= size_) return;
    release();
    memory_ = static_cast<float*>(Executor::allocate_host(floats * 4));
    size_ = floats;
  }
  float* data() const { return memory_; }

 private:
  void release() {
    if (memory_ != nullptr) Executor::free_host(std::exchange(memory_, nullptr));
    size_ = 0;
  }
  float* memory_ = nullptr;
  long size_ = 0;
};

}  // namespace tenet
