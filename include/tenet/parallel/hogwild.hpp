#pragma once

// clang-format off: compilers name the way to this header in every message about a mistake; this is the shortest
#include <tenet/ops/mistake.hpp>
// clang-format on

#include <array>
#include <atomic>
#include <tenet/comm/common_memory.hpp>
#include <tenet/core/buffer.hpp>
#include <tenet/exec/sparse_tables.hpp>
#include <tenet/parallel/relaxed_access.hpp>
#include <tenet/parallel/replicas.hpp>
#include <tenet/parallel/synchronisation.hpp>

/// Replicas, or processes of one machine, that update common parameters without waiting for each other: the
/// synchronisation `Hogwild`. Not part of tenet/tenet.hpp.
namespace tenet {

template <class Program, class Group, int samples>
class HogwildExecution;
template <class Program, class Devices, int samples, SharesMemory T>
class HogwildRankExecution;

/// A batch is cut into parts of so many samples. Replicas take one after the other, whoever is free; each computes the
/// gradient of a part with the parameters as it finds them, or as they were at its last update in the step, and updates
/// them at once. Updates of others in between are not waited for, and one of two that meet at a number may be lost.
/// Each replica has an optimizer state of its own; what changes from step to step, such as Adam's corrections, counts
/// batches. Of sparse tables an update reads and writes the rows that its samples choose. (Niu, Recht, Ré, Wright,
/// NeurIPS 2011.)
template <int Samples>
struct Hogwild {
  static_assert(Samples >= 1, "Hogwild<samples>: at least one sample for an update");
  static constexpr const char* name = "Hogwild!";
  static constexpr bool sends_buckets = false;
  static constexpr int samples_of_update = Samples;
  static constexpr Traffic traffic{.most_ahead = Traffic::unbounded};
  template <class T>
  static constexpr bool works_between = SharesMemory<T>;
  template <class Program, class Device>
  using StepOfReplicas = HogwildExecution<Program, Replicas<Device, typename Program::Kernels>, Samples>;
  template <class Program, class Passes, long, class T>
  using StepOfRank = HogwildRankExecution<Program, typename Passes::Devices, Samples, T>;
};

/// A training step on replicas that share parameters without locks. The same interface as `Execution`. Results are
/// means over all parts of the batch, each with the parameters that it met; running statistics are the first replica's,
/// and the gradients that of its last part. `Group` is a `Replicas`, or what behaves like one.
template <class Program, class Group, int samples>
class HogwildExecution {
 public:
  using Kernels = typename Program::Kernels;

  explicit HogwildExecution(Group& replicas) : replicas_(&replicas), parts_(static_cast<std::size_t>(replicas.size())) {
    static_assert(Program::lowered.after_update > Program::lowered.first_update, "a training step");
    static_assert(updates_by_elements<Program>(),
                  "Hogwild: the optimizer's update is not element-wise over all parameters");
    replicas.run([&](int r) {  // its memory is touched first by the thread that works with it
      Part& part = parts_[index(r)];
      part.execution = std::make_unique<One>(replicas.executor(r));
      const auto own = [&](Arena arena, Buffer& memory, long floats) {
        memory.grow(floats);
        part.bound[index(arena)] = memory.data();
        part.execution->bind(arena, memory.data());
      };
      own(Arena::parameters, part.parameters, Program::slots.parameter_floats);
      if (r == 0) return;
      own(Arena::gradients, part.gradients, dense);
      own(Arena::states, part.states, Program::state_count * Program::slots.parameter_floats);
      if (Program::slots.buffer_floats > 0) own(Arena::buffers, part.buffers, Program::slots.buffer_floats);
    });
  }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    seed_ = seed;
    for (Part& part : parts_) part.execution->set_scalars(scalars, seed);
  }
  void bind(Arena arena, float* memory) {
    if (arena == Arena::parameters) {
      shared_ = memory;
    } else {
      parts_[0].bound[index(arena)] = memory;
      parts_[0].execution->bind(arena, memory);
    }
  }
  void give(int input, const void* data) { inputs_[index(input)] = data; }
  void use_weights(std::uint64_t version) {
    for (Part& part : parts_) part.execution->use_weights(version);
  }

  void run(int batch) {
    const int updates = (batch + samples - 1) / samples;
    std::atomic<int> next{0};
    replicas_->run([&](int r) {
      Part& part = parts_[index(r)];
      part.results.fill(0);
      bool has_updated = false;
      for (int i = next.fetch_add(1); i < updates; i = next.fetch_add(1), has_updated = true) {
        const int first = i * samples, count = std::min(samples, batch - first);
        train(r, i, first, count, has_updated);
      }
    });
    results_.fill(0);
    for (const Part& part : parts_)
      for (std::size_t i = 0; i < results_.size(); ++i) results_[i] += part.results[i] / static_cast<float>(batch);
  }

  /// The gradients of sparse tables to where the others are.
  void collect_gradients() {
    if constexpr (Program::slots.table_count > 0)
      parts_[0].tables.show_gradients(parts_[0].bound[index(Arena::gradients)]);
  }
  const float* result(int i) const { return &results_[index(i)]; }
  long memory_floats() const {
    long sum = 0;
    for (const Part& part : parts_) sum += part.execution->memory_floats();
    return sum;
  }

 private:
  using One = Execution<Program, OneSampleNever>;
  static constexpr long dense = Program::slots.dense_floats, block = 2048;
  struct NoTables {};

  struct Part {
    std::unique_ptr<One> execution;
    std::array<float*, 8> bound{};
    Buffer parameters, gradients, states, buffers;
    std::array<float, 4> results{};  // sums over its samples
    [[no_unique_address]] std::conditional_t<(Program::slots.table_count > 0), SparseTables<Program>, NoTables> tables;
  };
  static constexpr std::size_t index(auto i) { return static_cast<std::size_t>(i); }

  /// One update, with the samples from `first` on. Behind an update of the same step the replica has the parameters as
  /// they were then: they are read once for an update.
  void train(int r, int number, int first, int count, bool has_updated) {
    Part& part = parts_[index(r)];
    One& execution = *part.execution;
    float *const own = part.bound[index(Arena::parameters)], *const gradients = part.bound[index(Arena::gradients)],
                 *const states = part.bound[index(Arena::states)];
    const auto for_blocks = [&](auto task) {
      replicas_->run_each(r, static_cast<int>((dense + block - 1) / block),
                          [&](int b) { task(b * block, std::min(block, dense - b * block)); });
    };
    if (!has_updated)
      for_blocks([&](long from, long floats) { RelaxedAccess::load(shared_ + from, own + from, floats); });
    execution.set_seed(seed_ + static_cast<std::uint64_t>(number) * 0xd1342543de82ef95u);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const TensorInfo* const type = Program::input_types[i];
      if (type == nullptr || inputs_[i] == nullptr) continue;
      const long skipped = type->batched ? type->size() * first : 0;
      execution.give(static_cast<int>(i), static_cast<const float*>(inputs_[i]) + skipped);
    }
    execution.begin(count);
    if constexpr (Program::slots.table_count > 0) {
      constexpr bool packed = tokens_choose_rows_only<Program>;
      part.tables.find(execution, count);
      part.tables.template load<RelaxedAccess, packed>(replicas_->executor(r), shared_, own);
      if (packed) execution.give(static_cast<int>(tables_of_step<Program>[0].tokens.offset), part.tables.positions());
    }
    execution.run_steps(Program::lowered.prepared_steps, Program::lowered.first_update);
    execution.prepare_update();
    {
      const auto span = open_span(replicas_->executor(r), update_span<Program>);
      for_blocks([&](long from, long floats) {
        float before[block];
        float* const now = own + from;
        RelaxedAccess::load(shared_ + from, now, floats);
        std::copy_n(now, floats, before);
        execution.update(now, gradients + from, Program::state_count > 0 ? states + from : nullptr, floats);
        RelaxedAccess::store(before, now, shared_ + from, floats);
      });
      if constexpr (Program::slots.table_count > 0)
        part.tables.template update<RelaxedAccess>(execution, replicas_->executor(r), shared_, states);
    }
    execution.run_steps(Program::lowered.after_update, Program::lowered.used.steps);
    for (int i = 0; i < Program::result_count; ++i)
      part.results[index(i)] += *execution.result(i) * static_cast<float>(count);
  }

  Group* replicas_;
  std::vector<Part> parts_;
  std::array<const void*, 4> inputs_{};
  std::array<float, 4> results_{};
  float* shared_ = nullptr;
  std::uint64_t seed_ = 0;
};

namespace detail {

/// A group of one replica, which is the caller.
template <class Executor>
struct OneReplica {
  Executor* executor_of_one;

  int size() const { return 1; }
  Executor& executor(int = 0) { return *executor_of_one; }
  template <class Task>
  void run(Task&& task) {
    task(0);
  }
  template <class Task>
  void run_each(int, int tasks, const Task& task) {
    for_each_task(*executor_of_one, tasks, task);
  }
};

/// What a rank trains with: one device, or its replicas.
template <class Executor>
struct GroupOfRank {
  using Group = OneReplica<Executor>;
  Group group;
  explicit GroupOfRank(Executor& executor) : group{&executor} {}
};
template <class Device, class Kernels>
struct GroupOfRank<Replicas<Device, Kernels>> {
  using Group = Replicas<Device, Kernels>;
  Group& group;
  explicit GroupOfRank(Group& replicas) : group(replicas) {}
};

template <class Program, class Devices, int samples>
using HogwildOfRank = HogwildExecution<Program, typename GroupOfRank<Devices>::Group, samples>;

}  // namespace detail

/// A training step of a rank that shares the parameters with the other ranks, as replicas do, those of the rank, too.
/// They begin with those of rank 0. A rank takes its own steps, of its own samples; results and running statistics are
/// its own. Whether they have memory in common may turn out when they connect; if not, that throws.
///
/// The trainer's parameters are a copy, which is made anew by each step; of sparse tables by `synchronize`. The same
/// interface as `Execution`. All ranks make one together, take at least one step or synchronise, and then as many as
/// they like.
template <class Program, class Devices, int samples, SharesMemory T>
class HogwildRankExecution : detail::GroupOfRank<Devices>, public detail::HogwildOfRank<Program, Devices, samples> {
 public:
  using Wild = detail::HogwildOfRank<Program, Devices, samples>;

  HogwildRankExecution(Devices& devices, T transport)
      : detail::GroupOfRank<Devices>(devices), Wild(this->group), transport_(std::move(transport)) {
    if (transport_.size() > 1 && !transport_.link().shares)
      fail("Hogwild", "these ranks have no memory in common, for want of room or because they run on several machines",
           "ranks of one machine that share it, or ParameterServer<Sharded, Asynchronous> in place of Hogwild",
           std::to_string(transport_.size()) + " ranks that exchange messages");
  }

  void bind(Arena arena, float* memory) {
    if (arena == Arena::parameters)
      own_ = memory;
    else
      Wild::bind(arena, memory);
  }

  void run(int batch) {
    begin();
    Wild::run(batch);
    RelaxedAccess::load(common_, own_, Program::slots.dense_floats);
  }

  /// Waits until all ranks have come here; from then on all have the same parameters.
  void synchronize() {
    begin();
    barrier(transport_, {"the parameters of all ranks", -1, ++meetings_});
    RelaxedAccess::load(common_, own_, Program::slots.parameter_floats);
    barrier(transport_, {"the parameters of all ranks", -2, meetings_});
  }

 private:
  void begin() {
    if (common_ != nullptr) return;
    if (transport_.size() == 1) {
      alone_.grow(Program::slots.parameter_floats);
      common_ = alone_.data();
    } else {
      common_ = common_memory(transport_, Program::slots.parameter_floats, {"parameters", -1, 0});
    }
    if (transport_.rank() == 0) std::copy_n(own_, Program::slots.parameter_floats, common_);
    barrier(transport_, {"parameters", -2, 0});
    Wild::bind(Arena::parameters, common_);
  }

  T transport_;
  Buffer alone_;  // where there are no other ranks
  float *own_ = nullptr, *common_ = nullptr;
  long meetings_ = 0;
};

}  // namespace tenet
