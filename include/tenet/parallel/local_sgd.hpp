#pragma once

// clang-format off: compilers name the way to this header in every message about a mistake; this is the shortest
#include <tenet/ops/mistake.hpp>
// clang-format on

#include <tenet/comm/collectives.hpp>
#include <tenet/parallel/rank_passes.hpp>
#include <tenet/parallel/synchronisation.hpp>

/// Ranks that train by themselves and average their parameters now and then: the synchronisation `LocalSgd`. Not part
/// of tenet/tenet.hpp.
namespace tenet {

template <class Program, class Passes, int steps_alone, Transport T>
class LocalSgdExecution;
// On a device with a memory of its own: parallel/resident_ranks.hpp, a part of tenet/cuda.hpp.
template <class Program, int steps_alone, Transport T, class Cut>
class ResidentLocalSgdStep;

/// Each rank takes so many steps with its own samples, its own parameters and its own optimizer state; then the
/// parameters of all ranks become their mean. (Stich, Local SGD converges fast and communicates little, ICLR 2019.)
template <int Steps>
struct LocalSgd {
  static_assert(Steps >= 1, "LocalSgd<steps>: at least one step before ranks meet");
  static constexpr const char* name = "local SGD";
  static constexpr bool sends_buckets = false;
  static constexpr int steps_alone = Steps;
  static constexpr Traffic traffic{.parameters = &detail::all_reduce_moves, .steps = Steps, .most_ahead = Steps - 1};
  template <class Program, class Passes, long, class T>
  using StepOfRank = LocalSgdExecution<Program, Passes, Steps, T>;
  template <class Program, long, class T, class Cut>
  using ResidentStepOfRank = ResidentLocalSgdStep<Program, Steps, T, Cut>;
};

/// A training step of a rank under `LocalSgd`. The same interface as `Execution`; all ranks make one together and take
/// the same number of steps. They begin with what rank 0 has. Losses are those of a rank's own samples; so are running
/// statistics, until ranks meet: then they are those of rank 0.
template <class Program, class Passes, int steps_alone, Transport T>
class LocalSgdExecution : public Passes::Alone {
 public:
  LocalSgdExecution(typename Passes::Devices& devices, T transport)
      : Passes::Alone(devices, transport.rank(), transport.size()), transport_(std::move(transport)) {
    static_assert(Passes::updates, "a training step");
    static_assert(Passes::Cut::in_all == 0, "what ranks do alone depends on their number");
  }

  void run(int batch) {
    if (step_ == 0) share("parameters", Arena::parameters, Program::slots.parameter_floats);
    ++step_;
    this->run_alone(batch);
    if (step_ % steps_alone == 0) synchronize();
  }

  /// The parameters become the mean of all ranks'.
  void synchronize() {
    all_reduce(transport_, this->memory(Arena::parameters), Program::slots.parameter_floats, {"parameters", -1, step_},
               1.0f / static_cast<float>(transport_.size()));
    if constexpr (Program::writes_buffers) share("running statistics", Arena::buffers, Program::slots.buffer_floats);
  }

 private:
  /// What rank 0 has, for all.
  void share(const char* what, Arena arena, long floats) {
    if (floats > 0) broadcast(transport_, 0, this->memory(arena), floats, {what, -1, step_});
  }

  T transport_;
  long step_ = 0;
};

}  // namespace tenet
