#pragma once

#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/system/cpp/execution_policy.h>
#include <thrust/system/omp/execution_policy.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <tenet/core/worker_sum.hpp>
#include <tenet/device/cuda/team.hpp>
#include <vector>

/// The GPU's kernels on the processor, through Thrust: what a machine without a GPU can prove of them.
namespace tenet::gpu {

/// An executor with `Stream`'s interface. Its memory stands for a device's: what was not copied is not there.
template <class System>
class HostStream {
 public:
  static constexpr bool has_own_memory = true;
  static constexpr long workspace_bytes = 64l << 20;

  HostStream() = default;
  explicit HostStream(int) {}

  System system() const { return {}; }
  void* workspace() { return workspace_.data(); }

  static void* allocate(long bytes, const char*) { return ::operator new(static_cast<std::size_t>(bytes)); }
  static void free(void* memory) { ::operator delete(memory); }
  void zero(void* memory, long bytes) {
    give([=] { std::memset(memory, 0, static_cast<std::size_t>(bytes)); });
  }
  static void* allocate_host(long bytes) { return ::operator new(static_cast<std::size_t>(bytes)); }
  static void free_host(void* memory) { ::operator delete(memory); }
  static void copy_in(void* to, const void* from, long bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  static void copy_out(void* to, const void* from, long bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  static void synchronize() {}

  /// What was recorded runs again with the numbers that lie in memory then, but with all else as it was: as on a GPU.
  struct Recording {
    std::vector<std::function<void()>> tasks;
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
    for (const auto& task : recording.tasks) task();
  }
  template <class Task>
  void give(const Task& task) {
    if (recording_ != nullptr)
      recording_->tasks.push_back(task);
    else
      task();
  }

  WorkerSum worker_sum;

 private:
  Recording* recording_ = nullptr;
  std::vector<char> workspace_ = std::vector<char>(workspace_bytes);
};

/// One thread, and several by OpenMP.
using SerialHost = HostStream<thrust::system::cpp::detail::par_t>;
using ParallelHost = HostStream<thrust::system::omp::detail::par_t>;

template <class System, class Work>
void for_each(HostStream<System>& stream, long count, const Work& work) {
  stream.give([system = stream.system(), count, work] {
    thrust::for_each_n(system, thrust::counting_iterator<long>(0), count, work);
  });
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
