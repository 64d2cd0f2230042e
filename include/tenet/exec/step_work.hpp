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

namespace detail {

/// Adds up the work of a step: what it reads is counted once for each place, and not if the step writes it.
template <class Lowered>
class StepWorkSum {
 public:
  explicit StepWorkSum(const Lowered& lowered) : lowered_(lowered) {}

  void write(const Place& place, long elements, bool batched) {
    move(place, elements, batched);
    known_.push_back(place);
  }
  void read(const Place& place, long elements, bool batched) {
    if (std::find(known_.begin(), known_.end(), place) != known_.end()) return;
    move(place, elements, batched);
    known_.push_back(place);
  }
  /// What a region computes, and reads; `columns` of what it sums.
  void add_region(int region, bool stores, long columns) {
    if (region < 0) return;
    const RegionCall& call = lowered_.calls[region];
    const Wiring& wiring = lowered_.programs[call.program].wiring;
    (call.batched ? work.flops.per_sample : work.flops.fixed) += (wiring.operations + wiring.summed) * call.size();
    for (int k = 0; k < call.inputs; ++k) {
      const RegionInput& input = lowered_.inputs[call.first_input + k];
      const bool whole = input.access.whole();
      read(input.place, whole ? call.size() : input.access.count, whole ? call.batched : input.access.batched);
    }
    for (int k = 0; k < call.outputs && stores; ++k) {
      const bool is_stored = k < wiring.stored();
      // In the place of an operand, too: it is read and written.
      move(lowered_.outputs[call.first_output + k], is_stored ? call.size() : columns, is_stored && call.batched);
    }
  }

  StepWork work;

 private:
  void move(const Place& place, long elements, bool batched) {
    (batched ? work.bytes.per_sample : work.bytes.fixed) += elements * (place.dtype == DType::bfloat16 ? 2 : 4);
  }

  const Lowered& lowered_;
  std::vector<Place> known_;
};

}  // namespace detail

/// The work of each step of a program that runs on one device.
template <class Program>
std::vector<StepWork> work_of_steps() {
  const auto& g = Program::graph;
  const auto& lowered = Program::lowered;
  std::vector<StepWork> result;
  for (int s = 0; s < lowered.used.steps; ++s) {
    const auto& step = lowered.steps[s];
    const auto& node = g.nodes[Program::order.head[step.number]];
    detail::StepWorkSum sum(lowered);
    sum.work.is_forward = Program::order.head[step.number] < g.forward_count;
    if (step.relayout.is_needed()) {
      sum.read(step.operands[0], step.relayout.size(), true);
      sum.write(step.result, step.relayout.size(), true);
    }
    if (step.kind != Kind::element) {
      sum.work.flops = step.flops;
      sum.write(step.result, node.type->size(), node.type->batched);
    }
    for (int j = 0; step.kind == Kind::kernel && j < step.operand_count; ++j) {
      const TensorInfo& type = *g.nodes[node.operands[j]].type;
      sum.read(step.operands[j], type.size(), type.batched);
    }
    sum.add_region(step.region, step.kind == Kind::element, step.sum.count);
    sum.add_region(step.epilogue, true, 0);
    result.push_back(sum.work);
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
    const long numbers = type->size(batch);
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
