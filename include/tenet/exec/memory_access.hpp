#pragma once

#include <tenet/exec/lowered.hpp>

/// What memory the steps of a program use.
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

/// What is accessed at a place: so many numbers.
constexpr MemoryAccess access_at(int step, const Place& place, long numbers, bool writes) {
  return {step, place.arena, writes, place.offset, place.offset + floats_of(numbers, place.dtype)};
}
/// By a region that reads an operand.
constexpr MemoryAccess read_by(int step, const RegionCall& call, const RegionInput& input) {
  return access_at(step, input.place, input.access.whole() ? call.size() : input.access.count, false);
}

/// Calls function(access) for all that `step`, which has the number s, reads and writes in memory that any step writes.
template <class G, class Order, class Lowered, class Step, class Function>
constexpr void for_each_access(const G& graph, const Order& order, const Lowered& lowered, const Step& step, int s,
                               Function function) {
  const auto add = [&](const MemoryAccess& access) {
    if (access.arena != Arena::inputs && access.arena != Arena::numbers) function(access);
  };
  const auto add_region = [&](int region, bool stores) {
    if (region < 0) return;
    const RegionCall& call = lowered.calls[region];
    for (int k = 0; k < call.inputs; ++k) add(read_by(s, call, lowered.inputs[call.first_input + k]));
    const Wiring& wiring = lowered.programs[call.program].wiring;
    for (int k = 0; stores && k < call.outputs; ++k)
      add(access_at(s, lowered.outputs[call.first_output + k], k < wiring.stored() ? call.size() : step.sum.count,
                    true));
  };
  if (step.relayout.is_needed()) {
    add(access_at(s, step.operands[0], step.relayout.size(), false));
    add(access_at(s, step.result, step.relayout.size(), true));
  }
  add_region(step.region, step.kind == Kind::element);  // in front of a sum it stores nothing
  if (step.kind == Kind::element) return;
  const auto& node = graph.nodes[order.head[step.number]];
  for (int j = 0; j < step.operand_count && step.kind == Kind::kernel; ++j)
    add(access_at(s, step.operands[j], graph.nodes[node.operands[j]].type->size(), false));
  add(access_at(s, step.result, node.type->size(), true));
  add_region(step.epilogue, true);
}

}  // namespace tenet
