#pragma once

#include <tenet/exec/program.hpp>

/// What memory the steps of a program use: from it follows which of them may run at the same time.
namespace tenet {

/// Numbers that a step reads or writes: floats [first, last) of an arena; of one sample, where that has samples.
struct MemoryAccess {
  int step = 0;
  Arena arena = Arena::fixed;
  bool writes = false;
  long first = 0, last = 0;
};

/// Whether the order of two accesses matters.
constexpr bool conflict(const MemoryAccess& a, const MemoryAccess& b) {
  return a.arena == b.arena && (a.writes || b.writes) && a.first < b.last && b.first < a.last;
}

namespace detail {

/// Calls function(access) for all that a step reads and writes in memory that any step writes.
template <class Program, class Function>
constexpr void for_each_access(int s, Function function) {
  const auto& lowered = Program::lowered;
  const auto& step = lowered.steps[s];
  const auto add = [&](const Place& place, long elements, bool writes) {
    if (place.arena == Arena::inputs || place.arena == Arena::numbers) return;
    function(MemoryAccess{s, place.arena, writes, place.offset, place.offset + floats_of(elements, place.dtype)});
  };
  const auto add_region = [&](int region, bool stores) {
    if (region < 0) return;
    const RegionCall& call = lowered.calls[region];
    for (int k = 0; k < call.inputs; ++k) {
      const RegionInput& input = lowered.inputs[call.first_input + k];
      add(input.place, input.access.full || input.access.turned ? call.size() : input.access.count, false);
    }
    for (int k = 0; stores && k < call.outputs; ++k) add(lowered.outputs[call.first_output + k], call.size(), true);
  };
  if (step.relayout.is_needed()) {
    add(step.operands[0], step.relayout.size(), false);
    add(step.result, step.relayout.size(), true);
  }
  add_region(step.region, step.kind == Kind::element);  // in front of a sum it stores nothing
  if (step.kind != Kind::element) {
    const auto& node = Program::graph.nodes[Program::order.head[step.number]];
    for (int j = 0; j < step.operand_count && step.kind == Kind::kernel; ++j)
      add(step.operands[j], Program::graph.nodes[node.operands[j]].type->size(), false);
    add(step.result, node.type->size(), true);
    add_region(step.epilogue, true);
  }
}

}  // namespace detail

/// All accesses of a program's steps, in their order.
template <class Program>
inline constexpr auto accesses_of = [] {
  constexpr int count = [] {
    int sum = 0;
    for (int s = 0; s < Program::lowered.used.steps; ++s)
      detail::for_each_access<Program>(s, [&](const MemoryAccess&) { ++sum; });
    return sum;
  }();
  std::array<MemoryAccess, static_cast<std::size_t>(count)> accesses{};
  std::size_t next = 0;
  for (int s = 0; s < Program::lowered.used.steps; ++s)
    detail::for_each_access<Program>(s, [&](const MemoryAccess& access) { accesses[next++] = access; });
  return accesses;
}();

}  // namespace tenet
