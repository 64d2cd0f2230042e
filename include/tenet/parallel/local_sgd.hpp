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

template <class Program, class Worker, int steps_alone>
class LocalSgdExecution;
namespace detail {
template <class Passes, Transport T>
class RankByItself;
template <class Program, Transport T, class Cut>
class ResidentRankByItself;
template <class Program, class Device, int count, class Inner, bool by_machine, long bucket_bytes, class Cut,
          Transport T>
class ResidentReplicasByThemselves;
}  // namespace detail
// On a device with a memory of its own: parallel/resident_ranks.hpp, a part of tenet/cuda.hpp.
template <class Program, class Worker, int steps_alone>
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
  using StepOfRank = LocalSgdExecution<Program, detail::RankByItself<Passes, T>, Steps>;
  template <class Program, long, class T, class Cut>
  using ResidentStepOfRank = ResidentLocalSgdStep<Program, detail::ResidentRankByItself<Program, T, Cut>, Steps>;
  template <class Program, class Device, int count, long bucket_bytes, class T, class Cut>
  using ResidentStepOfReplicas = ResidentLocalSgdStep<
      Program, detail::ResidentReplicasByThemselves<Program, Device, count, AllReduce, false, bucket_bytes, Cut, T>,
      Steps>;
};

/// A training step of a rank under `LocalSgd`, whose `Worker` trains between two meetings: the rank by itself, or with
/// others, which have the same parameters then. The same interface as `Execution`; all ranks make one together and take
/// the same number of steps. They begin with what rank 0 has. Losses are those of a worker's own samples; so are
/// running statistics, until ranks meet: then they are those of rank 0.
///
///     void run_alone(int batch), complete()    a step, and whatever of it is still to come
///     T& transport()                           between all ranks; nothing is under way behind `complete`
///     bool is_only()                           whether there is no other worker, and no mean to be taken
template <class Program, class Worker, int steps_alone>
class LocalSgdExecution : public Worker {
 public:
  using Worker::Worker;

  void run(int batch) {
    if (step_ == 0) share("parameters", Arena::parameters, Program::slots.parameter_floats);
    ++step_;
    this->run_alone(batch);
    if (step_ % steps_alone == 0) synchronize();
  }

  /// The parameters become the mean of all ranks'.
  void synchronize() {
    this->complete();
    if (this->is_only()) return;
    auto& transport = this->transport();
    all_reduce(transport, this->memory(Arena::parameters), Program::slots.parameter_floats, {"parameters", -1, step_},
               1.0f / static_cast<float>(transport.size()));
    if constexpr (Program::writes_buffers) share("running statistics", Arena::buffers, Program::slots.buffer_floats);
  }

 private:
  /// What rank 0 has, for all.
  void share(const char* what, Arena arena, long floats) {
    if (floats > 0) broadcast(this->transport(), 0, this->memory(arena), floats, {what, -1, step_});
  }

  long step_ = 0;
};

namespace detail {

template <class Passes, Transport T>
class RankByItself : public OwnTransport<T>, public Passes::Alone {
 public:
  RankByItself(typename Passes::Devices& devices, T all)
      : OwnTransport<T>(std::move(all)), Passes::Alone(devices, this->transport().rank(), this->transport().size()) {
    static_assert(Passes::updates, "a training step");
    static_assert(Passes::Cut::in_all == 0, "what ranks do alone depends on their number");
  }

  using OwnTransport<T>::transport;
  void complete() {}
  bool is_only() { return transport().size() == 1; }
};

}  // namespace detail

}  // namespace tenet
