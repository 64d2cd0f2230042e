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
  const auto is_over_parameters = [](int step) {
    return Program::lowered.calls[Program::lowered.steps[step].region].total == Program::slots.parameter_floats;
  };
  bool found = false;
  for (const MemoryAccess& a : accesses_of<Program>) {
    if (a.step < Program::lowered.first_update || a.step >= Program::lowered.after_update) continue;
    if (!is_over_parameters(a.step)) continue;
    found = true;
    for (const MemoryAccess& b : accesses_of<Program>) {
      if (b.step < Program::lowered.first_update || b.step >= Program::lowered.after_update) continue;
      if (!conflict(a, b)) continue;
      if (is_over_parameters(b.step) ? a.first != b.first || a.last != b.last : b.step > a.step) return false;
    }
  }
  return found;
}

/// Of each step the device that runs it.
template <class Program>
inline constexpr auto device_of_steps = [] {
  std::array<int, static_cast<std::size_t>(Program::lowered.used.steps)> devices{};
  for (int s = 0; s < Program::lowered.used.steps; ++s)
    devices[static_cast<std::size_t>(s)] =
        s < Program::lowered.prepared_steps ? on_no_device : Program::order.device_of(Program::lowered.steps[s].number);
  return devices;
}();

}  // namespace detail

/// The turns of the devices of a program that is spread over several.
template <class Program>
ProgramTurns program_turns() {
  std::vector<int> device(detail::device_of_steps<Program>.begin(), detail::device_of_steps<Program>.end());
  std::vector<MemoryAccess> accesses(accesses_of<Program>.begin(), accesses_of<Program>.end());
  ProgramTurns result;
  if constexpr (detail::update_can_be_shared<Program>()) {
    using One = Execution<Program, OneSampleNever>;
    for (int s = Program::lowered.first_update; s < Program::lowered.after_update; ++s)
      if (One::is_over_parameters(s)) {
        device[static_cast<std::size_t>(s)] = on_no_device;
        result.shared_update = s;
      }
    device[static_cast<std::size_t>(result.shared_update)] = on_all_devices;
    for (MemoryAccess& access : accesses)
      if (access.step >= Program::lowered.first_update && access.step < result.shared_update &&
          One::is_over_parameters(access.step))
        access.step = result.shared_update;
    std::stable_sort(accesses.begin(), accesses.end(),
                     [](const MemoryAccess& a, const MemoryAccess& b) { return a.step < b.step; });
  }
  result.of = turns_of(accesses, device, Program::order.devices);
  return result;
}

}  // namespace tenet
