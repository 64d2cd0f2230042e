#pragma once

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tenet/core/any_object.hpp>
#include <tenet/core/worker_sum.hpp>
#include <tenet/device/cuda/event.hpp>
#include <tenet/device/cuda/range.hpp>
#include <tenet/device/cuda/recording.hpp>
#include <tenet/device/cuda/runtime.hpp>
#include <utility>
#include <vector>

namespace tenet::gpu {

/// The executor of a GPU: what is given to it runs there one after the other, while the caller goes on. Errors of what
/// runs surface with `synchronize`.
class Stream {
 public:
  static constexpr bool has_own_memory = true;
  using Recording = gpu::Recording;

  /// With `tensor_float32` libraries may round the factors of products to TF32; with `measures_convolutions` cuDNN's
  /// kernels are chosen by the time that they take. Kernels that `come_first` begin before others that could begin,
  /// too.
  explicit Stream(int device, bool tensor_float32 = false, bool measures_convolutions = false, bool come_first = true)
      : device_(device), tensor_float32_(tensor_float32), measures_convolutions_(measures_convolutions) {
    const int count = device_count();
    if (device >= count)
      fail("Cuda<" + std::to_string(device) + ">", "no such device", "one of " + std::to_string(count) + " GPUs",
           std::to_string(device));
    use();
    check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device), "asking for its processors");
    int last = 0, first = 0;
    check(cudaDeviceGetStreamPriorityRange(&last, &first), "asking for its priorities");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, come_first ? first : last),
          "creating a stream");
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    cudaSetDevice(device_);
    cudaStreamSynchronize(stream_);
    lanes_.clear();
    libraries_.clear();
    cudaFree(workspace_);
    cudaFree(counters_);
    cudaStreamDestroy(stream_);
  }

  /// Makes this thread's calls go to the stream's device.
  void use() const { check(cudaSetDevice(device_), "choosing the device"); }
  cudaStream_t get() const { return stream_; }
  int device() const { return device_; }
  /// "NVIDIA H200, 139.81 GB, 132 processors"
  std::string description() const {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device_), "asking for its properties");
    return std::string(properties.name) + ", " + bytes_text(static_cast<double>(properties.totalGlobalMem)) + ", " +
           std::to_string(processors_) + " processors";
  }
  int processors() const { return processors_; }
  bool tensor_float32() const { return tensor_float32_; }
  bool measures_convolutions() const { return measures_convolutions_; }

  /// Room for what a kernel needs meanwhile: one kernel at a time, as they run one after the other. It is taken when it
  /// is asked for first, which is before anything is recorded.
  static constexpr long workspace_bytes = 64l << 20;
  void* workspace() {
    if (workspace_ == nullptr) workspace_ = allocate(workspace_bytes, "the workspace of kernels");
    return workspace_;
  }
  /// Zeros, which each kernel leaves as it found them: for teams that want to know which of them is the last.
  static constexpr long counter_count = 1024;
  unsigned* counters() {
    if (counters_ == nullptr) {
      constexpr long bytes = counter_count * static_cast<long>(sizeof(unsigned));
      counters_ = allocate(bytes, "counters of kernels");
      zero(counters_, bytes);
    }
    return static_cast<unsigned*>(counters_);
  }

  /// A workspace that no other kernel of the recording under way has, see `OwnWorkspaces`; null if nothing is recorded,
  /// or it is too large for one.
  void* own_workspace(long bytes) const { return own_workspaces_->next(bytes); }

  void* allocate(long bytes, const char* purpose) const {
    use();
    return tenet::gpu::allocate(bytes, purpose);
  }
  static void free(void* memory) { cudaFree(memory); }
  static void* allocate_host(long bytes) { return allocate_page_locked(static_cast<std::size_t>(bytes)); }
  static void free_host(void* memory) { free_page_locked(memory); }
  void zero(void* memory, long bytes) const {
    check(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), stream_), "clearing memory");
  }
  /// Of host memory into the device's. The host's may be written again behind the call, unless it is page-locked.
  void copy_in(void* to, const void* from, long bytes) const {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream_), "copying in");
  }
  /// The other way; the numbers are there behind `synchronize`.
  void copy_out(void* to, const void* from, long bytes) const {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, stream_), "copying out");
  }
  /// From a device's memory, that of another GPU, too, to the stream's.
  void copy_there(void* to, const void* from, long bytes) const {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_), "copying there");
  }
  /// A thread of CUDA's calls function(of), which may not call CUDA.
  void call_on_host(void (*function)(void*), void* of) const {
    check(cudaLaunchHostFunc(stream_, function, of), "calling the host");
  }
  /// Streams of the same device that run beside this one, which is the first: what one of them is given behind
  /// `wait(mark)` runs after what another one was given before its `mark`. This one has the chain of steps that all
  /// else waits for; gradients by weights, say, fill the gaps that it leaves.
  Stream& lane(int i) {
    if (i == 0) return *this;
    while (lanes_.size() < static_cast<std::size_t>(i)) {
      lanes_.push_back(std::make_unique<Stream>(device_, tensor_float32_, measures_convolutions_, false));
      lanes_.back()->own_workspaces_ = own_workspaces_;
    }
    return *lanes_[static_cast<std::size_t>(i - 1)];
  }
  using Mark = gpu::Mark;
  Mark mark() const {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
    Mark made(event);
    check(cudaEventRecord(event, stream_), "marking a moment");
    return made;
  }
  void wait(const Mark& mark) const { check(cudaStreamWaitEvent(stream_, mark.get(), 0), "waiting for an event"); }
  /// The host waits, until it is reached; throws what has failed of that which was given before it.
  void await(const Mark& mark) const { check(cudaEventSynchronize(mark.get()), "running what was started"); }

  /// Events by which the GPU's time is read.
  using TimedEvent = gpu::Event;

  /// What is given from here on is `name` for a profiler, until `end_range`.
  static void begin_range(const char* name) { gpu::begin_range(name); }
  static void end_range() { gpu::end_range(); }

  /// The state that a library keeps for this stream, made of it when it is asked for first.
  template <class Library>
  Library& library() {
    static char identity;  // its address names the type
    AnyObject& kept = libraries_[&identity];
    if (!kept.has_value()) {
      use();
      kept.emplace<Library>(std::as_const(*this));
    }
    return kept.as<Library>();
  }

  /// Waits for all that was given; throws what has failed of it.
  void synchronize() const {
    check(cudaStreamSynchronize(stream_), runs_one_by_one() ? "running it"
                                                            : "running what was started (with the environment variable "
                                                              "TENET_CUDA_ONE_BY_ONE=1 it says which step fails)");
  }
  /// Whether each step of a program is waited for before the next one starts: slow, to find what fails.
  bool runs_one_by_one() const { return runs_one_by_one_; }

  /// Records what `start` starts, instead of running it.
  template <class Start>
  Recording record(const Start& start) {
    own_workspaces_->begin();
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "beginning to record");
    RecordedGraph graph;
    try {
      start();
    } catch (...) {
      own_workspaces_->end();
      cudaStreamEndCapture(stream_, &graph.made);
      cudaGetLastError();
      throw;
    }
    own_workspaces_->end();
    check(cudaStreamEndCapture(stream_, &graph.made), "recording a program's steps");
    own_workspaces_->clear_at_once(graph);
    cudaGraphExec_t runnable = nullptr;
    check(cudaGraphInstantiate(&runnable, graph.made, cudaGraphInstantiateFlagUseNodePriority),
          "preparing the recorded steps");
    return Recording(runnable);
  }
  void replay(const Recording& recording) const {
    check(cudaGraphLaunch(recording.get(), stream_), "starting the recorded steps");
  }

  WorkerSum worker_sum;

 private:
  static bool asked_for(const char* variable) {
    const char* const value = std::getenv(variable);
    return value != nullptr && *value != '\0' && std::string_view(value) != "0";
  }

  int device_, processors_ = 0;
  bool tensor_float32_, measures_convolutions_, runs_one_by_one_ = asked_for("TENET_CUDA_ONE_BY_ONE");
  cudaStream_t stream_ = nullptr;
  void *workspace_ = nullptr, *counters_ = nullptr;
  std::shared_ptr<OwnWorkspaces> own_workspaces_ = std::make_shared<OwnWorkspaces>();  ///< those of its lanes, too
  std::map<const void*, AnyObject> libraries_;
  std::vector<std::unique_ptr<Stream>> lanes_;
};

}  // namespace tenet::gpu
