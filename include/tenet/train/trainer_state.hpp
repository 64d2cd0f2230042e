#pragma once

#include <cstdint>
#include <memory>
#include <tenet/core/any_object.hpp>
#include <tenet/core/buffer.hpp>
#include <tenet/exec/execution.hpp>
#include <tenet/exec/queued_work.hpp>
#include <tenet/train/step_queue.hpp>
#include <tenet/train/weights.hpp>

namespace tenet {

/// What a trainer with these policies works with, besides the optimizer's settings.
template <class Chosen, class Net, class Optimizer>
struct TrainerState {
  [[gnu::noinline]] explicit TrainerState(std::uint64_t seed_of_weights) : seed(seed_of_weights), weights(seed) {
    if constexpr (Chosen::records) timeline.add_rows_of(devices, Chosen::Strategy::replicas > 1 ? "replica" : "device");
  }

  std::uint64_t seed;
  float factor = 1.0f;
  [[no_unique_address]] typename Chosen::Timeline::Recording timeline;
  typename Chosen::Devices devices;
  Weights<Net> weights;
  Buffer gradients;  // where the training has no place for them
  Buffer states{Chosen::has_states && !Chosen::has_own_memory
                    ? Optimizer::state_count * Weights<Net>::table.parameter_floats
                    : 0};
  AnyObject training, evaluating, predicting;  // Execution<…>, compiled where it is run
  QueueLimits queue_limits{.tasks = 16};
  std::unique_ptr<QueuedWork> queued;  // last: its steps run before the rest ends
};

/// Queued steps work with the state on another thread, so it stays where it is when the trainer is moved.
template <class State>
class KeptState {
 public:
  explicit KeptState(std::uint64_t seed) : kept_(std::make_unique<State>(seed)) {}
  KeptState(KeptState&&) = default;
  KeptState& operator=(KeptState&&) = default;
  [[gnu::noinline]] ~KeptState() {}  // inlined, it lets g++ 12 warn where a trainer is a member of an aggregate
  State& operator*() const { return *kept_; }
  State* operator->() const { return kept_.get(); }

 private:
  std::unique_ptr<State> kept_;
};

namespace detail {

/// Where the steps of a trainer with such policies, and so many devices, are queued.
template <class Chosen>
PlaceOfSteps place_of_steps(int devices) {
  using Device = typename Chosen::Device;
  // Several devices share out all processors, and ranks have those that they are started on.
  const bool has_own_processors = devices == 1 && !Chosen::has_ranks;
  return {{Device::Kernels::name, Device::index, devices},
          has_own_processors ? processors_of<Device>() : ProcessorSet{},
          Chosen::ranks_are_threads};
}

}  // namespace detail
}  // namespace tenet
