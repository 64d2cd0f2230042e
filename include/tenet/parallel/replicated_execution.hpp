#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <tenet/comm/thread_transport.hpp>
#include <tenet/core/buffer.hpp>
#include <tenet/core/vector.hpp>
#include <tenet/parallel/gradient_exchange.hpp>
#include <tenet/parallel/replicas.hpp>

/// One program on several devices of a process that share its parameters: each runs it on a part of the batch.
///
/// In a training step the gradient of the whole batch's mean loss is the mean of the replicas' gradients, weighted by
/// their samples: with n_r of n samples on replica r, g = sum over r of n_r / n · g_r. When it is there, each replica
/// updates its part of the parameters: the optimizer's state is read once, by one of them, and there is no copy of
/// parameters to be sent around. How it is summed up, the synchronisation says: `Direct`, or a collective.
namespace tenet {

namespace detail {

/// to[i] = sum over r of weight[r] · from[r][i], in the order of r, for i in [first, last). Those of weight 0 have no
/// gradient and are not read. `to` may be one of `from`.
inline void weighted_sum(const float* const* from, const float* weight, int count, float* to, long first, long last) {
  const auto sum_at = [&](auto load_at) {
    decltype(load_at(from[0])) sum{};
    for (int r = 0; r < count; ++r)
      if (weight[r] != 0) sum += weight[r] * load_at(from[r]);
    return sum;
  };
  by_vectors(
      last - first,
      [&](long i) { store(to + first + i, sum_at([=](const float* at) { return load(at + first + i); })); },
      [&](long i) { to[first + i] = sum_at([=](const float* at) { return at[first + i]; }); });
}

/// to[i] = the sum of from[r][i] in the order of a tree: 0 and 1, 2 and 3, …, then these sums in pairs, and so on.
/// `count` is a power of two.
template <int count>
void tree_sum(const float* const* from, float* to, long first, long last) {
  const auto sum_at = [&](auto load_at) {
    decltype(load_at(from[0])) sums[count];
    for (int r = 0; r < count; ++r) sums[r] = load_at(from[r]);
    for (int distance = 1; distance < count; distance *= 2)
      for (int r = 0; r < count; r += 2 * distance) sums[r] += sums[r + distance];
    return sums[0];
  };
  by_vectors(
      last - first,
      [&](long i) { store(to + first + i, sum_at([=](const float* at) { return load(at + first + i); })); },
      [&](long i) { to[first + i] = sum_at([=](const float* at) { return at[first + i]; }); });
}
inline void tree_sum(const float* const* from, int count, float* to, long first, long last) {
  if (count == 2) tree_sum<2>(from, to, first, last);
  if (count == 4) tree_sum<4>(from, to, first, last);
  if (count == 8) tree_sum<8>(from, to, first, last);
}

/// Adds up terms that come one after the other in the order of that tree: sums of 1, 2, 4, … terms wait for the next
/// ones of their size. A term that is scaled is rounded before it is added, so that no compiler makes one operation of
/// both.
class TreeOfTerms {
 public:
  /// For a power of two of terms of so many numbers each.
  void prepare(int terms, long floats) {
    while (1 << waiting_.size() < terms) waiting_.emplace_back(floats);
  }
  /// Numbers [first, last) of term `number`, from 0; with the last term `numbers` are the sum, before they are not
  /// changed but scaled.
  void add(int number, bool is_last, float weight, float* numbers, long first, long last) {
    constexpr long block = 4096;
    for (; first < last; first += block) {
      const long count = last - first < block ? last - first : block;
      scale(numbers + first, weight, count);
      int level = 0;
      for (; (number >> level & 1) != 0; ++level)
        add_floats(numbers + first, waiting_[static_cast<std::size_t>(level)].data() + first, numbers + first, count);
      if (!is_last)
        std::memcpy(waiting_[static_cast<std::size_t>(level)].data() + first, numbers + first,
                    sizeof(float) * static_cast<std::size_t>(count));
    }
  }

 private:
  [[gnu::noinline]] static void scale(float* numbers, float weight, long count) {
    scale_floats(numbers, weight, count);
  }

  std::vector<Buffer> waiting_;
};

}  // namespace detail

/// The same interface as `Execution`.
template <class Program, class Device, class Synchronisation = Direct, long bucket_bytes = 1 << 20,
          int virtual_shards = 0>
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
      part.execution = std::make_unique<One>(replicas.executor(r));
      if constexpr (exchanges) part.exchange = std::make_unique<Exchange>(ThreadTransport(network_, r));
      if constexpr (updates && reproducible)
        part.sums.prepare(virtual_shards / replicas_->size(), Program::slots.parameter_floats);
      // Running statistics are those that the first shard sees; what the others see goes nowhere.
      if constexpr (Program::writes_buffers) bind_own(part, Arena::buffers, part.buffers, Program::slots.buffer_floats);
      if (r == 0) return;
      if constexpr (updates) bind_own(part, Arena::gradients, part.gradients, Program::slots.parameter_floats);
    });
  }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    seed_ = seed;
    for (Part& part : parts_) part.execution->set_scalars(scalars, seed);
  }
  void bind(Arena arena, float* memory) {
    if (arena == Arena::gradients) gradients_ = memory;
    if (arena == Arena::buffers) buffers_ = memory;
    const bool own = (arena == Arena::gradients && updates) || (arena == Arena::buffers && Program::writes_buffers);
    for (std::size_t r = 0; r < (own ? 1 : parts_.size()); ++r) parts_[r].execution->bind(arena, memory);
  }
  void give(int index, const void* input) { inputs_[static_cast<std::size_t>(index)] = input; }
  void use_weights(std::uint64_t version) {
    for (Part& part : parts_) part.execution->use_weights(version);
  }

  /// Runs the program on all samples. They are cut into shards, one a replica unless the result is to be reproducible:
  /// shard v has those from batch · v / shards on, rounded up, which may be none.
  void run(int batch) {
    const int count = replicas_->size(), shards = reproducible ? virtual_shards : count;
    std::array<Shard, Group::most> shard;
    std::array<float, Group::most> weight;
    std::array<float*, Group::most> gradients;
    const auto begin = [&](int v) { return static_cast<int>((static_cast<long>(batch) * v + shards - 1) / shards); };
    for (int v = 0; v < shards; ++v) {
      shard[index(v)] = {v, begin(v), begin(v + 1) - begin(v)};
      weight[index(v)] = static_cast<float>(shard[index(v)].samples) / static_cast<float>(batch);
    }
    for (int r = 0; r < count; ++r) gradients[index(r)] = r == 0 ? gradients_ : parts_[index(r)].gradients.data();
    grow_results(batch);
    replicas_->run([&](int r) {
      Part& part = parts_[index(r)];
      try {
        const int first = r * shards / count, last = (r + 1) * shards / count;
        for (int v = first; v < last; ++v)
          run_shard(part, shard[index(v)], v - first, v + 1 == last, weight[index(v)], gradients[index(r)]);
        if constexpr (updates) {
          part.execution->prepare_update();
          replicas_->meet(r, "gradients of all replicas");
          update(r, weight.data(), gradients.data());
        }
      } catch (...) {
        network_.abandon();
        throw;
      }
    });
    add_up_results(shards, weight.data());
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
    for (const Part& part : parts_) sum += part.execution->memory_floats();
    return sum;
  }

 private:
  using One = Execution<Program, OneSampleNever>;
  static constexpr bool updates = Program::lowered.after_update > Program::lowered.first_update;

  static constexpr bool reproducible = virtual_shards > 0;
  struct NoExchange {};
  static constexpr bool exchanges = updates && Synchronisation::sends_buckets && !detail::HasServers<Synchronisation>;
  using Exchange =
      std::conditional_t<exchanges, GradientExchange<Program, Synchronisation, bucket_bytes, ThreadTransport>,
                         NoExchange>;

  struct Part {
    std::unique_ptr<One> execution;
    std::unique_ptr<Exchange> exchange;
    Buffer gradients, buffers;
    detail::TreeOfTerms sums;  // of the gradients of its shards
  };
  struct Shard {
    int number = 0, first_sample = 0, samples = 0;
  };

  static std::size_t index(int replica) { return static_cast<std::size_t>(replica); }

  static void bind_own(Part& part, Arena arena, Buffer& memory, long floats) {
    memory.grow(floats);
    part.execution->bind(arena, memory.data());
  }

  void give_part(Part& part, int first_sample) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const TensorInfo* const type = Program::input_types[i];
      if (type == nullptr || inputs_[i] == nullptr) continue;
      const long skipped = type->batched ? type->size() * first_sample : 0;
      part.execution->give(static_cast<int>(i), static_cast<const float*>(inputs_[i]) + skipped);
    }
  }

  /// Forward and backward pass for a shard, the `number`-th of this replica.
  void run_shard(Part& part, const Shard& shard, int number, bool is_last, float weight, float* gradients) {
    One* const execution = shard.samples > 0 ? part.execution.get() : nullptr;
    part.execution->set_seed(seed_ + static_cast<std::uint64_t>(shard.number) * 0xd1342543de82ef95u);
    if constexpr (Program::writes_buffers)
      part.execution->bind(Arena::buffers, shard.number == 0 ? buffers_ : part.buffers.data());
    if (execution != nullptr) {
      give_part(part, shard.first_sample);
      execution->begin(shard.samples);
    }
    const auto add = [&](long first, long floats) {
      if constexpr (reproducible) part.sums.add(number, is_last, weight, gradients, first, first + floats);
    };
    const auto run_all = [&] {
      if (execution != nullptr)
        execution->run_steps(Program::lowered.prepared_steps, Program::lowered.first_update);
      else if (updates && reproducible)
        std::fill(gradients, gradients + Program::slots.parameter_floats, 0.0f);
    };
    if constexpr (exchanges) {
      if (is_last) {
        part.exchange->begin(reproducible ? 1 : weight);
        part.exchange->run(execution, gradients, add);
      } else {
        run_all();
        add(0, Program::slots.parameter_floats);
      }
    } else {
      run_all();
      if constexpr (updates) add(0, Program::slots.parameter_floats);
    }
    if (execution == nullptr) return;
    execution->run_steps(Program::lowered.after_update, Program::lowered.used.steps);
    take_results(*execution, shard);
  }

  /// The parameters that replica r updates.
  FloatRange part_of_parameters(int r) const {
    return Synchronisation::Place::part(Program::slots.parameter_floats, r, replicas_->size());
  }

  /// Replica r's part of the update, and of the sum of gradients, in blocks that stay in cache in between. The sums are
  /// left in its own memory: to write where another core has read takes longer.
  void update(int r, const float* weight, float* const* gradients) {
    const int count = replicas_->size();
    const FloatRange part = part_of_parameters(r);
    constexpr long block = 4096;
    replicas_->run_each(r, static_cast<int>((part.count + block - 1) / block), [&](int task) {
      const long from = part.first + task * block, to = std::min(from + block, part.first + part.count);
      if constexpr (!exchanges && reproducible) detail::tree_sum(gradients, count, gradients[r], from, to);
      if constexpr (!exchanges && !reproducible) detail::weighted_sum(gradients, weight, count, gradients[r], from, to);
      parts_[index(r)].execution->update(from, to);
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
      const float* const found = execution.result(i);
      if (type.batched)
        std::memcpy(results_[index(i)].data() + type.size() * shard.first_sample, found,
                    sizeof(float) * static_cast<std::size_t>(type.size() * shard.samples));
      else
        means_[index(shard.number)][index(i)] = *found;
    }
  }
  void add_up_results(int shards, const float* weight) {
    for (int i = 0; i < Program::result_count; ++i) {
      if (Program::result_types[index(i)]->batched) continue;
      float mean = 0;
      for (int v = 0; v < shards; ++v)
        if (weight[v] != 0) mean += weight[v] * means_[index(v)][index(i)];
      *results_[index(i)].data() = mean;
    }
  }

  Group* replicas_;
  ThreadNetwork network_;
  std::vector<Part> parts_;
  std::array<const void*, 4> inputs_{};
  std::array<Buffer, 4> results_;
  std::array<std::array<float, 4>, Group::most> means_{};  // each shard's results that are one number
  float *gradients_ = nullptr, *buffers_ = nullptr;
  std::uint64_t seed_ = 0;
};

}  // namespace tenet
