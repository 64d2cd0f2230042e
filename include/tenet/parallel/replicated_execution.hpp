#pragma once

#include <tenet/comm/recorded_transport.hpp>
#include <tenet/comm/thread_transport.hpp>
#include <tenet/parallel/gradient_exchange.hpp>
#include <tenet/parallel/replica_passes.hpp>

/// One program on several devices of a process that share its parameters: each runs it on a part of the batch.
///
/// In a training step the gradient of the whole batch's mean loss is the mean of the replicas' gradients, weighted by
/// their samples: with n_r of n samples on replica r, g = sum over r of n_r / n · g_r. When it is there, each replica
/// updates its part of the parameters: the optimizer's state is read once, by one of them, and there is no copy of
/// parameters to be sent around. How it is summed up, the synchronisation says: `Direct`, or a collective.
namespace tenet {

/// The same interface as `Execution`.
template <class Program, class Device, class Synchronisation = Direct, long bucket_bytes = 1 << 20,
          class Cut = WholeBatch>
class ReplicatedExecution {
 public:
  using Kernels = typename Program::Kernels;
  using Passes = ReplicaPasses<Program, Device, Cut>;
  using Group = typename Passes::Group;

  explicit ReplicatedExecution(Group& replicas)
      : replicas_(&replicas),
        network_(replicas.size()),
        passes_(replicas, detail::shards_of_worker<Cut>(replicas.size())),
        exchanges_(index(replicas.size())) {
    if constexpr (exchanges)
      replicas.run([&](int r) { exchanges_[index(r)] = std::make_unique<Exchange>(transport(r)); });
  }

  void set_scalars(const float* scalars, std::uint64_t seed) { passes_.set_scalars(scalars, seed); }
  void bind(Arena arena, float* memory) { passes_.bind(arena, memory); }
  void give(int index, const void* input) { passes_.give(index, input); }
  void use_weights(std::uint64_t version) { passes_.use_weights(version); }

  /// Runs the program on all samples.
  void run(int batch) {
    grow_results(batch);
    passes_.begin(batch);
    replicas_->run([&](int r) {
      try {
        float* const gradients = passes_.gradients(r);
        const auto backward = [&](One* execution, auto prepare) {
          if constexpr (exchanges) {
            exchanges_[index(r)]->begin(passes_.weight(r));
            exchanges_[index(r)]->run(execution, gradients, prepare);
          } else {
            Passes::Pass::run_passes(execution, gradients, prepare);
          }
        };
        passes_.run(r, 0, static_cast<float>(batch), backward,
                    [&](const One& execution, const Shard& shard) { take_results(execution, shard); });
        if constexpr (updates) {
          passes_.pass(r).execution().prepare_update();
          replicas_->meet(r, "gradients of all replicas");
          // Sums are left in a replica's own memory: to write where another core has read takes longer.
          passes_.update(r, part_of_parameters(r), [&](long from, long to) {
            if constexpr (!exchanges) passes_.add_up_gradients(gradients, from, to);
          });
        }
      } catch (...) {
        network_.abandon();
        throw;
      }
    });
    const std::array<float, 4> numbers = passes_.numbers();
    for (int i = 0; i < Program::result_count; ++i)
      if (!Program::result_types[index(i)]->batched) *results_[index(i)].data() = numbers[index(i)];
  }

  /// Brings the sums of gradients together, where `bind` has said that they are.
  void collect_gradients() {
    if constexpr (updates && !exchanges)
      for (int r = 1; r < replicas_->size(); ++r) {
        const auto [first, count] = part_of_parameters(r);
        std::copy_n(passes_.gradients(r) + first, count, passes_.gradients(0) + first);
      }
  }

  const float* result(int i) const { return results_[index(i)].data(); }
  long memory_floats() const { return passes_.memory_floats(); }

 private:
  using One = typename Passes::One;
  static constexpr bool updates = Passes::Pass::updates;

  /// Replica r's. Where its work is recorded, so are its messages.
  auto transport(int r) {
    ThreadTransport of_replica(network_, r);
    if constexpr (HasTimelineRow<typename Kernels::Executor>)
      return RecordedTransport(of_replica, *replicas_->executor(r).timeline_row,
                               "communication of replica " + std::to_string(r));
    else
      return of_replica;
  }
  using TransportOfReplica = std::conditional_t<HasTimelineRow<typename Kernels::Executor>,
                                                RecordedTransport<ThreadTransport>, ThreadTransport>;

  struct NoExchange {};
  static constexpr bool exchanges = updates && Synchronisation::sends_buckets && !detail::HasServers<Synchronisation>;
  using Exchange =
      std::conditional_t<exchanges, GradientExchange<Program, Synchronisation, bucket_bytes, TransportOfReplica>,
                         NoExchange>;

  static constexpr std::size_t index(int i) { return static_cast<std::size_t>(i); }

  /// The parameters that replica r updates.
  FloatRange part_of_parameters(int r) const {
    return Synchronisation::Place::part(Program::slots.parameter_floats, r, replicas_->size());
  }

  // Results of a sample are put one after the other; those of a batch are means.

  void grow_results(int batch) {
    for (int i = 0; i < Program::result_count; ++i) {
      const TensorInfo& type = *Program::result_types[index(i)];
      results_[index(i)].grow(type.size() * (type.batched ? batch : 1));
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

  Group* replicas_;
  ThreadNetwork network_;
  Passes passes_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
  std::array<Buffer, 4> results_;
};

}  // namespace tenet
