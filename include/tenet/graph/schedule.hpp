#pragma once

#include <tenet/graph/fusion.hpp>

namespace tenet {

/// The order of computation: one step for each kernel, each sum and each region that stands alone, those that are
/// prepared first; and until which step every stored value is needed.
template <int Nodes>
struct Schedule {
  static constexpr int forever = 1 << 28;
  static constexpr int devices = 1;
  constexpr int device_of(int) const { return 0; }

  int head[Nodes]{};       ///< of each step: the kernel, sum, or last node of the region
  int step[Nodes]{};       ///< of each stored value: the step that computes it
  int last_use[Nodes]{};   ///< of each stored value: the last step that reads it
  bool in_place[Nodes]{};  ///< read in the last step element by element only: its place may take that step's result
  int count = 0;
  int prepared = 0;  ///< steps, the first ones, that need not run again while the parameters stay as they are
};

/// Calls function(value, element_by_element) for what the step of `head` reads, once for each operand; for values of
/// the step itself, too. Element by element: element i of the step's result depends on the value's element i alone.
template <class G, class Function>
constexpr void for_each_read(const G& graph, const Fusion<G::count>& fusion, int head, Function function) {
  const auto is = [&](int i, Kind kind) { return graph.nodes[i].is(kind); };
  const auto read_by_region = [&](int root, bool element_by_element) {
    for (int m = fusion.first_member[root]; m >= 0; m = fusion.next_member[m]) {
      const auto& node = graph.nodes[fusion.member[m]];
      for (int j = 0; j < node.operand_count; ++j) {
        const int value = fusion.value[node.operands[j]];
        if (is(value, Kind::element) && fusion.region[value] == root) continue;  // computed inside
        const bool same = element_by_element && graph.nodes[value].type->batched == node.type->batched &&
                          graph.nodes[value].type->size() == node.type->size();
        if (fusion.stored[value]) function(value, same);
      }
    }
  };
  if (is(head, Kind::element)) return read_by_region(head, true);
  const auto& node = graph.nodes[head];
  for (int j = 0; j < node.operand_count; ++j)
    if (fusion.stored[fusion.value[node.operands[j]]]) function(fusion.value[node.operands[j]], false);
  if (is(head, Kind::reduction)) read_by_region(head, false);
  if (fusion.epilogue[head] >= 0) read_by_region(fusion.epilogue[head], true);
}

/// Finds out until which of the steps every stored value is needed.
template <class G>
constexpr void note_uses(const G& graph, const Fusion<G::count>& fusion, Schedule<G::count>& order) {
  constexpr int n = G::count;
  for (int& last_use : order.last_use) last_use = -1;
  for (int s = 0; s < order.count; ++s)
    for_each_read(graph, fusion, order.head[s], [&](int value, bool element_by_element) {
      order.in_place[value] = element_by_element && (order.last_use[value] < s || order.in_place[value]);
      order.last_use[value] = s;
    });
  for (int i = 0; i < n; ++i)
    if (fusion.prepared[i] && order.last_use[i] >= order.prepared) order.last_use[i] = Schedule<n>::forever;
  for (int i = 0; i < G::output_count; ++i)
    if (is_kept(graph.outputs[i].destination))
      order.last_use[fusion.value[graph.outputs[i].node]] = Schedule<n>::forever;
}

template <class G>
constexpr auto schedule(const G& graph, const Fusion<G::count>& fusion) {
  constexpr int n = G::count;
  Schedule<n> result;
  const auto is = [&](int i, Kind kind) { return graph.nodes[i].is(kind); };
  for (const bool prepared : {true, false}) {
    for (int i = 0; i < n; ++i) {
      const bool computed = graph.nodes[i].is_computed() && fusion.stored[i] && fusion.prepared[i] == prepared;
      const bool alone = !is(i, Kind::element) || (fusion.region[i] == i && fusion.anchor[i] < 0);
      if (computed && alone) {
        result.step[i] = result.count;
        result.head[result.count++] = i;
      }
    }
    if (prepared) result.prepared = result.count;
  }
  for (int i = 0; i < n; ++i)
    if (fusion.stored[i] && is(i, Kind::element)) result.step[i] = result.step[fusion.position[i]];
  note_uses(graph, fusion, result);
  return result;
}

}  // namespace tenet
