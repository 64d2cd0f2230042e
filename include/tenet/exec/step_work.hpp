#pragma once

#include <algorithm>
#include <array>
#include <tenet/core/random.hpp>
#include <tenet/device/timed_event.hpp>
#include <tenet/exec/execution.hpp>
#include <vector>

/// What the steps of a program have to do, and how long they take: by a model of the machine, or measured.
namespace tenet {

/// The work of a lowered step.
struct StepWork {
  Cost flops, bytes;  ///< the latter read and written, each value once
  bool is_forward = false;
};

/// What a device does in a second, at most, and what every step costs besides: a roofline. The defaults are those of
/// one core; measure your own.
struct Machine {
  double flops_per_second = 4e10;
  double bytes_per_second = 1e10;
  double seconds_of_call = 5e-7;

  constexpr double seconds(const StepWork& work, int batch) const {
    return seconds_of_call + std::max(static_cast<double>(work.flops.at(batch)) / flops_per_second,
                                      static_cast<double>(work.bytes.at(batch)) / bytes_per_second);
  }
};

/// The work of each step of a program that runs on one device.
template <class Program>
std::vector<StepWork> work_of_steps() {
  const auto& g = Program::graph;
  const auto& fusion = Program::fusion;
  const auto& lowered = Program::lowered;
  std::vector<StepWork> result(static_cast<std::size_t>(lowered.used.steps));
  std::vector<int> read(static_cast<std::size_t>(g.count), -1);  // of each value: by which step at last
  for (int s = 0; s < lowered.used.steps; ++s) {
    const auto& step = lowered.steps[s];
    StepWork& work = result[static_cast<std::size_t>(s)];
    const auto move = [&](bool batched, long elements, long bytes) {
      (batched ? work.bytes.per_sample : work.bytes.fixed) += elements * bytes;
    };
    const auto move_value = [&](int value) {
      move(g.nodes[value].type->batched, g.nodes[value].type->size(), Program::storage.is_narrow(value) ? 2 : 4);
    };
    const auto write_region = [&](int region) {
      if (region < 0) return;
      const RegionCall& call = lowered.calls[region];
      for (int k = 0; k < call.outputs; ++k)
        move(call.batched, call.size(), lowered.outputs[call.first_output + k].dtype == DType::bfloat16 ? 2 : 4);
    };
    const int head = Program::order.head[step.number];
    work.is_forward = head < g.forward_count;
    // A copy, or a region apart from its kernel, with which what it computes is counted.
    if (is_copy(lowered, step) || (step.kind == Kind::element && g.nodes[head].operation->kind != Kind::element)) {
      write_region(step.region);
      write_region(step.region);  // as much is read
      if (step.relayout.is_needed()) move(true, 2 * step.relayout.size(), 4);
      continue;
    }
    work.flops.fixed = step_flops(g, fusion, head, 0);
    work.flops.per_sample = step_flops(g, fusion, head, 1) - work.flops.fixed;
    for_each_read(g, fusion, head, [&](int value, bool) {
      if (read[static_cast<std::size_t>(value)] != s) move_value(value);
      read[static_cast<std::size_t>(value)] = s;
    });
    if (step.kind != Kind::element) move_value(head);
    write_region(step.kind == Kind::element ? step.region : step.epilogue);
  }
  return result;
}

/// Seconds of each step, by the model.
template <class Program>
std::vector<double> seconds_of_steps(const Machine& machine, int batch) {
  std::vector<double> seconds;
  for (const StepWork& work : work_of_steps<Program>())
    seconds.push_back(
        static_cast<int>(seconds.size()) < Program::lowered.prepared_steps ? 0 : machine.seconds(work, batch));
  return seconds;
}

/// Seconds of each step, measured on this machine: the program runs `rounds` times on random numbers (labels and tokens
/// are 0), after one round that is not counted. A step's time is its shortest one; all of them are stretched by one
/// factor, so that they take together what the quickest round took.
///
/// On a device with a memory of its own the steps run one after the other, between two events of the device: a step
/// that takes less time than the host needs to start one seems to take as long as that.
template <class Device, class Program>
std::vector<double> measured_seconds_of_steps(int batch, int rounds = 10) {
  using Kernels = typename Program::Kernels;
  using Executor = typename Kernels::Executor;
  constexpr bool own_memory = HasOwnMemory<Executor>;
  static_assert(!own_memory || HasTimedEvents<Executor>,
                "measured_seconds_of_steps: a device that reads the host's memory, or has events of its own");
  static_assert(Program::slots.table_count == 0, "measured_seconds_of_steps: a network without sparse tables");
  using Devices = std::conditional_t<own_memory, ResidentDevice<Device, Kernels>, OneDevice<Device, Kernels>>;
  using One = std::conditional_t<own_memory, ResidentExecution<Program>, Execution<Program, OneSampleNever>>;
  Devices devices;
  One execution(devices);
  Random random(1);
  const auto filled = [&](long floats, float low, float high) {
    Buffer buffer(floats);
    for (long i = 0; i < floats; ++i) buffer.data()[i] = random.uniform(low, high);
    return buffer;
  };
  Buffer parameters = filled(Program::slots.parameter_floats, -0.05f, 0.05f),
         buffers = filled(Program::slots.buffer_floats, 0.5f, 1.0f), gradients(Program::slots.parameter_floats),
         states(Program::state_count * Program::slots.parameter_floats);
  execution.bind(Arena::parameters, parameters.data());
  execution.bind(Arena::buffers, buffers.data());
  execution.bind(Arena::gradients, gradients.data());
  execution.bind(Arena::states, states.data());
  const float settings[16]{};  // a learning rate of 0
  execution.set_scalars(settings, 1);
  std::array<Buffer, 4> inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo* const type = Program::input_types[i];
    if (type == nullptr) continue;
    const long numbers = type->size() * (type->batched ? batch : 1);
    inputs[i] = type->dtype == DType::float32 ? filled(numbers, -1, 1) : Buffer(numbers);
    execution.give(static_cast<int>(i), inputs[i].data());
  }
  execution.use_weights(1);
  if constexpr (own_memory)
    execution.run(batch);  // which copies the inputs in
  else
    execution.begin(batch);

  constexpr int first = Program::lowered.prepared_steps, steps = Program::lowered.used.steps;
  std::vector<double> best(static_cast<std::size_t>(steps), 1e30);
  std::fill_n(best.begin(), first, 0.0);
  // Events are looked at when all has run: meanwhile a device is not kept waiting for its next step.
  constexpr auto events_of_round = static_cast<std::size_t>(steps - first + 1);
  std::vector<TimedEventOf<Executor>> events(events_of_round * (static_cast<std::size_t>(rounds) + 1));
  for (auto& event : events) event.record(devices.executor());  // the first time makes them, too
  auto* event = events.data();
  for (int round = 0; round <= rounds; ++round) {
    event++->record(devices.executor());
    for (int s = first; s < steps; ++s) {
      execution.run_steps(s, s + 1);
      event++->record(devices.executor());
    }
  }
  double quickest = 1e30;
  event = events.data();
  for (int round = 0; round <= rounds; ++round, event += events_of_round) {
    if (round == 0) continue;
    quickest = std::min(quickest, event[0].elapsed_seconds(event[events_of_round - 1]));
    for (std::size_t i = 0; i + 1 < events_of_round; ++i) {
      double& seconds = best[static_cast<std::size_t>(first) + i];
      seconds = std::min(seconds, event[i].elapsed_seconds(event[i + 1]));
    }
  }
  double sum = 0;
  for (const double seconds : best) sum += seconds;
  if (sum > 0)
    for (double& seconds : best) seconds *= quickest / sum;
  return best;
}

}  // namespace tenet
