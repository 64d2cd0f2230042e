#pragma once

#include <sys/mman.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/system/cpp/execution_policy.h>
#include <thrust/system/omp/execution_policy.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <tenet/core/function.hpp>
#include <tenet/core/worker_sum.hpp>
#include <tenet/device/cuda/range.hpp>
#include <tenet/device/cuda/team.hpp>
#include <tenet/device/timed_event.hpp>
#include <vector>

/// The GPU's kernels on the processor, through Thrust: what a machine without a GPU can prove of them.
namespace tenet::gpu {

/// Memory that stands for a device's: whoever touches it outside of `Open` ends the program, as on a GPU.
class FarMemory {
 public:
  static void* allocate(long bytes) {
    const std::size_t size = (static_cast<std::size_t>(bytes) + 4095) / 4096 * 4096;
    void* const memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    const std::lock_guard lock(all().mutex);
    all().sizes[memory] = size;
    if (all().open > 0) mprotect(memory, size, PROT_READ | PROT_WRITE);
    return memory;
  }
  static void free(void* memory) {
    const std::lock_guard lock(all().mutex);
    munmap(memory, all().sizes[memory]);
    all().sizes.erase(memory);
  }

  /// While there is one, all of it may be touched.
  struct Open {
    Open() { change(1); }
    ~Open() { change(-1); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
  };

 private:
  struct All {
    std::mutex mutex;
    std::map<void*, std::size_t> sizes;
    int open = 0;
  };
  static All& all() {
    static All one;
    return one;
  }
  static void change(int by) {
    const std::lock_guard lock(all().mutex);
    const bool was_open = all().open > 0;
    all().open += by;
    const bool is_open = all().open > 0;
    if (was_open == is_open) return;
    for (const auto& [memory, size] : all().sizes) mprotect(memory, size, is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
};

/// An executor with `Stream`'s interface, whose memory is not the caller's: what was not copied is not there.
template <class System>
class HostStream {
 public:
  static constexpr bool has_own_memory = true;
  static constexpr long workspace_bytes = 64l << 20;
  static constexpr long counter_count = 1024;

  HostStream() = default;
  explicit HostStream(int) {}

  System system() const { return {}; }
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;
  ~HostStream() {
    free(workspace_);
    free(counters_);
  }
  void* workspace() { return workspace_; }
  unsigned* counters() { return static_cast<unsigned*>(counters_); }

  static void* allocate(long bytes, const char*) { return FarMemory::allocate(bytes); }
  static void free(void* memory) { FarMemory::free(memory); }
  void zero(void* memory, long bytes) {
    give([=] { std::memset(memory, 0, static_cast<std::size_t>(bytes)); });
  }
  static void* allocate_host(long bytes) { return ::operator new(static_cast<std::size_t>(bytes)); }
  static void free_host(void* memory) { ::operator delete(memory); }
  void copy_in(void* to, const void* from, long bytes) {
    give([=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
  }
  void copy_out(void* to, const void* from, long bytes) { copy_in(to, from, bytes); }
  void copy_there(void* to, const void* from, long bytes) { copy_in(to, from, bytes); }
  void call_on_host(void (*function)(void*), void* of) {
    give([=] { function(of); });
  }
  static void synchronize() {}

  /// What it is given has run when the call returns.
  using TimedEvent = HostEvent;
  static void begin_range(const char* name) { gpu::begin_range(name); }
  static void end_range() { gpu::end_range(); }

  /// What was recorded runs again with the numbers that lie in memory then, but with all else as it was: as on a GPU.
  struct Recording {
    std::vector<Function<void()>> tasks;
    explicit operator bool() const { return !tasks.empty(); }
  };
  template <class Start>
  Recording record(const Start& start) {
    Recording made;
    recording_ = &made;
    start();
    recording_ = nullptr;
    return made;
  }
  static void replay(const Recording& recording) {
    const FarMemory::Open open;
    for (const auto& task : recording.tasks) task();
  }
  template <class Task>
  void give(const Task& task) {
    if (recording_ != nullptr) return recording_->tasks.push_back(task);
    const FarMemory::Open open;
    task();
  }

  WorkerSum worker_sum;

 private:
  Recording* recording_ = nullptr;
  void* workspace_ = FarMemory::allocate(workspace_bytes);
  void* counters_ = FarMemory::allocate(counter_count * static_cast<long>(sizeof(unsigned)));  // zeros
};

/// One thread, and several by OpenMP.
using SerialHost = HostStream<thrust::system::cpp::detail::par_t>;
using ParallelHost = HostStream<thrust::system::omp::detail::par_t>;

namespace detail {
/// Some calls of a function object whose type it does not name, so that Thrust's loops are compiled once for all
/// kernels.
struct BlockOfCalls {
  static constexpr long size = 256;

  void (*run)(const void* work, long first, long last);
  const void* work;
  long count;

  TENET_HOST_DEVICE void operator()(long block) const {
    const long first = block * size, rest = count - first;
    run(work, first, first + (rest < size ? rest : size));
  }
};

template <class System>
void for_each_block(System system, const BlockOfCalls& calls) {
  const long blocks = (calls.count + BlockOfCalls::size - 1) / BlockOfCalls::size;
  thrust::for_each_n(system, thrust::counting_iterator<long>(0), blocks, calls);
}
}  // namespace detail

template <class System, class Work>
void for_each(HostStream<System>& stream, long count, const Work& work) {
  const auto run = [](const void* of, long first, long last) {
    for (long i = first; i < last; ++i) (*static_cast<const Work*>(of))(i);
  };
  stream.give([system = stream.system(), count, work, run] { detail::for_each_block(system, {run, &work, count}); });
}

namespace detail {
template <class Work>
struct RowAlone {
  Work work;
  TENET_HOST_DEVICE void operator()(long row) const { work(Alone{}, row); }
};
}  // namespace detail

template <class System, class Work>
void for_each_row(HostStream<System>& stream, long rows, long, const Work& work) {
  for_each(stream, rows, detail::RowAlone<Work>{work});
}

}  // namespace tenet::gpu
