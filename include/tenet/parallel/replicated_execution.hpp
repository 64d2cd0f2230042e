#pragma once

#include <algorithm>
#include <tenet/comm/thread_transport.hpp>
#include <tenet/parallel/gradient_exchange.hpp>
#include <tenet/parallel/replicas.hpp>
#include <tenet/parallel/sharded_pass.hpp>

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
  using Group = Replicas<Device, Kernels>;

  explicit ReplicatedExecution(Group& replicas)
      : replicas_(&replicas), network_(replicas.size()), parts_(static_cast<std::size_t>(replicas.size())) {
    static_assert(
        updates_by_elements<Program>(),
        "DataParallel: the optimizer's update is not element-wise over all parameters, so that replicas cannot "
        "share it");
    replicas.run([&](int r) {  // its memory is touched first by the thread that works with it
      Part& part = parts_[index(r)];
      part.pass = std::make_unique<Pass>(replicas.executor(r), shards_of_replica());
      if constexpr (exchanges) part.exchange = std::make_unique<Exchange>(ThreadTransport(network_, r));
      if (r == 0) return;
      // Running statistics are those that the first replica sees; what the others see goes nowhere.
      if constexpr (Program::writes_buffers) bind_own(part, Arena::buffers, part.buffers, Program::slots.buffer_floats);
      if constexpr (updates) bind_own(part, Arena::gradients, part.gradients, Program::slots.parameter_floats);
    });
  }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    for (Part& part : parts_) part.pass->set_scalars(scalars, seed);
  }
  void bind(Arena arena, float* memory) {
    if (arena == Arena::gradients) gradients_ = memory;
    const bool own = (arena == Arena::gradients && updates) || (arena == Arena::buffers && Program::writes_buffers);
    for (std::size_t r = 0; r < (own ? 1 : parts_.size()); ++r) parts_[r].pass->bind(arena, memory);
  }
  void give(int index, const void* input) {
    for (Part& part : parts_) part.pass->give(index, input);
  }
  void use_weights(std::uint64_t version) {
    for (Part& part : parts_) part.pass->use_weights(version);
  }

  /// Runs the program on all samples, cut into shards: the same number of them for each replica.
  void run(int batch) {
    const int count = replicas_->size(), of_replica = shards_of_replica();
    std::array<float, Group::most> weight;
    std::array<float*, Group::most> gradients;
    for (int r = 0; r < count; ++r) {
      const int samples = shard_of(batch, r, count).samples;
      // Where the batch is cut, weights are in the sums already.
      weight[index(r)] = Pass::is_cut ? 1 : static_cast<float>(samples) / static_cast<float>(batch);
      gradients[index(r)] = r == 0 ? gradients_ : parts_[index(r)].gradients.data();
    }
    grow_results(batch);
    replicas_->run([&](int r) {
      Part& part = parts_[index(r)];
      std::array<Shard, Group::most> shards;
      for (int i = 0; i < of_replica; ++i) shards[index(i)] = shard_of(batch, r * of_replica + i, count * of_replica);
      try {
        part.pass->run(
            std::span(shards.data(), index(of_replica)), static_cast<float>(batch), gradients[index(r)],
            [&](One* execution, auto prepare) {
              if constexpr (exchanges) {
                part.exchange->begin(weight[index(r)]);
                part.exchange->run(execution, gradients[index(r)], prepare);
              } else {
                Pass::run_passes(execution, gradients[index(r)], prepare);
              }
            },
            [&](const One& execution, const Shard& shard) { take_results(execution, shard); });
        if constexpr (updates) {
          part.pass->execution().prepare_update();
          replicas_->meet(r, "gradients of all replicas");
          update(r, weight.data(), gradients.data());
        }
      } catch (...) {
        network_.abandon();
        throw;
      }
    });
    add_up_results(weight.data());
  }

  /// Brings the sums of gradients together, where `bind` has said that they are.
  void collect_gradients() {
    if constexpr (updates && !exchanges)
      for (int r = 1; r < replicas_->size(); ++r) {
        const auto [first, count] = part_of_parameters(r);
        std::copy_n(parts_[index(r)].gradients.data() + first, count, gradients_ + first);
      }
  }

  const float* result(int index) const { return results_[static_cast<std::size_t>(index)].data(); }

  long memory_floats() const {
    long sum = 0;
    for (const Part& part : parts_) sum += part.pass->memory_floats();
    return sum;
  }

 private:
  using Pass = ShardedPass<Program, Cut>;
  using One = typename Pass::One;
  static constexpr bool updates = Pass::updates;
  static constexpr bool in_a_tree = Cut::in_all > 0;

  struct NoExchange {};
  static constexpr bool exchanges = updates && Synchronisation::sends_buckets && !detail::HasServers<Synchronisation>;
  using Exchange =
      std::conditional_t<exchanges, GradientExchange<Program, Synchronisation, bucket_bytes, ThreadTransport>,
                         NoExchange>;

  struct Part {
    std::unique_ptr<Pass> pass;
    std::unique_ptr<Exchange> exchange;
    Buffer gradients, buffers;
  };

  static std::size_t index(int replica) { return static_cast<std::size_t>(replica); }
  int shards_of_replica() const { return detail::shards_of_worker<Cut>(replicas_->size()); }

  static void bind_own(Part& part, Arena arena, Buffer& memory, long floats) {
    memory.grow(floats);
    part.pass->bind(arena, memory.data());
  }

  /// The parameters that replica r updates.
  FloatRange part_of_parameters(int r) const {
    return Synchronisation::Place::part(Program::slots.parameter_floats, r, replicas_->size());
  }

  /// to = the sum of what all replicas have, for the numbers from `first` to `last`.
  static void add_up(const float* const* from, const float* weight, int count, float* to, long first, long last) {
    if constexpr (in_a_tree)
      detail::tree_sum(from, count, to, first, last);
    else
      detail::weighted_sum(from, weight, count, to, first, last);
  }

  /// Replica r's part of the update, and of the sum of gradients, in blocks that stay in cache in between. The sums are
  /// left in its own memory: to write where another core has read takes longer.
  void update(int r, const float* weight, float* const* gradients) {
    const FloatRange part = part_of_parameters(r);
    constexpr long block = 4096;
    replicas_->run_each(r, static_cast<int>((part.count + block - 1) / block), [&](int task) {
      const long from = part.first + task * block, to = std::min(from + block, part.first + part.count);
      if constexpr (!exchanges) add_up(gradients, weight, replicas_->size(), gradients[r], from, to);
      parts_[index(r)].pass->execution().update(from, to);
    });
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
  void add_up_results(const float* weight) {
    std::array<const float*, Group::most> numbers;
    std::array<float, 4> sum;
    for (std::size_t r = 0; r < parts_.size(); ++r) numbers[r] = parts_[r].pass->numbers().data();
    sum = parts_[0].pass->numbers();
    add_up(numbers.data(), weight, replicas_->size(), sum.data(), 0, 4);
    for (int i = 0; i < Program::result_count; ++i)
      if (!Program::result_types[index(i)]->batched) *results_[index(i)].data() = sum[index(i)];
  }

  Group* replicas_;
  ThreadNetwork network_;
  std::vector<Part> parts_;
  std::array<Buffer, 4> results_;
  float* gradients_ = nullptr;
};

}  // namespace tenet
