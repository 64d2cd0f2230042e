#pragma once

#include <algorithm>
#include <array>
#include <tenet/exec/turns.hpp>
#include <tenet/parallel/replicas.hpp>
#include <vector>

/// The turns of a program whose steps are spread over several devices.
namespace tenet {

/// The turns of a program, but for its prepared steps, which come before all others.
struct ProgramTurns {
  std::vector<DeviceTurns> of;  ///< each device
  int shared_update = -1;       ///< the step in whose turn all devices run a part of the optimizer's steps
};

namespace detail {

/// Whether devices can run parts of the optimizer's steps over all parameters at the end of them: those that come later
/// in the program do not touch their memory, and they that of each other at the same elements only.
template <class Program>
constexpr bool update_can_be_shared() {
  if (!updates_by_elements<Program>()) return false;
  bool found = false;
  for (const MemoryAccess& a : accesses_of<Program>) {
    if (a.step < Program::lowered.first_update || a.step >= Program::lowered.after_update) continue;
    if (!is_over_parameters<Program>(a.step)) continue;
    found = true;
    for (const MemoryAccess& b : accesses_of<Program>) {
      if (b.step < Program::lowered.first_update || b.step >= Program::lowered.after_update) continue;
      if (!conflict(a, b)) continue;
      if (is_over_parameters<Program>(b.step) ? a.first != b.first || a.last != b.last : b.step > a.step) return false;
    }
  }
  return found;
}

/// Of each step the device that runs it. A constant that is read where it lies: GCC 12 with AVX-512 copies such arrays
/// wrongly (of 64 bytes whose last numbers are zero and whose others repeat, it writes the latter throughout).
template <class Program>
struct DeviceOfSteps {
  std::array<int, static_cast<std::size_t>(Program::lowered.used.steps)> device{};
  int shared_update = -1;

  constexpr DeviceOfSteps() {
    for (int s = 0; s < Program::lowered.used.steps; ++s)
      device[static_cast<std::size_t>(s)] = s < Program::lowered.prepared_steps
                                                ? on_no_device
                                                : Program::order.device_of(Program::lowered.steps[s].number);
    if (!update_can_be_shared<Program>()) return;
    for (int s = Program::lowered.first_update; s < Program::lowered.after_update; ++s)
      if (is_over_parameters<Program>(s)) {
        device[static_cast<std::size_t>(s)] = on_no_device;
        shared_update = s;
      }
    device[static_cast<std::size_t>(shared_update)] = on_all_devices;
  }
};
template <class Program>
inline constexpr DeviceOfSteps<Program> device_of_steps{};

}  // namespace detail

/// The turns of the devices of a program that is spread over several.
template <class Program>
ProgramTurns program_turns() {
  constexpr const auto& steps = detail::device_of_steps<Program>;
  std::vector<MemoryAccess> accesses(accesses_of<Program>.begin(), accesses_of<Program>.end());
  ProgramTurns result;
  result.shared_update = steps.shared_update;
  if (steps.shared_update >= 0) {
    for (MemoryAccess& access : accesses)
      if (access.step >= Program::lowered.first_update && access.step < steps.shared_update &&
          is_over_parameters<Program>(access.step))
        access.step = steps.shared_update;
    std::stable_sort(accesses.begin(), accesses.end(),
                     [](const MemoryAccess& a, const MemoryAccess& b) { return a.step < b.step; });
  }
  result.of = turns_of(accesses, steps.device, Program::order.devices);
  return result;
}

}  // namespace tenet
