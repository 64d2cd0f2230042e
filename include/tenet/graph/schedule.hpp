#pragma once

#include <tenet/graph/fusion.hpp>

namespace tenet {

/// The order of computation: one step for each kernel, each sum and each region that stands alone, those that are
/// prepared first; and until which step every stored value is needed.
template <int Nodes>
struct Schedule {
  static constexpr int forever = 1 << 28;
  int head[Nodes]{};       ///< of each step: the kernel, sum, or last node of the region
  int step[Nodes]{};       ///< of each stored value: the step that computes it
  int last_use[Nodes]{};   ///< of each stored value: the last step that reads it
  bool in_place[Nodes]{};  ///< read in the last step element by element only: its place may take that step's result
  int count = 0;
  int prepared = 0;  ///< steps, the first ones, that need not run again while the parameters stay as they are
};

template <class G>
constexpr auto schedule(const G& graph, const Fusion<G::count>& fusion) {
  constexpr int n = G::count;
  Schedule<n> result;
  const auto is = [&](int i, Kind kind) { return graph.nodes[i].operation && graph.nodes[i].operation->kind == kind; };
  for (const bool prepared : {true, false}) {
    for (int i = 0; i < n; ++i) {
      const bool computed = graph.nodes[i].operation != nullptr && fusion.stored[i] && fusion.prepared[i] == prepared;
      const bool alone = !is(i, Kind::element) || (fusion.region[i] == i && fusion.anchor[i] < 0);
      if (computed && alone) {
        result.step[i] = result.count;
        result.head[result.count++] = i;
      }
      result.last_use[i] = -1;
    }
    if (prepared) result.prepared = result.count;
  }
  for (int i = 0; i < n; ++i)
    if (fusion.stored[i] && is(i, Kind::element)) result.step[i] = result.step[fusion.position[i]];

  const auto use = [&](int value, int step, bool element_by_element) {
    if (!fusion.stored[value]) return;
    if (step > result.last_use[value]) {
      result.last_use[value] = step;
      result.in_place[value] = element_by_element;
    } else if (step == result.last_use[value]) {
      result.in_place[value] = result.in_place[value] && element_by_element;
    }
  };
  const auto use_region = [&](int root, int step, bool element_by_element) {
    for (int m = fusion.first_member[root]; m >= 0; m = fusion.next_member[m]) {
      const auto& node = graph.nodes[fusion.member[m]];
      for (int j = 0; j < node.operand_count; ++j) {
        const int value = fusion.value[node.operands[j]];
        if (is(value, Kind::element) && fusion.region[value] == root) continue;  // computed inside
        const bool same = element_by_element && graph.nodes[value].type->batched == node.type->batched &&
                          graph.nodes[value].type->size() == node.type->size();
        use(value, step, same);
      }
    }
  };
  for (int s = 0; s < result.count; ++s) {
    const int head = result.head[s];
    const auto& node = graph.nodes[head];
    if (is(head, Kind::element)) {
      use_region(head, s, true);
      continue;
    }
    for (int j = 0; j < node.operand_count; ++j) use(fusion.value[node.operands[j]], s, false);
    if (is(head, Kind::reduction)) use_region(head, s, false);
    if (fusion.epilogue[head] >= 0) use_region(fusion.epilogue[head], s, true);
  }
  for (int i = 0; i < n; ++i)
    if (fusion.prepared[i] && result.last_use[i] >= result.prepared) result.last_use[i] = Schedule<n>::forever;
  for (int i = 0; i < G::output_count; ++i)
    if (is_kept(graph.outputs[i].destination))
      result.last_use[fusion.value[graph.outputs[i].node]] = Schedule<n>::forever;
  return result;
}

}  // namespace tenet
