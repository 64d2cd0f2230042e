#pragma once

// First, so that a message about a mistake begins with few lines of includes.
#include <tenet/comm/recorded_transport.hpp>
#include <tenet/comm/thread_transport.hpp>
#include <tenet/ops/mistake.hpp>
#include <tenet/parallel/gradient_exchange.hpp>
#include <tenet/parallel/rank_replica_passes.hpp>

/// One program on several devices of a process that share its parameters: each runs it on a part of the batch.
///
/// In a training step the gradient of the whole batch's mean loss is the mean of the replicas' gradients, weighted by
/// their samples: with n_r of n samples on replica r, g = sum over r of n_r / n · g_r. When it is there, each replica
/// updates its part of the parameters: the optimizer's state is read once, by one of them, and there is no copy of
/// parameters to be sent around. How it is summed up, the synchronisation says: `Direct`, or a collective.
namespace tenet {

/// The same interface as `Execution`.
template <class Program, class Device, class Synchronisation, long bucket_bytes, class Cut>
class ReplicatedExecution : public ReplicaPasses<Program, Device, Cut> {
 public:
  using Passes = ReplicaPasses<Program, Device, Cut>;
  using Group = typename Passes::Group;

  /// Of a rank that trains by itself, or of the only one.
  explicit ReplicatedExecution(Group& replicas, int rank = 0, int ranks = 1)
      : Passes(replicas, detail::shards_of_rank<Cut>(rank, ranks, replicas.size()), !exchanges),
        network_(replicas.size(), replicas.limit()),
        exchanges_(index(replicas.size())) {
    if constexpr (exchanges)
      replicas.run([&](int r) { exchanges_[index(r)] = std::make_unique<Exchange>(transport(r)); });
  }

  /// Runs the program on all samples.
  void run(int batch) {
    has_collected_ = false;
    grow_results(batch);
    this->begin(batch);
    this->replicas().run([&](int r) {
      try {
        float* const gradients = this->gradients(r);
        const auto backward = [&](One* execution, auto prepare) {
          if constexpr (exchanges) {
            exchanges_[index(r)]->begin(this->weight(r));
            exchanges_[index(r)]->run(execution, gradients,
                                      [prepare](int, const Bucket& bucket) { prepare(bucket.first, bucket.floats); });
            exchanges_[index(r)]->complete();
          } else {
            this->pass(r).run_passes(execution, prepare);
          }
        };
        Passes::run(r, static_cast<float>(batch), backward,
                    [&](const One& execution, const Shard& shard) { take_results(execution, shard); });
        if constexpr (updates && Passes::shares_update) {
          this->pass(r).execution().prepare_update();
          this->replicas().meet(r, {"gradients of all replicas", -1, this->step()});
          this->update(r, part_of_parameters(r), [&](long first, [[maybe_unused]] long count, float* room) {
            if constexpr (exchanges) return gradients + first;
            this->add_up_gradients(room, first, count);
            return room;
          });
        } else if constexpr (updates) {
          update_by_first(r);
        }
      } catch (...) {
        network_.abandon();
        this->abandon();
        throw;
      }
    });
    this->add_up_numbers();
    for (int i = 0; i < Program::result_count; ++i)
      if (!Program::result_types[index(i)]->batched) *results_[index(i)].data() = this->numbers()[index(i)];
  }

  void run_alone(int batch) { run(batch); }

  /// Adds up the gradients of the last run where `bind` has said that their sums are. The update leaves each replica's
  /// as they are: its own sums, which nobody needs as a rule, do not leave the cache.
  void collect_gradients() {
    if constexpr (updates && !exchanges) {
      if (!has_collected_) this->add_up_gradients(this->gradients(0), 0, Program::slots.parameter_floats);
      has_collected_ = true;
    }
  }

  const float* result(int i) const { return results_[index(i)].data(); }

 private:
  using One = typename Passes::One;
  static constexpr bool updates = Passes::Pass::updates;

  /// Replica r's. Where its work is recorded, so are its messages.
  auto transport(int r) {
    ThreadTransport of_replica(network_, r);
    if constexpr (HasTimelineRow<typename Program::Kernels::Executor>)
      return RecordedTransport(of_replica, *this->replicas().executor(r).timeline_row,
                               "communication of replica " + std::to_string(r));
    else
      return of_replica;
  }
  using TransportOfReplica = std::conditional_t<HasTimelineRow<typename Program::Kernels::Executor>,
                                                RecordedTransport<ThreadTransport>, ThreadTransport>;

  struct NoExchange {};
  static constexpr bool exchanges = updates && Synchronisation::sends_buckets && !detail::HasServers<Synchronisation>;
  using Exchange =
      std::conditional_t<exchanges, GradientExchange<Program, Synchronisation, bucket_bytes, TransportOfReplica>,
                         NoExchange>;

  static constexpr std::size_t index(int i) { return static_cast<std::size_t>(i); }

  /// What replica r does of an update that needs all gradients at once: it adds up its part of them, for the first one.
  void update_by_first(int r) {
    this->replicas().meet(r, {"gradients of all replicas", -1, this->step()});
    if constexpr (!exchanges) {
      const FloatRange part = part_of_parameters(r);
      this->add_up_gradients(this->gradients(0) + part.first, part.first, part.count);
      this->replicas().meet(r, {"sums of gradients", -1, this->step()});
    }
    if (r != 0) return;
    this->pass(r).update();
    has_collected_ = true;
  }
  /// The parameters that replica r updates.
  FloatRange part_of_parameters(int r) const {
    return Synchronisation::Place::part(Program::slots.parameter_floats, r, Passes::size());
  }

  // Results of a sample are put one after the other; those of a batch are means.

  void grow_results(int batch) {
    for (int i = 0; i < Program::result_count; ++i) {
      const TensorInfo& type = *Program::result_types[index(i)];
      results_[index(i)].grow(type.size(batch));
    }
  }
  void take_results(const One& execution, const Shard& shard) {
    for (int i = 0; i < Program::result_count; ++i) {
      const TensorInfo& type = *Program::result_types[index(i)];
      if (type.batched)
        std::memcpy(results_[index(i)].data() + type.size() * shard.first_sample, execution.result(i),
                    sizeof(float) * static_cast<std::size_t>(type.size() * shard.samples));
    }
  }

  ThreadNetwork network_;
  bool has_collected_ = true;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
  std::array<Buffer, 4> results_;
};

// On devices with a memory of their own: parallel/resident_replicas.hpp, a part of tenet/cuda.hpp.
template <class Device, class Kernels>
class ResidentReplicas;
template <class Program, class Device, int count, class Synchronisation, long bucket_bytes, class Cut, class OtherRanks>
class ReplicatedResidentExecution;
struct OneRank;
template <Transport T>
class RanksOfDevices;

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
                                           typename Policies::Shards, OneRank>;
};
/// The synchronisation's own training step on such devices, where it has one.
template <class Synchronisation, class Program, class Policies>
using ResidentStepOfReplicasBy = typename Synchronisation::template ResidentStepOfReplicas<
    Program, typename Policies::Device, Policies::Strategy::replicas, Policies::Buckets::bucket_bytes,
    typename Policies::Shards>;
template <class Program, class Policies>
  requires(HasOwnMemory<typename Program::Kernels::Executor> &&
           Program::lowered.after_update > Program::lowered.first_update &&
           requires { typename ResidentStepOfReplicasBy<typename Policies::Synchronisation, Program, Policies>; })
struct StepOfReplicas<Program, Policies> {
  using type = ResidentStepOfReplicasBy<typename Policies::Synchronisation, Program, Policies>;
};
template <class Program, class Policies>
struct ReplicasOfRank {
  using type = ReplicatedExecution<Program, typename Policies::Device, Direct, 1 << 20, WholeBatch>;
};
template <class Program, class Policies>
  requires HasOwnMemory<typename Program::Kernels::Executor>
struct ReplicasOfRank<Program, Policies> : StepOfReplicas<Program, Policies> {};

/// A training step of a rank that has several devices with memories of their own; the synchronisation's own, where it
/// has one.
template <class Program, class Policies, class T, class Synchronisation = typename Policies::Synchronisation>
struct ResidentReplicasOfRank {
  using type =
      ReplicatedResidentExecution<Program, typename Policies::Device, Policies::Strategy::replicas, Synchronisation,
                                  Policies::Buckets::bucket_bytes, typename Policies::Shards, RanksOfDevices<T>>;
};
template <class Program, class Policies, class T, AveragesParameters Synchronisation>
struct ResidentReplicasOfRank<Program, Policies, T, Synchronisation> {
  using type = typename Synchronisation::template ResidentStepOfReplicas<
      Program, typename Policies::Device, Policies::Strategy::replicas, Policies::Buckets::bucket_bytes, T,
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
  /// Where each rank of a `Distributed` has such replicas: the passes of its training step, and what it runs by itself.
  template <class Program, class Policies>
  using PassesOfRank = RankReplicaPasses<Program, typename Policies::Device, typename Policies::Shards>;
  template <class Program, class Policies, class T>
  using ResidentStepOfRank = typename detail::ResidentReplicasOfRank<Program, Policies, T>::type;
  template <class Program, class Policies>
  using ExecutionOfRank = typename detail::ReplicasOfRank<Program, Policies>::type;
};

}  // namespace tenet
