#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <tenet/comm/collectives.hpp>
#include <tenet/exec/turns.hpp>
#include <tenet/parallel/replicas.hpp>
#include <vector>

/// The turns of a program whose steps are spread over several devices.
namespace tenet {

/// The turns of a program, but for its prepared steps, which come before all others.
struct ProgramTurns {
  std::vector<DeviceTurns> of;  ///< each device
  int shared_update = -1;       ///< the step in whose turn all devices run a part of the optimizer's steps
  std::vector<std::vector<FloatRange>> updated;  ///< by device: which parameters it updates then, in blocks
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

/// Which device updates which parameters: as many each, and rather those whose gradients it has written, which lie in
/// its caches. `writers`: by the first number of what a step has written of the gradients, its device. In blocks that
/// stay in cache from one step of the optimizer to the next.
[[gnu::noinline]] inline std::vector<std::vector<FloatRange>> parts_of_update(const std::map<long, int>& writers,
                                                                              long floats, int devices) {
  constexpr long block = 4096;
  std::vector<std::vector<FloatRange>> parts(static_cast<std::size_t>(devices));
  std::vector<FloatRange> left;
  std::vector<long> room(static_cast<std::size_t>(devices));
  for (int d = 0; d < devices; ++d) room[static_cast<std::size_t>(d)] = part_of(floats, d, devices).count;
  const auto give = [&](std::size_t d, FloatRange range) {  // as much of it as there is room for; returns the rest
    const long count = std::min(range.count, room[d]);
    room[d] -= count;
    for (long at = 0; at < count; at += block) parts[d].push_back({range.first + at, std::min(block, count - at)});
    return FloatRange{range.first + count, range.count - count};
  };
  for (auto writer = writers.begin(); writer != writers.end(); ++writer) {
    const auto next = std::next(writer);
    const FloatRange rest = give(static_cast<std::size_t>(writer->second),
                                 {writer->first, (next == writers.end() ? floats : next->first) - writer->first});
    if (rest.count > 0) left.push_back(rest);
  }
  for (FloatRange rest : left)
    for (std::size_t d = 0; d < parts.size() && rest.count > 0; ++d) rest = give(d, rest);
  return parts;
}

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
    std::map<long, int> writers{{0, 0}};  // what nobody writes goes with what lies before it
    for (const MemoryAccess& access : accesses)
      if (access.arena == Arena::gradients && access.writes && access.step < Program::lowered.first_update)
        writers[access.first] = steps.device[static_cast<std::size_t>(access.step)];
    result.updated = detail::parts_of_update(writers, Program::slots.parameter_floats, Program::order.devices);
  }
  result.of = turns_of(accesses, steps.device, Program::order.devices);
  return result;
}

}  // namespace tenet
