#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tenet/core/error.hpp"
#include "tenet/device/reference.hpp"

/// The reference device with a memory of its own, as a GPU has one: what was not copied there is not there, and what
/// was not copied back is not here. It counts what it is asked for.
namespace far {

struct Executor;

/// A moment of a clock that tests set: time_of_event(i) is that of the event that was recorded as number i.
struct Event {
  void record(const Executor&) { at = time_of_event(recorded++); }
  double elapsed_seconds(const Event& end) const { return end.at - at; }

  inline static std::function<double(long)> time_of_event = [](long i) { return static_cast<double>(i); };
  inline static std::atomic<long> recorded{0};
  double at = 0;
};

struct Executor : tenet::reference::Serial {
  static constexpr bool has_own_memory = true;
  using Recording = std::function<void()>;
  using TimedEvent = far::Event;

  explicit Executor(int number) : device_(number) {}
  int device() const { return device_; }
  /// What it is given has run when the call returns.
  template <class Task>
  void give(const Task& task) {
    task();
  }

  static void* allocate(long bytes, const char*) {
    ++allocations;
    allocated += bytes;
    return std::malloc(static_cast<std::size_t>(bytes));
  }
  static void free(void* memory) { std::free(memory); }
  static void* allocate_host(long bytes) { return std::malloc(static_cast<std::size_t>(bytes)); }
  static void free_host(void* memory) { std::free(memory); }
  static void zero(void* memory, long bytes) { std::memset(memory, 0, static_cast<std::size_t>(bytes)); }
  void copy_in(void* to, const void* from, long bytes) {
    if (device_ == copies_fail_on)
      tenet::fail("far", "copying in", "success", "device " + std::to_string(device_) + " is gone");
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    bytes_in += bytes;
    calls += !is_replaying_;
  }
  void copy_out(void* to, const void* from, long bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    bytes_out += bytes;
    calls += !is_replaying_;
  }
  void copy_there(void* to, const void* from, long bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    bytes_there += bytes;
    calls += !is_replaying_;
  }
  static void call_on_host(void (*function)(void*), void* of) { function(of); }
  void synchronize() {
    ++waits;
    if (waits == fails_at) tenet::fail("far", "running it", "success", "an illegal address");
  }
  bool runs_one_by_one() const { return one_by_one; }

  template <class Start>
  Recording record(const Start& start) {
    ++recorded;
    return start;  // to be run by each replay, and not before
  }
  void replay(const Recording& recording) {
    ++replayed;
    ++calls;
    is_replaying_ = true;
    recording();
    is_replaying_ = false;
  }

  void begin_range(const char* name) { ranges.push_back(std::string(depth++, ' ') + name); }
  void end_range() { --depth; }

  inline static int copies_fail_on = -1;           ///< number of a device
  inline static std::atomic<long> allocations{0};  ///< of all devices
  inline static std::atomic<long> allocated{0};    ///< bytes
  std::vector<std::string> ranges;  ///< in the order of their beginnings, with a space for each that they lie in
  std::size_t depth = 0;
  bool one_by_one = false;
  long fails_at = -1;  ///< which wait throws
  long bytes_in = 0, bytes_out = 0, bytes_there = 0, waits = 0, recorded = 0, replayed = 0;
  long calls = 0;  ///< copies and replays that the host has started by themselves

 private:
  int device_;
  bool is_replaying_ = false;
};

template <class Work>
void for_each(Executor&, long count, const Work& work) {
  for (long i = 0; i < count; ++i) work(i);
}

/// The threads of a team one after the other: what `for_each_row` starts here must not bring their numbers together.
struct Member {
  static constexpr int size = 3;
  int number;
  int rank() const { return number; }
};
template <class Work>
void for_each_row(Executor&, long rows, long, const Work& work) {
  for (long row = 0; row < rows; ++row)
    for (int rank = Member::size; rank-- > 0;) work(Member{rank}, row);
}

struct Kernels : tenet::ReferenceKernels {
  using Executor = far::Executor;
  using Kernel = void (*)(Executor&, const Arguments&);
};

struct Device {
  using Kernels = far::Kernels;
  static constexpr int index = 0;
  static constexpr int threads() { return 1; }
};

}  // namespace far
