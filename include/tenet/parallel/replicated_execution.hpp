#pragma once

#include <array>
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
  long i = first;
  for (; i + vector_width <= last; i += vector_width)
    store(to + i, sum_at([i](const float* numbers) { return load(numbers + i); }));
  for (; i < last; ++i) to[i] = sum_at([i](const float* numbers) { return numbers[i]; });
}

/// Whether the optimizer's steps are element-wise over all parameters, so that each part of them can be run alone.
template <class Program>
constexpr bool updates_by_elements() {
  for (int i = 0; i < Program::graph.output_count; ++i) {
    const Destination to = Program::graph.outputs[i].destination;
    if ((to == Destination::parameters || to == Destination::state) && Program::plan.copied[i]) return false;
  }
  for (int s = Program::lowered.first_update; s < Program::lowered.after_update; ++s) {
    const auto& step = Program::lowered.steps[s];
    if (step.kind != Kind::element || Program::lowered.calls[step.region].batched) return false;
  }
  return true;
}

}  // namespace detail

/// The same interface as `Execution`.
template <class Program, class Device, class Synchronisation = Direct, long bucket_bytes = 1 << 20>
class ReplicatedExecution {
 public:
  using Kernels = typename Program::Kernels;
  using Group = Replicas<Device, Kernels>;

  explicit ReplicatedExecution(Group& replicas)
      : replicas_(&replicas), network_(replicas.size()), parts_(static_cast<std::size_t>(replicas.size())) {
    static_assert(detail::updates_by_elements<Program>());
    replicas.run([&](int r) {  // its memory is touched first by the thread that works with it
      Part& part = parts_[index(r)];
      part.execution = std::make_unique<One>(replicas.executor(r));
      if constexpr (exchanges) part.exchange = std::make_unique<Exchange>(ThreadTransport(network_, r));
      if (r == 0) return;
      if constexpr (updates) bind_own(part, Arena::gradients, part.gradients, Program::slots.parameter_floats);
      // Running statistics are those that the first replica sees; what the others see goes nowhere.
      if constexpr (Program::writes_buffers) bind_own(part, Arena::buffers, part.buffers, Program::slots.buffer_floats);
    });
  }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    for (std::size_t r = 0; r < parts_.size(); ++r)
      parts_[r].execution->set_scalars(scalars, seed + r * 0xd1342543de82ef95u);
  }
  void bind(Arena arena, float* memory) {
    if (arena == Arena::gradients) gradients_ = memory;
    const bool own = (arena == Arena::gradients && updates) || (arena == Arena::buffers && Program::writes_buffers);
    for (std::size_t r = 0; r < (own ? 1 : parts_.size()); ++r) parts_[r].execution->bind(arena, memory);
  }
  void give(int index, const void* input) { inputs_[static_cast<std::size_t>(index)] = input; }
  void use_weights(std::uint64_t version) {
    for (Part& part : parts_) part.execution->use_weights(version);
  }

  /// Runs the program on all samples: replica r has those from batch · r / replicas on, rounded up, which may be none.
  void run(int batch) {
    const int count = replicas_->size();
    std::array<float, Group::most> weight;
    std::array<float*, Group::most> gradients;
    const auto begin = [&](int r) { return static_cast<int>((static_cast<long>(batch) * r + count - 1) / count); };
    for (int r = 0; r < count; ++r) {
      weight[index(r)] = static_cast<float>(begin(r + 1) - begin(r)) / static_cast<float>(batch);
      gradients[index(r)] = r == 0 ? gradients_ : parts_[index(r)].gradients.data();
    }
    grow_results(batch);
    replicas_->run([&](int r) {
      Part& part = parts_[index(r)];
      const int samples = begin(r + 1) - begin(r);
      if (samples > 0) {
        give_part(part, begin(r));
        part.execution->begin(samples);
      }
      compute(r, weight[index(r)], gradients[index(r)]);
      if constexpr (updates) {
        if (r == 0) part.execution->prepare_update();
        replicas_->meet(r, "gradients of all replicas");
        update(r, weight.data(), gradients.data());
      }
      if (samples > 0) {
        part.execution->run_steps(Program::lowered.after_update, Program::lowered.used.steps);
        take_results(part, begin(r), samples);
      }
    });
    add_up_results(weight.data());
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
  static constexpr int result_count = [] {
    int count = 0;
    for (const TensorInfo* type : Program::result_types) count += type != nullptr;
    return count;
  }();

  struct NoExchange {};
  static constexpr bool exchanges = updates && Synchronisation::sends_buckets;
  using Exchange =
      std::conditional_t<exchanges, GradientExchange<Program, Synchronisation, bucket_bytes, ThreadTransport>,
                         NoExchange>;

  struct Part {
    std::unique_ptr<One> execution;
    std::unique_ptr<Exchange> exchange;
    Buffer gradients, buffers;
    std::array<float, 4> means{};  // its results that are one number
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

  /// Forward and backward pass of replica r.
  void compute(int r, float weight, float* gradients) {
    Part& part = parts_[index(r)];
    if constexpr (exchanges) {
      try {
        part.exchange->begin(weight);
        part.exchange->run(weight != 0 ? part.execution.get() : nullptr, gradients);
      } catch (...) {
        network_.abandon();
        throw;
      }
    } else if (weight != 0) {
      part.execution->run_steps(Program::lowered.prepared_steps, Program::lowered.first_update);
    }
  }

  /// Replica r's part of the update, and of the sum of gradients in blocks that stay in cache in between.
  void update(int r, const float* weight, const float* const* gradients) {
    constexpr long floats = Program::slots.parameter_floats, block = 4096;
    const int count = replicas_->size();
    const long blocks = (floats + block - 1) / block, first = blocks * r / count, last = blocks * (r + 1) / count;
    run_each(replicas_->executor(r), static_cast<int>(last - first), [&](int task) {
      const long from = (first + task) * block, to = from + block < floats ? from + block : floats;
      if constexpr (!exchanges) detail::weighted_sum(gradients, weight, count, gradients_, from, to);
      parts_[0].execution->update(from, to);  // it reads the sums
    });
  }
  template <class Task>
  static void run_each(typename Kernels::Executor& executor, int tasks, const Task& task) {
    if constexpr (requires { executor.size(); })
      executor.for_each(tasks, [&](int index, int) { task(index); });
    else
      for (int index = 0; index < tasks; ++index) task(index);
  }

  // Results of a sample are put one after the other; those of a batch are means.

  void grow_results(int batch) {
    for (int i = 0; i < result_count; ++i) {
      const TensorInfo& type = *Program::result_types[index(i)];
      results_[index(i)].grow(type.size() * (type.batched ? batch : 1));
    }
  }
  void take_results(Part& part, int first_sample, int samples) {
    for (int i = 0; i < result_count; ++i) {
      const TensorInfo& type = *Program::result_types[index(i)];
      const float* const found = part.execution->result(i);
      if (type.batched)
        std::memcpy(results_[index(i)].data() + type.size() * first_sample, found,
                    sizeof(float) * static_cast<std::size_t>(type.size() * samples));
      else
        part.means[index(i)] = *found;
    }
  }
  void add_up_results(const float* weight) {
    for (int i = 0; i < result_count; ++i) {
      if (Program::result_types[index(i)]->batched) continue;
      float mean = 0;
      for (std::size_t r = 0; r < parts_.size(); ++r)
        if (weight[r] != 0) mean += weight[r] * parts_[r].means[index(i)];
      *results_[index(i)].data() = mean;
    }
  }

  Group* replicas_;
  ThreadNetwork network_;
  std::vector<Part> parts_;
  std::array<const void*, 4> inputs_{};
  std::array<Buffer, 4> results_;
  float* gradients_ = nullptr;
};

}  // namespace tenet
