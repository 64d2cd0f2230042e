#pragma once

#include <tenet/graph/tracer.hpp>

namespace tenet {

/// A program's graph: the nodes that an output depends on, in the order in which they were traced, which is an order in
/// which they can be computed.
template <class Context_, int Nodes, int Outputs>
struct Graph {
  using Context = Context_;
  static constexpr int count = Nodes, output_count = Outputs;
  Node<Context> nodes[Nodes];
  Output outputs[Outputs];
  int forward_count = 0;
};

/// Whether a program leaves parameters and buffers as they are: what it computes of these alone it computes once.
template <class G>
constexpr bool changes_nothing(const G& graph) {
  for (const Output& output : graph.outputs)
    if (output.destination != Destination::result) return false;
  return true;
}

namespace detail {
template <int Nodes>
struct Marks {
  bool live[Nodes]{};
  int count = 0;
};
}  // namespace detail

/// Which nodes an output depends on.
template <class Context, int Nodes, int Outputs>
constexpr auto mark_live(const Trace<Context, Nodes, Outputs>& trace) {
  detail::Marks<Nodes> marks;
  for (int i = 0; i < trace.output_count; ++i) marks.live[trace.outputs[i].node] = true;
  for (int i = trace.count - 1; i >= 0; --i) {
    if (!marks.live[i]) continue;
    ++marks.count;
    for (int j = 0; j < trace.nodes[i].operand_count; ++j) marks.live[trace.nodes[i].operands[j]] = true;
  }
  return marks;
}

/// Dead code elimination: the live nodes, renumbered.
template <int Live, int Outputs, class Context, int Nodes, int Capacity>
constexpr auto compact(const Trace<Context, Nodes, Capacity>& trace, const detail::Marks<Nodes>& marks) {
  Graph<Context, Live, Outputs> graph{};
  int renumbered[Nodes]{};
  int next = 0;
  for (int i = 0; i < trace.count; ++i) {
    if (!marks.live[i]) continue;
    renumbered[i] = next;
    Node<Context>& node = graph.nodes[next++];
    node = trace.nodes[i];
    for (int j = 0; j < node.operand_count; ++j) node.operands[j] = renumbered[node.operands[j]];
    if (i < trace.forward_count) graph.forward_count = next;
  }
  for (int i = 0; i < Outputs; ++i) {
    graph.outputs[i] = trace.outputs[i];
    graph.outputs[i].node = renumbered[trace.outputs[i].node];
  }
  return graph;
}

/// A graph with room to spare, for a pass that adds nodes: the first `count` nodes of it.
template <class G>
struct Grown {
  Graph<typename G::Context, 2 * G::count + 1, G::output_count> graph{};
  int count = 0;
};

/// The graph without the nodes behind the first Count.
template <int Count, class Context, int Nodes, int Outputs>
constexpr auto first_nodes(const Graph<Context, Nodes, Outputs>& from) {
  Graph<Context, Count, Outputs> graph{};
  for (int i = 0; i < Count; ++i) graph.nodes[i] = from.nodes[i];
  for (int i = 0; i < Outputs; ++i) graph.outputs[i] = from.outputs[i];
  graph.forward_count = from.forward_count;
  return graph;
}

}  // namespace tenet
