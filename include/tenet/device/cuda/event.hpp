#pragma once

#include <cuda_runtime_api.h>

#include <tenet/device/cuda/runtime.hpp>
#include <utility>

namespace tenet::gpu {

/// A moment in what a stream runs, that others wait for.
class Mark {
 public:
  Mark() = default;
  explicit Mark(cudaEvent_t event) : event_(event) {}
  Mark(Mark&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Mark& operator=(Mark&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Mark() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A moment in what a stream runs, whose time the GPU notes: what PyTorch calls torch.cuda.Event(enable_timing=True).
///
///     gpu::Event begin, end;
///     begin.record(trainer.executor());
///     for (int i = 0; i < 100; ++i) trainer.step(images, labels, 64);
///     end.record(trainer.executor());
///     const double seconds_of_step = begin.elapsed_seconds(end) / 100;
///
/// An event that is recorded again has the new moment. Not to be recorded while a `Stream` records what it is given.
class Event {
 public:
  /// The moment when all has run that the stream, an executor of a GPU, was given so far.
  template <class Stream>
  void record(const Stream& stream) {
    stream.use();
    if (event_.get() == nullptr) {
      cudaEvent_t made = nullptr;
      check(cudaEventCreate(&made), "creating an event");
      event_ = Mark(made);
    }
    check(cudaEventRecord(event_.get(), stream.get()), "recording an event");
  }

  /// Seconds from this event to `end`, of the same GPU; waits until both have happened. Throws `Error` if one of them
  /// was not recorded, and what has failed of that which ran before.
  double elapsed_seconds(const Event& end) const {
    if (event_.get() == nullptr || end.event_.get() == nullptr)
      fail("gpu::Event", "elapsed_seconds", "two events that were recorded",
           event_.get() == nullptr ? "that this one was not" : "that the end was not");
    check(cudaEventSynchronize(event_.get()), "waiting for an event");
    check(cudaEventSynchronize(end.event_.get()), "waiting for an event");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, event_.get(), end.event_.get()), "reading the time between two events");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  Mark event_;
};

}  // namespace tenet::gpu
