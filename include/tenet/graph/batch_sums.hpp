#pragma once

#include <tenet/graph/graph.hpp>
#include <tenet/ops/sum_over_workers.hpp>

/// A graph for workers that share a batch, each of whom runs it on its own samples: what it computes is what one worker
/// computes that has them all.
///
/// Numbers of a batch are the same for all workers (`whole`: parameters, running statistics), or sums over its samples,
/// of which each worker has its `part`. Operations that are linear in a part give a part: a gradient may stay one, for
/// it is added up behind the backward pass anyway. Where anything else reads a part, as batch norm does its mean, the
/// pass puts `SumOverWorkers` in front, as late as it can. A whole number that is added to a part is multiplied by the
/// worker's share of the samples before.
///
/// What comes out: results and gradients that are not of a sample are parts, and all else is whole. So of a batch norm
/// two sums are completed in the forward pass, mean and variance, and two in the backward pass, and the gradients of
/// its weight and bias are not among them. (What Jin et al., arXiv 1511.06485, and PyTorch's SyncBatchNorm do by hand.)
namespace tenet {

namespace detail {

template <class G>
struct BatchSumPass {
  static constexpr int n = G::count;
  using Context = typename G::Context;
  const G& g;
  Grown<G> grown{};
  bool wants_whole[n]{};            // something that it comes to reads it as a whole number
  bool is_part[n]{};                // else it is whole, or of samples
  int as_it_is[n]{}, changed[n]{};  // in the new graph: the node; of a part the whole, of a whole a part; or -1
  int share = -1;

  constexpr explicit BatchSumPass(const G& graph) : g(graph) {}

  constexpr bool is_of_samples(int i) const { return g.nodes[i].type->batched; }
  /// Of an operation between numbers of a batch: what is linear in all operands that are parts. Of a product and a
  /// quotient at most one is, see `add`.
  constexpr bool is_linear(int i) const {
    const auto& node = g.nodes[i];
    for (int j = 0; j < node.operand_count; ++j)
      if (is_of_samples(node.operands[j])) return false;
    if (node.operation->kind == Kind::view || node.operation->kind == Kind::reduction) return true;
    switch (node.operation->algebra) {
      case Algebra::add:
      case Algebra::subtract:
      case Algebra::multiply:
      case Algebra::divide:
      case Algebra::negate:
        return true;
      default:
        return false;
    }
  }

  static constexpr bool may_be_part(const Output& output) {
    return output.destination == Destination::result || output.destination == Destination::gradient;
  }

  constexpr void find_wants() {
    for (const Output& output : g.outputs)
      if (!may_be_part(output)) wants_whole[output.node] = true;
    for (int i = n - 1; i >= 0; --i)
      for (int j = 0; j < g.nodes[i].operand_count; ++j)
        if (wants_whole[i] || !is_linear(i)) wants_whole[g.nodes[i].operands[j]] = true;
  }

  constexpr int push(const Node<Context>& node) {
    grown.graph.nodes[grown.count] = node;
    return grown.count++;
  }
  /// A node of the new graph that makes of node i what its state is not.
  constexpr int push_change(int i, const OperationInfo<Context>& operation, int attribute) {
    Node<Context> node;
    node.operation = &operation;
    node.type = g.nodes[i].type;
    node.operands[node.operand_count++] = as_it_is[i];
    if (operation.operand_count == 2) node.operands[node.operand_count++] = share;
    node.index = attribute;
    node.layer = g.nodes[i].layer;
    return push(node);
  }
  constexpr int whole(int i) {
    if (!is_part[i]) return as_it_is[i];
    if (changed[i] < 0)
      changed[i] = push_change(i, Instance<ops::SumOverWorkers, Scalar>::template info<Context>,
                               static_cast<int>(g.nodes[i].type->size()));
    return changed[i];
  }
  constexpr int part(int i) {
    if (is_part[i]) return as_it_is[i];
    if (share < 0) {
      Node<Context> leaf;
      leaf.source = Source::batch_share;
      leaf.type = &Scalar::info;
      share = push(leaf);
    }
    if (changed[i] < 0) changed[i] = push_change(i, Instance<ops::Multiply, Scalar, Scalar>::template info<Context>, 0);
    return changed[i];
  }

  constexpr void add(int i) {
    Node<Context> node = g.nodes[i];
    const int* const given = g.nodes[i].operands;
    bool from_samples = false, stays_part[max_operands]{};
    for (int j = 0; j < node.operand_count; ++j) {
      from_samples = from_samples || is_of_samples(given[j]);
      const bool is_there = wants_whole[i] && is_part[given[j]] && changed[given[j]] >= 0;
      stays_part[j] = is_part[given[j]] && !is_there;
    }
    const auto keep = [&](bool first, bool second) {
      stays_part[0] = stays_part[0] && first;
      stays_part[1] = stays_part[1] && second;
    };
    bool parts_are_added = false;
    if (!node.is_computed()) {
    } else if (!is_linear(i)) {
      for (bool& stays : stays_part) stays = false;
    } else if (node.operation->algebra == Algebra::multiply) {
      keep(given[0] != given[1], !stays_part[0]);
    } else if (node.operation->algebra == Algebra::divide) {
      keep(true, false);
    } else if (node.operation->algebra == Algebra::add || node.operation->algebra == Algebra::subtract) {
      if (stays_part[0] != stays_part[1] && wants_whole[i]) keep(false, false);
      parts_are_added = stays_part[0] || stays_part[1];
    }
    is_part[i] = from_samples && !is_of_samples(i);
    for (int j = 0; j < node.operand_count; ++j) {
      is_part[i] = is_part[i] || stays_part[j];
      node.operands[j] = parts_are_added ? part(given[j]) : stays_part[j] ? as_it_is[given[j]] : whole(given[j]);
    }
    as_it_is[i] = push(node);
    for (int k = 0; k < G::output_count; ++k)  // at once: gradients have to be there before the update
      if (g.outputs[k].node == i) {
        grown.graph.outputs[k] = g.outputs[k];
        grown.graph.outputs[k].node = is_of_samples(i) ? as_it_is[i] : may_be_part(g.outputs[k]) ? part(i) : whole(i);
      }
  }

  constexpr Grown<G> run() {
    find_wants();
    for (int i = 0; i < n; ++i) {
      changed[i] = -1;
      add(i);
      if (i < g.forward_count) grown.graph.forward_count = grown.count;
    }
    return grown;
  }
};

/// The graph that a program runs: the traced one, or that of workers who share a batch.
template <const auto& traced, bool is_shared>
struct GraphOfWorker {
  static constexpr const auto& graph = traced;
};
template <const auto& traced>
struct GraphOfWorker<traced, true> {
  static constexpr auto grown = BatchSumPass(traced).run();
  static constexpr auto graph = first_nodes<grown.count>(grown.graph);
};

}  // namespace detail
}  // namespace tenet
