#pragma once

#include <span>
#include <tenet/exec/accesses.hpp>
#include <vector>

/// What a run of a program is on one of several devices: its steps, and what all devices do together in between.
namespace tenet {

/// All devices bring a part of their arenas together, as to add up gradients. Of a program with several they come in
/// the order of their numbers, on every device.
struct Exchange {
  const char* name = "";
  Arena arena = Arena::gradients;
  long first = 0, floats = 0;
  int after = 0;  ///< so many steps
};

/// Of a device that runs alone.
struct NoExchanges {
  static constexpr bool updates_parts = false;
  static constexpr std::array<Exchange, 0> all{};
};

/// A step, or an exchange; the other number is negative.
struct SequenceEntry {
  int step = -1, exchange = -1;
  bool is_shared = false;  ///< a step that the devices do together, as a sum over the whole batch

  constexpr bool is_together() const { return is_shared || exchange >= 0; }
};

namespace detail {

/// Steps `first` to `last`, and exchanges in the order in which they come.
[[gnu::noinline]] inline std::vector<SequenceEntry> sequence_of(int first, int last,
                                                                std::span<const Exchange> exchanges) {
  std::vector<SequenceEntry> entries;
  std::size_t next = 0;
  for (int s = first; s <= last; ++s) {
    for (; next < exchanges.size() && exchanges[next].after <= s; ++next)
      entries.push_back({.exchange = static_cast<int>(next)});
    if (s < last) entries.push_back({.step = s});
  }
  return entries;
}

/// What the entries of a sequence read and write; each is called by its place in the sequence.
[[gnu::noinline]] inline std::vector<MemoryAccess> accesses_at(std::span<const SequenceEntry> sequence,
                                                               std::span<const Exchange> exchanges,
                                                               std::span<const MemoryAccess> of_steps) {
  std::vector<MemoryAccess> accesses;
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    const int place = static_cast<int>(i);
    if (sequence[i].exchange >= 0) {
      const Exchange& exchange = exchanges[static_cast<std::size_t>(sequence[i].exchange)];
      accesses.push_back({place, exchange.arena, true, exchange.first, exchange.first + exchange.floats});
    }
    for (MemoryAccess access : of_steps) {
      if (access.step != sequence[i].step) continue;
      access.step = place;
      accesses.push_back(access);
    }
  }
  return accesses;
}

}  // namespace detail

/// Whether a step is part of the update, or brings one to its place.
template <class Program>
constexpr bool updates_or_moves(int step) {
  return step >= Program::lowered.first_update &&
         (step < Program::lowered.after_update || !updates_in_place<Program>());
}

/// A run, or half of it: where a batch is cut into pieces the passes run for each of them, and the rest once.
enum class RunPart { all, passes, update };

/// All of a run but for the prepared steps. `Exchanges::all` are in the order in which they come.
template <class Program, class Exchanges = NoExchanges>
const std::vector<SequenceEntry>& sequence_of(RunPart part = RunPart::all) {
  static const auto sequences = [] {
    std::array<std::vector<SequenceEntry>, 3> result;
    auto& [all, passes, update] = result;
    all = detail::sequence_of(Program::lowered.prepared_steps, Program::lowered.used.steps, Exchanges::all);
    for (SequenceEntry& entry : all) {
      entry.is_shared = entry.step >= 0 && is_sum_over_workers(Program::lowered.steps[entry.step]);
      (entry.exchange >= 0 || updates_or_moves<Program>(entry.step) ? update : passes).push_back(entry);
    }
    return result;
  }();
  return sequences[static_cast<std::size_t>(part)];
}

}  // namespace tenet
