#pragma once

// First, so that a message about a mistake begins with few lines of includes.
#include <tenet/comm/common_memory.hpp>
#include <tenet/comm/recorded_transport.hpp>
#include <tenet/ops/mistake.hpp>
#include <tenet/parallel/gradient_exchange.hpp>
#include <tenet/parallel/sharded_pass.hpp>
#include <tenet/parallel/single.hpp>

namespace tenet {

/// A training step of one rank among several that know of each other by a `Transport` only. Each has its own samples,
/// of any number, and its own parameters, which stay the same on all ranks to the bit: they begin with what rank 0 has,
/// and are updated by the same mean gradient. Results are means over the samples of all ranks; running statistics are
/// those of rank 0.
///
/// A rank may cut its samples into shards. Where that is to give the same bits for any number of ranks, what rank r has
/// is shards r · s to (r + 1) · s of all; so it is for one process if the ranks have equal parts of its batch, in
/// order.
///
/// The same interface as `Execution`. All ranks make one and run it together.
template <class Program, class Synchronisation, long bucket_bytes, Transport T, class Cut = WholeBatch>
class DistributedExecution : public ShardedPass<Program, Cut> {
 public:
  using Pass = ShardedPass<Program, Cut>;
  using Exchange = GradientExchange<Program, Synchronisation, bucket_bytes, T>;

  DistributedExecution(typename Pass::Executor& executor, T transport)
      : Pass(executor, detail::shards_of_rank<Cut>(transport.rank(), transport.size())),
        exchange_(std::move(transport)) {
    static_assert(Pass::updates, "a training step");
    if constexpr (Program::is_on_part) executor.worker_sum = {&add_up_in_pass, &exchange_};
  }

  void run(int batch) {
    send_gradients(batch);
    if constexpr (updates_by_elements<Program>()) {
      this->execution().prepare_update();
      float* const states = Program::state_count > 0 ? this->memory(Arena::states) : nullptr;
      for (int b = 0; b < Exchange::plan.count; ++b) {
        exchange_.await(b);
        const Bucket& bucket = Exchange::plan.buckets[static_cast<std::size_t>(b)];
        update({bucket.first, bucket.floats}, states != nullptr ? states + bucket.first : nullptr,
               Program::slots.parameter_floats);
      }
    } else {
      exchange_.complete();
      Pass::update();
    }
    exchange_.end(*this);
  }

 protected:
  /// Forward and backward pass, behind which the gradients become those of all ranks, bucket by bucket.
  void send_gradients(int batch) {
    const float all = exchange_.template begin<Cut>(*this, batch, !Pass::is_cut);
    Pass::run(
        batch, all,
        [&](auto* execution, auto prepare) {
          float* const gradients = this->memory(Arena::gradients);
          if constexpr (Pass::is_cut)  // its results are sums, too
            exchange_.run(execution, gradients, prepare);
          else
            exchange_.run(execution, gradients, prepare,
                          [&] { return batch > 0 ? Pass::numbers_of(*execution) : std::array<float, 4>{}; });
        },
        [](const auto&, const Shard&) {});
  }

  /// The optimizer's update of a part of the parameters, shared among the device's workers. What belongs to them of the
  /// first state is at `states`, of the others each time `state_step` floats further.
  void update(FloatRange part, float* states, long state_step) {
    float* const gradients = this->memory(Arena::gradients) + part.first;
    this->execution().update_by_blocks(
        this->memory(Arena::parameters) + part.first, [=](long first, long, float*) { return gradients + first; },
        states, part.count, state_step);
  }

  Exchange exchange_;

 private:
  static void add_up_in_pass(void* exchange, float* numbers, long floats) {
    static_cast<Exchange*>(exchange)->add_up_in_pass(numbers, floats);
  }
};

// On a device with a memory of its own: parallel/resident_ranks.hpp, a part of tenet/cuda.hpp.
template <class Program, class Synchronisation, long bucket_bytes, Transport T, class Cut>
class ResidentRankStep;

namespace detail {

template <class Program, class Policies, class T, class Synchronisation = typename Policies::Synchronisation>
struct StepOfRank {
  using type =
      DistributedExecution<Program, Synchronisation, Policies::Buckets::bucket_bytes, T, typename Policies::Shards>;
};
template <class Program, class Policies, class T, class Synchronisation>
  requires(Policies::Strategy::has_replicas && !HasStepOfRank<Synchronisation>)
struct StepOfRank<Program, Policies, T, Synchronisation> {
  using type = typename Policies::Strategy::Inside::template StepOfRank<Program, Policies, T>;
};
template <class Program, class Policies, class T, class Synchronisation>
  requires HasStepOfRank<Synchronisation>
struct StepOfRank<Program, Policies, T, Synchronisation> {
  using type =
      typename Synchronisation::template StepOfRank<Program, typename Policies::Device, Policies::Buckets::bucket_bytes,
                                                    T, typename Policies::Shards>;
};

/// This rank's transport. Where the devices' work is recorded, so are its messages.
template <class World, class Devices>
auto connect(Devices& devices) {
  if constexpr (HasTimelineRow<std::remove_reference_t<decltype(devices.executor())>>) {
    auto transport = World::connect();
    TimelineRow& device = *devices.executor().timeline_row;
    device.recorder().describe_rank(transport.rank(), transport.size());
    return RecordedTransport(std::move(transport), device, "communication");
  } else {
    return World::connect();
  }
}
template <class World, class Devices>
using Connection = decltype(connect<World>(std::declval<Devices&>()));

/// A training step that needs the transport as well as the devices. Gradients lie where they are sent from, and others
/// may read them there: until a collective's `finish`, or a server's answer. A step ends behind these, or, where
/// parameters come later, behind the results of all ranks: so the next backward pass finds nobody who still reads.
template <class Program, class Policies>
class DistributedStep
    : OwnNumbers,
      public StepOfRank<Program, Policies,
                        Connection<typename Policies::Strategy::World, typename Policies::Devices>>::type {
 public:
  using Devices = typename Policies::Devices;
  using World = typename Policies::Strategy::World;
  using Base = typename StepOfRank<Program, Policies, Connection<World, Devices>>::type;

  explicit DistributedStep(Devices& devices) : DistributedStep(devices, connect<World>(devices)) {}

  /// Memory for the gradients: `bind` is to be told of it.
  float* own_gradients() const { return OwnNumbers::data(); }

 private:
  DistributedStep(Devices& devices, Connection<World, Devices> transport)
      : OwnNumbers(transport, Program::slots.parameter_floats, Policies::Synchronisation::sends_buckets),
        Base(devices, std::move(transport)) {}
};

template <class Program>
concept TrainingStep = Program::lowered.after_update > Program::lowered.first_update;

template <class Program, class Policies>
struct ExecutionOfRank {
  using type = typename Policies::Strategy::Inside::template ExecutionOfRank<Program, Policies>;
};
template <TrainingStep Program, class Policies>
struct ExecutionOfRank<Program, Policies> {
  using type = DistributedStep<Program, Policies>;
};

/// The same on devices with memories of their own; the synchronisation's own, where it has one.
template <class Synchronisation, class Program, class Policies, class T>
using ResidentStepBy = typename Synchronisation::template ResidentStepOfRank<Program, Policies::Buckets::bucket_bytes,
                                                                             T, typename Policies::Shards>;
template <class Program, class Policies, class T>
struct ResidentStep {
  using type = ResidentRankStep<Program, typename Policies::Synchronisation, Policies::Buckets::bucket_bytes, T,
                                typename Policies::Shards>;
};
template <class Program, class Policies, class T>
  requires(Policies::Strategy::has_replicas)
struct ResidentStep<Program, Policies, T> {
  using type = typename Policies::Strategy::Inside::template ResidentStepOfRank<Program, Policies, T>;
};
template <class Program, class Policies, class T>
  requires requires { typename ResidentStepBy<typename Policies::Synchronisation, Program, Policies, T>; }
struct ResidentStep<Program, Policies, T> {
  using type = ResidentStepBy<typename Policies::Synchronisation, Program, Policies, T>;
};
template <class Program, class Policies>
class ResidentStepOfRank
    : public ResidentStep<Program, Policies,
                          Connection<typename Policies::Strategy::World, typename Policies::Devices>>::type {
 public:
  using World = typename Policies::Strategy::World;
  using Base = typename ResidentStep<Program, Policies, Connection<World, typename Policies::Devices>>::type;

  explicit ResidentStepOfRank(typename Policies::Devices& devices) : Base(devices, connect<World>(devices)) {}
};
template <TrainingStep Program, class Policies>
  requires HasOwnMemory<typename Program::Kernels::Executor>
struct ExecutionOfRank<Program, Policies> {
  using type = ResidentStepOfRank<Program, Policies>;
};

}  // namespace detail

/// On ranks that are processes, on one machine or many. Each is given its own samples (`DistributedSampler`) and has
/// its own copy of the parameters; a step's gradient is the mean over the samples of all ranks. `World` says how they
/// reach each other: `World::connect()` makes a `Transport` of its own for each training. Every rank makes the same
/// trainers in the same order and takes the same number of steps; inference and evaluation are each rank's own.
///
/// `Inside` says what a rank is: one device, or the replicas of a `DataParallel`, which share the rank's parameters and
/// its samples.
template <class World_, class Inside_ = Single>
struct Distributed {
  using Inside = Inside_;
  static constexpr int replicas = Inside::replicas;
  static constexpr bool has_replicas = !std::is_same_v<Inside, Single>;
  static constexpr bool is_known_inside = !has_replicas || requires { requires Inside::replicates; };
  using World = World_;
  using Synchronisation = AllReduce;
  template <class Device, class Kernels>
  using Devices = typename Inside::template Devices<Device, Kernels>;
  template <class Definition>
  using DefinitionOf = Definition;
  template <class Program, class Policies>
  using ExecutionOf = typename detail::ExecutionOfRank<Program, Policies>::type;
};

}  // namespace tenet
