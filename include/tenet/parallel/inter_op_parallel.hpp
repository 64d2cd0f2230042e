#pragma once

// First, so that a message about a mistake begins with few lines of includes.
#include <atomic>
#include <memory>
#include <tenet/comm/collectives.hpp>
#include <tenet/core/wait_until.hpp>
#include <tenet/ops/mistake.hpp>
#include <tenet/parallel/device_turns.hpp>
#include <tenet/parallel/replicas.hpp>

namespace tenet {

/// One program whose steps are spread over several devices of a process, which share its memory: what does not depend
/// on each other runs at once. Each device runs its steps in the order of their numbers, and waits before those that
/// need, or write over, what another one works with. The same interface as `Execution`, and the same bits.
///
/// The optimizer's steps are shared out by parameters where they are element-wise.
template <class Program, class Device>
class InterOpExecution {
 public:
  using Kernels = typename Program::Kernels;
  using Group = Replicas<Device, Kernels>;

  explicit InterOpExecution(Group& devices)
      : devices_(&devices),
        execution_(devices.executor()),
        turns_(program_turns<Program>()),
        ended_(std::make_unique<Ended[]>(static_cast<std::size_t>(devices.size()))) {
    for (int d = 1; d < devices.size(); ++d)
      if constexpr (requires { devices.executor(d).reserve_scratch(Program::lowered.scratch); })
        devices.executor(d).reserve_scratch(Program::lowered.scratch);
  }

  void set_scalars(const float* scalars, std::uint64_t seed) { execution_.set_scalars(scalars, seed); }
  void bind(Arena arena, float* memory) { execution_.bind(arena, memory); }
  void give(int index, const void* input) { execution_.give(index, input); }
  void use_weights(std::uint64_t version) { execution_.use_weights(version); }

  /// Runs the program. What a step throws on one device ends the others where they wait for it.
  void run(int batch) {
    execution_.begin(batch);
    if constexpr (lends_workspace<Kernels>)
      for (int d = 1; d < devices_->size(); ++d)
        devices_->executor(d).reserve_workspace(execution_.executor_workspace(d));
    abandoned_.store(false, std::memory_order_relaxed);
    const long before = numbered_;
    numbered_ += Program::lowered.used.steps;
    devices_->run([&](int device) {
      try {
        run_turns(device, before);
      } catch (...) {
        abandoned_.store(true, std::memory_order_relaxed);
        throw;
      }
    });
  }

  const float* result(int index) const { return execution_.result(index); }
  long memory_floats() const { return execution_.memory_floats(); }

 private:
  /// The number of the last step that a device has ended, + 1; steps are numbered on from run to run, so that nobody
  /// has to set it back.
  struct alignas(64) Ended {
    std::atomic<long> steps{0};
  };
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  void run_turns(int device, long before) {
    const DeviceTurns& mine = turns_.of[index(device)];
    for (const Turn& turn : mine.turns) {
      for (int w = turn.first_wait; w < turn.first_wait + turn.waits; ++w) {
        const Wait& wait = mine.waits[index(w)];
        wait_for(device, wait, before + wait.step + 1);
      }
      if (turn.step == turns_.shared_update)
        update(device);
      else
        execution_.run_steps(devices_->executor(device), turn.step, turn.step + 1);
      ended_[index(device)].steps.store(before + turn.step + 1, std::memory_order_release);
    }
  }

  void wait_for(int device, const Wait& wait, long number) {
    const std::atomic<long>& ended = ended_[index(wait.device)].steps;
    if (ended.load(std::memory_order_acquire) >= number) return;
    const auto span =
        open_span(devices_->executor(device), {.name = "device", .peer = wait.device, .kind = SpanKind::wait});
    const bool has_ended = wait_until(
        [&] { return ended.load(std::memory_order_acquire) >= number || abandoned_.load(std::memory_order_relaxed); },
        devices_->limit());
    if (ended.load(std::memory_order_acquire) < number) fail_without(device, wait, number, has_ended);
  }
  /// `ended`: as some device has failed.
  [[noreturn, gnu::cold]] void fail_without(int device, const Wait& wait, long number, bool ended) {
    const std::string own = detail::with_number("InterOpParallel: device", device);
    // Of what runs outside of training nobody counts the runs.
    constexpr bool trains = Program::lowered.after_update > Program::lowered.first_update;
    const MessageLabel step{Program::lowered.steps[wait.step].name, wait.step,
                            trains ? (number - 1) / Program::lowered.used.steps + 1 : -1};
    if (ended) detail::fail_abandoned(own, "device", step);
    detail::fail_waiting(own, "waits for " + detail::with_number("device", wait.device), step,
                         std::chrono::duration<double>(devices_->limit()).count());
  }

  /// A device's part of the optimizer's steps.
  void update(int device) {
    const std::vector<FloatRange>& blocks = turns_.updated[index(device)];
    const auto span = open_span(devices_->executor(device), update_span<Program>);
    devices_->run_each(device, static_cast<int>(blocks.size()), [&](int task) {
      const FloatRange& part = blocks[index(task)];
      execution_.update(part.first, part.first + part.count);
    });
  }

  Group* devices_;
  Execution<Program, OneSampleNever> execution_;
  ProgramTurns turns_;
  std::unique_ptr<Ended[]> ended_;
  long numbered_ = 0;
  alignas(64) std::atomic<bool> abandoned_{false};
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

}  // namespace tenet
