#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <tenet/exec/accesses.hpp>
#include <vector>

/// Which device runs which steps of a program, and which steps of others it waits for.
namespace tenet {

/// Until `device` has ended its step `step`.
struct Wait {
  int device = 0, step = 0;
};

/// A step's turn on a device, behind all of its waits: at most one for each other device, as each runs its steps in the
/// order of their numbers; and none that another of them implies.
struct Turn {
  int step = 0;
  int first_wait = 0, waits = 0;  ///< among the device's waits
};

struct DeviceTurns {
  std::vector<Turn> turns;
  std::vector<Wait> waits;
};

/// A step that all devices run, each a part of it.
inline constexpr int on_all_devices = -1;
/// A step that has no turn.
inline constexpr int on_no_device = -2;

inline constexpr int most_devices = 16;

/// The turns of all devices. `device` says where each step runs, `accesses`, in the order of steps, what it uses. Of
/// two steps that use the same memory, and do not both only read it, the later one waits until the earlier one has
/// ended: so whatever the order in which the others run, the numbers are those of all steps one after the other.
[[gnu::noinline]] inline std::vector<DeviceTurns> turns_of(std::span<const MemoryAccess> accesses,
                                                           std::span<const int> device, int devices) {
  using Clock = std::array<int, most_devices>;  // by device: its steps below that number have ended
  const int steps = static_cast<int>(device.size());
  const auto index = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<std::size_t> first_access(index(steps) + 1, accesses.size());
  for (std::size_t a = accesses.size(); a-- > 0;) first_access[index(accesses[a].step)] = a;
  for (int s = steps; s-- > 0;) first_access[index(s)] = std::min(first_access[index(s)], first_access[index(s) + 1]);
  const auto accesses_at = [&](int s) {
    return accesses.subspan(first_access[index(s)], first_access[index(s) + 1] - first_access[index(s)]);
  };
  const auto clash = [&](int earlier, int later) {
    for (const MemoryAccess& a : accesses_at(earlier))
      for (const MemoryAccess& b : accesses_at(later))
        if (conflict(a, b)) return true;
    return false;
  };

  std::vector<DeviceTurns> result(index(devices));
  std::vector<Clock> behind(index(steps * devices));  // what has ended when a device has ended a step
  std::vector<Clock> known(index(devices));
  for (int s = 0; s < steps; ++s) {
    if (device[index(s)] == on_no_device) continue;
    const bool all = device[index(s)] == on_all_devices;
    const std::vector<Clock> before = known;
    for (int d = all ? 0 : device[index(s)]; d < (all ? devices : device[index(s)] + 1); ++d) {
      Clock needed{};
      for (int other = s; other-- > 0;) {
        const int e = device[index(other)];
        const int first = e == on_all_devices ? 0 : e, last = e == on_all_devices ? devices : e + 1;
        bool matters = false;  // it is on another device, and not known to have ended
        for (int o = first; e != on_no_device && o < last; ++o)
          matters = matters || (o != d && other >= std::max(before[index(d)][index(o)], needed[index(o)]));
        if (!matters || !clash(other, s)) continue;
        for (int o = first; o < last; ++o)
          if (o != d) needed[index(o)] = std::max(needed[index(o)], other + 1);
      }
      const auto behind_wait = [&](int e) -> const Clock& {
        return behind[index((needed[index(e)] - 1) * devices + e)];
      };
      Turn turn{s, static_cast<int>(result[index(d)].waits.size()), 0};
      Clock& mine = known[index(d)];
      for (int e = 0; e < devices; ++e) {
        bool wait = needed[index(e)] > mine[index(e)];
        for (int other = 0; other < devices; ++other)  // who waits for that one has waited for this one
          if (other != e && needed[index(other)] > 0 && behind_wait(other)[index(e)] >= needed[index(e)]) wait = false;
        if (!wait) continue;
        result[index(d)].waits.push_back({e, needed[index(e)] - 1});
        ++turn.waits;
      }
      for (int w = turn.first_wait; w < turn.first_wait + turn.waits; ++w) {
        const Clock& there = behind_wait(result[index(d)].waits[index(w)].device);
        for (int e = 0; e < devices; ++e) mine[index(e)] = std::max(mine[index(e)], there[index(e)]);
      }
      mine[index(d)] = s + 1;
      behind[index(s * devices + d)] = mine;
      result[index(d)].turns.push_back(turn);
    }
  }
  return result;
}

/// When a turn takes place. Times are seconds.
struct TimedTurn {
  int device = 0, step = 0;
  double begin = 0, end = 0;
};

/// When devices that are all free at time 0 run their turns, in the order of steps: each begins when its device is free
/// and, `seconds_of_wait` ago, what it waits for has ended. It takes seconds(device, step).
template <class Seconds>
std::vector<TimedTurn> timed_turns(std::span<const DeviceTurns> devices, double seconds_of_wait, Seconds seconds) {
  const auto index = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<std::size_t> next(devices.size());
  std::vector<double> free(devices.size());
  std::vector<std::vector<double>> ended(devices.size());  // by step
  std::vector<TimedTurn> result;
  for (;;) {
    std::size_t d = devices.size();  // whose next step is the first one: what it waits for has been looked at
    for (std::size_t e = 0; e < devices.size(); ++e) {
      if (next[e] == devices[e].turns.size()) continue;
      if (d == devices.size() || devices[e].turns[next[e]].step < devices[d].turns[next[d]].step) d = e;
    }
    if (d == devices.size()) return result;
    const Turn& turn = devices[d].turns[next[d]++];
    double begin = free[d];
    for (int w = turn.first_wait; w < turn.first_wait + turn.waits; ++w) {
      const Wait& wait = devices[d].waits[index(w)];
      begin = std::max(begin, ended[index(wait.device)][index(wait.step)] + seconds_of_wait);
    }
    free[d] = begin + seconds(static_cast<int>(d), turn.step);
    ended[d].resize(index(turn.step) + 1);
    ended[d][index(turn.step)] = free[d];
    result.push_back({static_cast<int>(d), turn.step, begin, free[d]});
  }
}

}  // namespace tenet
