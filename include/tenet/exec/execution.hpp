#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <tenet/core/any_object.hpp>
#include <tenet/core/buffer.hpp>
#include <tenet/core/processors.hpp>
#include <tenet/device/own_memory.hpp>
#include <tenet/exec/one_sample.hpp>
#include <tenet/exec/program.hpp>
#include <utility>

namespace tenet {

/// The processors that a device has to itself; none: its workers use all.
template <class Device>
ProcessorSet processors_of() {
  if constexpr (requires { Device::processors(); })
    return Device::processors();
  else
    return {};
}

/// An executor of a device, with so many workers, on some processors if these are given. Of devices with memories of
/// their own the replicas are those from the device's number on.
template <class Device, class Kernels = typename Device::Kernels>
[[gnu::noinline]] auto make_executor(int threads, int replica = 0, const ProcessorSet& processors = {}) {
  using Executor = typename Kernels::Executor;
  if constexpr (requires { Executor(Device::index, Kernels::uses_tensor_float32, Kernels::measures_convolutions); })
    return std::make_unique<Executor>(Device::index + replica, Kernels::uses_tensor_float32,
                                      Kernels::measures_convolutions);
  else if constexpr (HasOwnMemory<Executor>)
    return std::make_unique<Executor>(Device::index + replica);
  else if constexpr (std::is_constructible_v<Executor, int, const ProcessorSet&>)
    return std::make_unique<Executor>(threads, processors);
  else
    return std::make_unique<Executor>();
}
/// That of a device: its workers, as the kernels want them, as many and where it says.
template <class Device, class Kernels = typename Device::Kernels>
auto make_executor() {
  return make_executor<Device, Kernels>(Device::threads(), 0, processors_of<Device>());
}

/// What is recorded of the optimizer's steps where they run by parts of the parameters.
template <class Program>
inline constexpr Span update_span{
    .name = "update", .subject = &Program::lowered.steps[Program::lowered.first_update], .kind = SpanKind::update};

/// Calls task(i) for i from 0 to `tasks`, shared among the executor's workers if it has any.
template <class Executor, class Task>
void for_each_task(Executor& executor, int tasks, const Task& task) {
  if constexpr (requires { executor.size(); })
    executor.for_each(tasks, [&](int i, int) { task(i); });
  else
    for (int i = 0; i < tasks; ++i) task(i);
}

/// One device; an execution is made with it as with its executor.
template <class Device, class Kernels = typename Device::Kernels>
class OneDevice {
 public:
  using Executor = typename Kernels::Executor;
  Executor& executor() { return *executor_; }
  operator Executor&() { return *executor_; }

 private:
  std::unique_ptr<Executor> executor_ = make_executor<Device, Kernels>();
};

template <class Program, class OneSample = OneSampleIfSmall>
class Execution;

// Of devices with a memory of their own: exec/resident_execution.hpp, a part of tenet/cuda.hpp.
struct NoExchanges;
template <class Program, class Exchanges = NoExchanges>
class ResidentExecution;
template <class Device, class Kernels>
class ResidentDevice;
template <class Executor>
class ResidentArenas;

namespace detail {

/// Whether a batch of one has a program of its own: the policy wants it, and the device has such programs.
template <class Program, class OneSample>
inline constexpr bool has_one_sample = [] {
  if constexpr (batch_is_known<typename Program::Kernels::Arguments>)
    return false;
  else if constexpr (requires { typename Program::Definition::template For<typename Program::Kernels::OneSample>; })
    return Program::flops.at(1) <= OneSample::most_flops && Program::lowered.used.steps <= OneSample::most_steps;
  else
    return false;
}();

template <class P>
using OneSampleExecution = Execution<Program<typename P::Definition::template For<typename P::Kernels::OneSample>>>;

}  // namespace detail

/// A program with its memory: activations for the largest batch met so far, values without a batch, and the numbers
/// that are set before a run. Parameters, gradients and optimizer state belong to the caller.
template <class Program, class OneSample>
class Execution {
 public:
  using Kernels = typename Program::Kernels;
  using Executor = typename Kernels::Executor;

  explicit Execution(Executor& executor) : executor_(&executor) {
    if constexpr (has_one_sample()) one_sample_.emplace<detail::OneSampleExecution<Program>>(executor);
    fixed_.grow(executor, Program::fixed_floats, "values without a batch");
    numbers_.grow(static_cast<long>(Program::numbers.size()));
    if constexpr (requires { executor.reserve_scratch(Program::lowered.scratch); })
      executor.reserve_scratch(Program::lowered.scratch);
    for_each_number([&](const NumberEntry& entry, float& number) {
      if (entry.source == Source::constant) number = entry.value;
    });
    arenas_[Arena::fixed] = fixed_.data();
    arenas_[Arena::numbers] = numbers_.data();
    if constexpr (batch_is_known<typename Kernels::Arguments>)
      prepare(Kernels::Arguments::batch, Kernels::Arguments::batch);
  }

  /// Numbers of a run that are not constants: those named `scalar`, and the seed.
  void set_scalars(const float* scalars, std::uint64_t seed) {
    if constexpr (has_one_sample()) one_sample().set_scalars(scalars, seed);
    for_each_number([&](const NumberEntry& entry, float& number) {
      if (entry.source == Source::scalar) number = scalars[entry.index];
    });
    set_seed(seed);
  }
  void set_seed(std::uint64_t seed) {
    for_each_number([&](const NumberEntry& entry, float& number) {
      if (entry.source == Source::seed) {
        const auto half = static_cast<std::uint32_t>(entry.index == 0 ? seed : seed >> 32);
        std::memcpy(&number, &half, sizeof half);
      }
    });
  }

  /// Where parameters, gradients, buffers and states are.
  void bind(Arena arena, float* memory) {
    arenas_[arena] = memory;
    if constexpr (has_one_sample()) one_sample().bind(arena, memory);
  }
  /// Where the inputs of the next run are.
  void give(int index, const void* input) {
    arenas_.inputs[index] = input;
    if constexpr (has_one_sample()) one_sample().give(index, input);
  }

  /// Which values parameters and buffers have, by a number that changes with them: what is derived from them is kept
  /// from run to run while it stays the same. A program that changes them itself keeps nothing.
  void use_weights(std::uint64_t version) {
    if (version != version_) is_prepared_ = false;
    version_ = version;
    if constexpr (has_one_sample()) one_sample().use_weights(version);
  }

  /// Runs the program.
  void run(int batch) {
    if constexpr (has_one_sample()) {
      ran_one_sample_ = batch == 1;
      if (batch == 1) return one_sample().run(1);
    }
    begin(batch);
    if constexpr (batch_is_known<typename Kernels::Arguments>)
      OneSampleRunner<Program>::run(*executor_, arenas_);
    else
      run_steps(Program::lowered.prepared_steps, Program::lowered.used.steps);
  }

  /// `run` in parts, for whoever has something to do in between: what comes before the first step, and the steps
  /// `first` to `last`.
  void begin(int batch) { begin(batch, batch); }
  /// The same for a worker with `batch` of the samples, perhaps none, that all workers have.
  void begin(int batch, long samples_of_all) {
    find_room(batch, samples_of_all);
    run_prepared([this](int first, int last) { run_steps(first, last); });
  }
  void run_steps(int first, int last) {
    if constexpr (Program::is_on_part)
      if (arenas_.batch == 0 && last <= Program::lowered.first_update) return add_nothing(first, last);
    run_steps(*executor_, first, last);
  }
  /// Floats of workspace that a device's steps need of their executor, after `begin`: of several devices, where the
  /// program's memory has no room.
  long executor_workspace(int device = 0) const {
    long most = 0;
    for (std::size_t s = 0; s < workspaces_.size(); ++s)
      if (!workspaces_[s].is_lent && Program::order.device_of(static_cast<int>(s)) == device)
        most = std::max(most, workspaces_[s].floats);
    return most;
  }
  /// By another executor, which may do so while others run steps that do not depend on these.
  void run_steps(Executor& executor, int first, int last) const {
    StepRunner<Kernels>::run(executor, arenas_, step_tables<Program>(first, last));
  }

  /// Of the optimizer's steps, where all of them are element-wise, those that the steps over all parameters need.
  void prepare_update() {
    for (int s = Program::lowered.first_update; s < Program::lowered.after_update; ++s)
      if (!is_over_parameters<Program>(s)) run_steps(s, s + 1);
  }
  /// Elements [from, to) of the steps over all parameters, by the calling thread.
  void update(long from, long to) const {
    constexpr int first = Program::lowered.first_update, last = Program::lowered.after_update;
    StepRunner<Kernels>::run_elements(arenas_, step_tables<Program>(first, last), Program::slots.parameter_floats, from,
                                      to, Program::slots.parameter_floats);
  }

  /// The same for so many parameters, and what belongs to them, that lie elsewhere: the k-th state behind the first by
  /// k times `state_step` floats.
  void update(float* parameters, float* gradients, float* states, long count,
              long state_step = Program::slots.parameter_floats) const {
    constexpr int first = Program::lowered.first_update, last = Program::lowered.after_update;
    StepRunner<Kernels>::run_elements(arenas_with(parameters, gradients, states), step_tables<Program>(first, last),
                                      Program::slots.parameter_floats, 0, count, state_step);
  }
  /// The same, shared among the executor's workers by blocks that stay in cache, with the gradients that
  /// gradients_of(first, count, room) gives, which may put those of a block into `room`. In a timeline it is the update
  /// of `Recorded`, whose definition has this one's.
  template <class Recorded = Program, class GradientsOf>
  void update_by_blocks(float* parameters, GradientsOf gradients_of, float* states, long count,
                        long state_step = Program::slots.parameter_floats) const {
    constexpr long block = 4096;
    const auto span = open_span(*executor_, update_span<Recorded>);
    for_each_task(*executor_, static_cast<int>((count + block - 1) / block), [&](int i) {
      alignas(64) float room[block];
      const long first = i * block, size = std::min(block, count - first);
      update(parameters + first, gradients_of(first, size, room), states != nullptr ? states + first : nullptr, size,
             state_step);
    });
  }
  /// The same of one of these steps, on a device with a memory of its own.
  void update(Executor& executor, int step, float* parameters, float* gradients, float* states, long count,
              long state_step) const {
    StepRunner<Kernels>::run_elements(executor, arenas_with(parameters, gradients, states),
                                      step_tables<Program>(0, Program::lowered.used.steps),
                                      Program::lowered.steps[step], Program::slots.parameter_floats, count, state_step);
  }

  /// Where a value of the run lies, such as an input or a result.
  const void* at(const Place& place) const { return arenas_.at(place); }

  /// Result `index` of the last run.
  const float* result(int index) const {
    if constexpr (has_one_sample())
      if (ran_one_sample_) return one_sample().result(index);
    return static_cast<const float*>(arenas_.at(Program::results[static_cast<std::size_t>(index)]));
  }

  /// Floats held for activations and values without a batch.
  long memory_floats() const { return per_sample_.size() + fixed_.size(); }

  /// Whether a batch of one has a program of its own.
  static constexpr bool has_one_sample() { return detail::has_one_sample<Program, OneSample>; }

 protected:
  /// The two parts of `begin`: the memory and the numbers for a batch; and the steps that are run once, by run(first,
  /// last), if they have not been.
  void find_room(int batch, long samples_of_all) {
    if (batch != arenas_.batch || samples_of_all != samples_of_all_) prepare(batch, samples_of_all);
  }
  template <class Run>
  void run_prepared(const Run& run) {
    if constexpr (Program::lowered.prepared_steps > 0) {
      if (!is_prepared_) run(0, Program::lowered.prepared_steps);
      is_prepared_ = true;
    }
  }
  /// Those that have been set.
  const Buffer& numbers() const { return numbers_; }

 private:
  auto& one_sample() const { return one_sample_.as<detail::OneSampleExecution<Program>>(); }

  Arenas arenas_with(float* parameters, float* gradients, float* states) const {
    Arenas there = arenas_;
    there[Arena::parameters] = parameters;
    there[Arena::gradients] = gradients;
    there[Arena::states] = states;
    return there;
  }

  void prepare(int batch, long samples_of_all) {
    const long room = Program::lowered.room_for(batch);
    long workspace = 0;
    if constexpr (lends_workspace<Kernels>) {
      workspaces_.fill({});
      arenas_.workspaces = workspaces_.data();
      if (batch > 0)
        workspace = StepRunner<Kernels>::place_workspaces(batch, room, Program::per_sample_floats,
                                                          step_tables<Program>(0, Program::lowered.used.steps),
                                                          workspaces_.data());
      executor_->reserve_workspace(executor_workspace());
    }
    per_sample_.grow(*executor_, Program::per_sample_floats * room + workspace, "the activations of a batch");
    arenas_.batch = batch;
    arenas_.room = room;
    samples_of_all_ = samples_of_all;
    arenas_[Arena::per_sample] = per_sample_.data();
    const auto samples = static_cast<double>(Program::is_on_part ? samples_of_all : batch);
    for_each_number([&](const NumberEntry& entry, float& number) {
      if (entry.source == Source::reciprocal_count) number = static_cast<float>(1.0 / (samples * entry.index));
      if (entry.source == Source::batch_share) number = static_cast<float>(batch / samples);
    });
  }

  /// What a worker without samples does of the steps: it takes part in the sums over all workers.
  void add_nothing(int first, int last) {
    for (const Step<Kernels>* step = Program::lowered.steps + first; step != Program::lowered.steps + last; ++step) {
      if (!is_sum_over_workers(*step)) continue;
      std::fill_n(arenas_.writable(step->result), step->attribute, 0.0f);
      executor_->worker_sum(arenas_.writable(step->result), step->attribute);
    }
  }

  template <class Function>
  void for_each_number(Function function) {
    int at = 0;
    for (const NumberEntry& entry : Program::numbers) function(entry, numbers_.data()[at++]);
  }

  Executor* executor_;
  DeviceBuffer<Executor> per_sample_, fixed_;
  Buffer numbers_;
  Arenas arenas_{};
  std::array<Workspace, static_cast<std::size_t>(Program::order.count)> workspaces_{};  // by the number of a step
  long samples_of_all_ = 0;
  std::uint64_t version_ = 0;
  bool ran_one_sample_ = false, is_prepared_ = false;
  /// The program for a batch of one. Without its type, so that whoever only names an execution does not compile it.
  AnyObject one_sample_;
};

namespace detail {

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
}  // namespace tenet
