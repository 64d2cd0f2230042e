#pragma once

#include <tenet/comm/common_memory.hpp>
#include <tenet/comm/recorded_transport.hpp>
#include <tenet/exec/sparse_execution.hpp>
#include <tenet/parallel/distributed_execution.hpp>
#include <tenet/parallel/hierarchical_execution.hpp>
#include <tenet/parallel/inter_op_execution.hpp>
#include <tenet/parallel/replicated_execution.hpp>

/// Where the parts of a training run: the policies of the axis `strategy`.
namespace tenet {

// Of devices with a memory of their own: parallel/resident_replicas.hpp and resident_ranks.hpp, parts of
// tenet/cuda.hpp.
template <class Device, class Kernels>
class ResidentReplicas;
template <class Program, class Device, int count, class Synchronisation, long bucket_bytes, class Cut>
class ReplicatedResidentExecution;
template <class Program, class Synchronisation, long bucket_bytes, Transport T, class Cut>
class ResidentRankStep;

namespace detail {

template <class Program, class OneSample>
struct StepOfOne {
  using type = Execution<Program, OneSample>;
};
template <class Program, class OneSample>
  requires(Program::slots.table_count > 0 && updates_parameters<Program>())
struct StepOfOne<Program, OneSample> {
  using type = SparseExecution<Program>;
};
template <class Program, class OneSample>
  requires HasOwnMemory<typename Program::Kernels::Executor>
struct StepOfOne<Program, OneSample> {
  using type = ResidentExecution<Program>;
};

}  // namespace detail

/// On one device.
struct Single {
  static constexpr int replicas = 1;
  using Synchronisation = void;
  template <class Device, class Kernels>
  using Devices = std::conditional_t<HasOwnMemory<typename Kernels::Executor>, ResidentDevice<Device, Kernels>,
                                     OneDevice<Device, Kernels>>;
  template <class Definition>
  using DefinitionOf = Definition;
  template <class Program, class Policies>
  using ExecutionOf = typename detail::StepOfOne<Program, typename Policies::OneSample>::type;
};

/// On `Count` logical devices of this process, which run one program together: parts of the network that do not depend
/// on each other run at once, each on the whole batch. The compiler reads from the graph which steps these are; the
/// network says nothing about it, and the numbers are those of one device, to the bit.
template <int Count>
struct InterOpParallel {
  static_assert(Count >= 2 && Count <= most_devices, "InterOpParallel<devices>: from 2 to 16 devices");
  static constexpr int replicas = 1;
  using Synchronisation = void;
  template <class Device, class Kernels>
  struct Devices : Replicas<Device, Kernels> {
    Devices() : Replicas<Device, Kernels>(Count) {}
  };
  template <class Definition>
  using DefinitionOf = OnDevices<Definition, Count>;
  template <class Program, class Policies>
  using ExecutionOf = InterOpExecution<Program, typename Policies::Device>;
};

namespace detail {

template <class Program, class Policies>
struct StepOfReplicas {
  using Synchronisation = std::conditional_t<SharesWithoutLocks<typename Policies::Synchronisation>, Direct,
                                             typename Policies::Synchronisation>;
  using type = ReplicatedExecution<Program, typename Policies::Device, Synchronisation, Policies::Buckets::bucket_bytes,
                                   typename Policies::Shards>;
};
template <class Program, class Policies>
  requires(SharesWithoutLocks<typename Policies::Synchronisation> &&
           Program::lowered.after_update > Program::lowered.first_update)
struct StepOfReplicas<Program, Policies> {
  using type = typename Policies::Synchronisation::template StepOfReplicas<Program, typename Policies::Device>;
};

template <class Program, class Policies>
  requires HasOwnMemory<typename Program::Kernels::Executor>
struct StepOfReplicas<Program, Policies> {
  using type = ReplicatedResidentExecution<Program, typename Policies::Device, Policies::Strategy::replicas,
                                           typename Policies::Synchronisation, Policies::Buckets::bucket_bytes,
                                           typename Policies::Shards>;
};

template <class Device, class Kernels>
using ReplicasOf = std::conditional_t<HasOwnMemory<typename Kernels::Executor>, ResidentReplicas<Device, Kernels>,
                                      Replicas<Device, Kernels>>;

}  // namespace detail

/// On `Replicas` logical devices of this process. Each runs the network on its part of every batch; they share the
/// parameters, and each updates a part of them with the mean of all gradients.
///
/// The same numbers as on one device, up to the order of sums; but batch norm takes its statistics from a replica's
/// part of the batch, and dropout drops other values. Running statistics are those of the first replica, as in
/// PyTorch's.
///
/// Devices with memories of their own are those from the policy's number on: DataParallel<2> with Cuda<0> has GPUs 0
/// and 1. Each has all parameters, and updates all of them, or, with a `ParameterServer`, those that it owns: see
/// parallel/resident_replicas.hpp.
template <int Replicas>
struct DataParallel {
  static_assert(Replicas >= 1 && Replicas <= 64, "DataParallel<replicas>: from 1 to 64 replicas");
  static constexpr int replicas = Replicas;
  static constexpr bool replicates = true;
  template <class Device, class Kernels>
  struct Devices : detail::ReplicasOf<Device, Kernels> {
    Devices() : detail::ReplicasOf<Device, Kernels>(Replicas) {}
  };
  using Synchronisation = Direct;  ///< where the user names none
  template <class Definition>
  using DefinitionOf = Definition;
  template <class Program, class Policies>
  using ExecutionOf = typename detail::StepOfReplicas<Program, Policies>::type;
};

namespace detail {

template <class Program, class Policies, class T, class Synchronisation = typename Policies::Synchronisation>
struct StepOfRank {
  using type = std::conditional_t<
      Policies::Strategy::has_replicas,
      HierarchicalExecution<Program, typename Policies::Device, Synchronisation, Policies::Buckets::bucket_bytes, T,
                            typename Policies::Shards>,
      DistributedExecution<Program, Synchronisation, Policies::Buckets::bucket_bytes, T, typename Policies::Shards>>;
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

template <class Program, class Policies>
struct ExecutionOfRank {
  using type = std::conditional_t<
      (Program::lowered.after_update > Program::lowered.first_update), DistributedStep<Program, Policies>,
      std::conditional_t<Policies::Strategy::has_replicas, ReplicatedExecution<Program, typename Policies::Device>,
                         Execution<Program, typename Policies::OneSample>>>;
};

/// The same on a device with a memory of its own.
template <class Program, class Policies>
class ResidentStepOfRank
    : public ResidentRankStep<Program, typename Policies::Synchronisation, Policies::Buckets::bucket_bytes,
                              Connection<typename Policies::Strategy::World, typename Policies::Devices>,
                              typename Policies::Shards> {
 public:
  explicit ResidentStepOfRank(typename Policies::Devices& devices)
      : ResidentStepOfRank::ResidentRankStep(devices, connect<typename Policies::Strategy::World>(devices)) {}
};
template <class Program, class Policies>
  requires HasOwnMemory<typename Program::Kernels::Executor>
struct ExecutionOfRank<Program, Policies> {
  using type = std::conditional_t<(Program::lowered.after_update > Program::lowered.first_update),
                                  ResidentStepOfRank<Program, Policies>, ResidentExecution<Program>>;
};

/// Where the gradients of a training lie, if it has been made: where it sends them from. Else in a buffer of the
/// caller's, which has room for all of them then.
template <class Training>
float* gradients_of([[maybe_unused]] const Training* training, Buffer& buffer, long floats) {
  if constexpr (requires { training->own_gradients(); })
    if (training != nullptr) return training->own_gradients();
  buffer.grow(floats);
  return buffer.data();
}

}  // namespace detail

/// On ranks that are processes, on one machine or many. Each is given its own samples (`DistributedSampler`) and has
/// its own copy of the parameters; a step's gradient is the mean over the samples of all ranks. `World` says how they
/// reach each other: `World::connect()` makes a `Transport` of its own for each training. Every rank makes the same
/// trainers in the same order and takes the same number of steps; inference and evaluation are each rank's own.
///
/// `Inside` says what a rank is: one device, or the replicas of a `DataParallel`, which share the rank's parameters and
/// its samples.
template <class World_, class Inside = Single>
struct Distributed {
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
