#pragma once

#include <tenet/graph/device_schedule.hpp>
#include <tenet/graph/memory_plan.hpp>

/// Less memory for more work: values of the forward pass that the backward pass needs are not kept, but computed again.
namespace tenet {

namespace detail {

/// Marks what is dropped, and writes the graph in which backward computes it again.
///
/// A dropped value is computed anew where the first operation of the backward pass needs it, from what is kept, and
/// from dropped values before it, which are computed anew as well. The old one then ends with its last use in the
/// forward pass. Only values with a batch are dropped: statistics, say, are small, and stay what they were.
template <class G>
struct RecomputePass {
  static constexpr int n = G::count;
  const G& g;
  bool dropped[n]{};
  Grown<G> grown{};
  int kept_as[n]{}, again_as[n]{};

  constexpr explicit RecomputePass(const G& graph) : g(graph) {}

  constexpr bool computed(int i) const { return g.nodes[i].is_computed(); }
  constexpr bool is(int i, Kind kind) const { return computed(i) && g.nodes[i].operation->kind == kind; }
  constexpr bool droppable(int i) const { return i < g.forward_count && computed(i) && g.nodes[i].type->batched; }

  /// Drops what element-wise operations compute from values that the backward pass needs in any case, as batch norms
  /// and activations. Of those that follow each other, as sums along residual paths, every second one is kept: else all
  /// of them were computed again at once.
  constexpr void drop_elements() {
    bool in_memory[n]{}, needed[n]{};  // read by a kernel or by several operations; read by the backward pass
    int readers[n]{};
    for (int i = 0; i < n; ++i) {
      if (is(i, Kind::view)) continue;
      for (int j = 0; j < g.nodes[i].operand_count; ++j) {
        const int operand = stored_as(g.nodes[i].operands[j]);
        if (i >= g.forward_count)
          needed[operand] = true;
        else if (++readers[operand] > 1 || !is(i, Kind::element))
          in_memory[operand] = true;
      }
    }
    for (int i = 0; i < g.forward_count; ++i) {
      if (is(i, Kind::view)) dropped[i] = dropped[g.nodes[i].operands[0]];
      if (!droppable(i) || !is(i, Kind::element)) continue;
      dropped[i] = true;
      for (int j = 0; j < g.nodes[i].operand_count; ++j) {
        const int operand = stored_as(g.nodes[i].operands[j]);
        if (!droppable(operand)) continue;
        const bool inlined = is(operand, Kind::element) && !in_memory[operand];
        if (inlined ? !dropped[operand] : dropped[operand] || !needed[operand]) dropped[i] = false;
      }
    }
  }
  constexpr int stored_as(int i) const {
    while (is(i, Kind::view)) i = g.nodes[i].operands[0];
    return i;
  }

  /// Cuts the forward pass into about so many segments, with equal shares of what the backward pass needs, where little
  /// crosses the cut; keeps what crosses, and all of the last segment, whose backward pass comes at once. (Chen et al.,
  /// arXiv 1604.06174.)
  constexpr void drop_segments(int segments) {
    const int end = g.forward_count;
    long needed[n + 1]{};    // floats that backward reads of the nodes before i
    long crossing[n + 2]{};  // floats that cross a cut before i
    int last_use[n]{};
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < g.nodes[i].operand_count; ++j) {
        const int operand = g.nodes[i].operands[j];
        if (i < end) last_use[operand] = i;
        if (i >= end && droppable(operand)) needed[operand + 1] = g.nodes[operand].type->size();
      }
    for (int i = end - 1; i >= 0; --i)
      if (is(i, Kind::view) && last_use[i] > last_use[g.nodes[i].operands[0]])
        last_use[g.nodes[i].operands[0]] = last_use[i];
    for (int i = 0; i < end; ++i) {
      needed[i + 1] += needed[i];
      if (!droppable(i) || is(i, Kind::view) || last_use[i] <= i) continue;
      crossing[i + 1] += g.nodes[i].type->size();
      crossing[last_use[i] + 1] -= g.nodes[i].type->size();
    }
    for (int i = 1; i <= end; ++i) crossing[i] += crossing[i - 1];

    const long share = needed[end] / segments;
    int begin = 0;
    while (needed[end] - needed[begin] > share + share / 2) {
      int cut = -1;
      for (int p = begin + 1; p < end && needed[p] - needed[begin] <= share + share / 2; ++p)
        if (needed[p] - needed[begin] >= share / 2 && (cut < 0 || crossing[p] <= crossing[cut])) cut = p;
      for (int p = begin + 1; p < end && cut < 0; ++p)  // one value is larger than the share
        if (needed[p] - needed[begin] >= share / 2) cut = p;
      if (cut < 0) break;
      for (int i = begin; i < cut; ++i) dropped[i] = droppable(i) && last_use[i] < cut;
      begin = cut;
    }
  }

  constexpr int add(Node<typename G::Context> node, bool again) {
    for (int j = 0; j < node.operand_count; ++j)
      node.operands[j] =
          again && dropped[node.operands[j]] ? computed_again(node.operands[j]) : kept_as[node.operands[j]];
    grown.graph.nodes[grown.count] = node;
    return grown.count++;
  }
  constexpr int computed_again(int i) {
    if (again_as[i] < 0) again_as[i] = add(g.nodes[i], true);
    return again_as[i];
  }

  constexpr Grown<G> run() {
    for (int& id : again_as) id = -1;
    for (int i = 0; i < n; ++i) kept_as[i] = add(g.nodes[i], i >= g.forward_count);
    for (int i = 0; i < G::output_count; ++i) {
      grown.graph.outputs[i] = g.outputs[i];
      grown.graph.outputs[i].node = kept_as[g.outputs[i].node];
    }
    grown.graph.forward_count = g.forward_count;
    return grown;
  }
};

/// The ways to compute again, in the order in which they are tried; the first computes nothing again.
inline constexpr int recompute_ways = 5;

template <class G>
constexpr auto grown_for(const G& graph, int way) {
  RecomputePass<G> pass(graph);
  if (way == 1) pass.drop_elements();
  if (way > 1) pass.drop_segments(1 << way);  // 4, 8, 16
  return pass.run();
}

}  // namespace detail

/// What came of a bound: the bytes of the plan that keeps to it, or, where none does, the least that was found.
struct BoundedMemory {
  long least_bytes = 0;
  bool holds = true;
};

namespace detail {

/// A graph in which values are computed again in one of the ways, and what its plan takes. Each pass is a constant of
/// its own: compilers bound the steps of one evaluation.
template <const auto& traced, const auto& slots, int way, int devices>
struct Candidate {
  static constexpr auto grown = grown_for(traced, way);
  static constexpr auto graph = first_nodes<grown.count>(grown.graph);
  static constexpr auto fusion = fuse_for<devices>(graph);
  static constexpr auto order = schedule_on<devices>(graph, fusion);
  static constexpr auto storage = choose_layout(graph, fusion, order, choose_storage(graph, fusion));
  static constexpr long bytes = 4 * plan_memory(graph, fusion, storage, order, slots).per_sample_floats;
};

}  // namespace detail

/// The graph in which so much is computed again that its plan takes at most `bound` bytes a sample: as it is traced, if
/// that does; else in the first way that does. Where none does, as it is traced, and what came of it says so.
template <const auto& traced, const auto& slots, long bound, int devices = 1, int way = 0, long least = -1>
constexpr auto within_bound() {
  using Candidate = detail::Candidate<traced, slots, way, devices>;
  constexpr long found = least < 0 || Candidate::bytes < least ? Candidate::bytes : least;
  if constexpr (Candidate::bytes <= bound)
    return std::pair{Candidate::graph, BoundedMemory{Candidate::bytes, true}};
  else if constexpr (way + 1 < detail::recompute_ways)
    return within_bound<traced, slots, bound, devices, way + 1, found>();
  else
    return std::pair{traced, BoundedMemory{found, false}};
}

}  // namespace tenet
