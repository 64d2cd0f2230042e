#pragma once

#include <tenet/core/same_address.hpp>
#include <tenet/graph/node.hpp>
#include <tenet/graph/without_gradient.hpp>
#include <tenet/ops/arithmetic.hpp>
#include <tenet/ops/mistake.hpp>

namespace tenet {

/// Fixed room for a trace, which becomes a constant. Capacities are chosen from the number of slots of the network; a
/// trace that does not fit says so in `overflow` and is repeated with more room.
template <class Context, int Nodes, int Outputs>
struct Trace {
  Node<Context> nodes[Nodes];
  Output outputs[Outputs];
  int count = 0, output_count = 0;
  int forward_count = 0;  ///< nodes traced before backward began
  int merged = 0, simplified = 0;
  MistakeRecord mistake{};
  bool overflow = false;
};

/// The context of symbolic mode: every operation becomes a node of a graph, during constant evaluation.
///
/// A node that exists already is returned instead of a new one (common subexpressions), and identities such as x·1,
/// x + 0, -(-x), relu(relu(x)) or an operation on constants leave no node at all.
template <class Device_>
class Tracer {
 public:
  using Device = Device_;
  using Base = Tracer;
  using Info = OperationInfo<Tracer>;
  using WithoutGradient = WithoutGradientContext<Tracer>;
  static constexpr bool differentiable = true;
  static constexpr bool records_mistakes = true;
  static constexpr bool holds_values = false;

  template <int Nodes, int Outputs>
  constexpr Tracer(Trace<Tracer, Nodes, Outputs>& trace, int* table, int* slots, bool training)
      : nodes_(trace.nodes), table_(table), slots_(slots), capacity_(Nodes), training_(training) {}

  constexpr int emit(const Info& info, const int* operands, int attribute) {
    Node<Tracer> node;
    node.operation = &info;
    node.type = info.result;
    node.operand_count = info.operand_count;
    node.index = attribute;
    for (int i = 0; i < info.operand_count; ++i) {
      node.operands[i] = operands[i];
      node.needs_gradient = node.needs_gradient || nodes_[operands[i]].needs_gradient;
    }
    if ((info.algebra == Algebra::add || info.algebra == Algebra::multiply) && node.operands[0] > node.operands[1] &&
        same_address(nodes_[operands[0]].type, nodes_[operands[1]].type)) {  // a + b and b + a are one node
      node.operands[0] = operands[1];
      node.operands[1] = operands[0];
    }
    const int same = simplified(info, node);
    if (same >= 0) {
      ++simplified_;
      return same;
    }
    return push(node);
  }

  constexpr int leaf(Source source, const TensorInfo& type, int index, float value = 0) {
    Node<Tracer> node;
    node.source = source;
    node.type = &type;
    node.index = index;
    node.value = value;
    node.needs_gradient = source == Source::parameter;
    return push(node);
  }

  constexpr int constant(float value) { return leaf(Source::constant, Scalar::info, 0, value); }
  constexpr int reciprocal_count(int per_sample) { return leaf(Source::reciprocal_count, Scalar::info, per_sample); }
  constexpr int scalar(int index) { return leaf(Source::scalar, Scalar::info, index); }
  constexpr int seed() { return leaf(Source::seed, TensorType<std::int32_t, false, 2>::info, 0); }
  constexpr int parameter(int slot, const TensorInfo& type) { return leaf(Source::parameter, type, slot); }

  /// The present value of a buffer: what was assigned to it last in this step, else what it holds.
  constexpr int buffer(int slot, const TensorInfo& type) {
    return slots_[slot] > 0 ? slots_[slot] - 1 : leaf(Source::buffer, type, slot);
  }
  constexpr void assign(int slot, int node) { slots_[slot] = node + 1; }

  constexpr bool training() const { return training_; }
  constexpr int next_salt() { return salt_++; }

  constexpr void visit(int slot, int line) {
    last_slot_ = slot;
    last_line_ = line;
  }
  /// What comes now belongs to the layer of that node: its gradients do.
  constexpr void return_to_layer_of(int node) { last_slot_ = nodes_[node].layer; }
  constexpr void record(MistakeRecord mistake) {
    if (mistake_.kind != Mistake::none) return;  // the first one; what follows may be its consequence
    if (mistake.slot < 0) mistake.slot = last_slot_;
    if (mistake.line == 0) mistake.line = last_line_;
    mistake_ = mistake;
  }

  // What `backward` asks of a context.
  constexpr int count() const { return count_; }
  constexpr const Info* operation(int node) const { return nodes_[node].operation; }
  constexpr const int* operands(int node) const { return nodes_[node].operands; }
  constexpr bool needs_gradient(int node) const { return nodes_[node].needs_gradient; }

  constexpr const Node<Tracer>& node(int id) const { return nodes_[id]; }
  constexpr int assigned(int slot) const { return slots_[slot] - 1; }
  constexpr int merged() const { return merged_; }
  constexpr int simplified() const { return simplified_; }
  constexpr bool overflow() const { return overflow_; }
  constexpr const MistakeRecord& mistake() const { return mistake_; }

 private:
  constexpr bool is_constant(int node, float value) const {
    return nodes_[node].source == Source::constant && nodes_[node].value == value;
  }
  constexpr bool has_type(int node, const TensorInfo& type) const {
    return same_address(nodes_[node].type, &type) || *nodes_[node].type == type;
  }

  /// The existing node that an operation equals by an identity, or -1.
  constexpr int simplified(const Info& info, Node<Tracer>& node) {
    const int a = node.operands[0], b = node.operands[1];
    if (info.result->rank == 0 && !info.result->batched && !is_null(info.fold)) {
      float values[max_operands]{};
      bool all = true;
      for (int i = 0; i < info.operand_count; ++i) {
        all = all && nodes_[node.operands[i]].source == Source::constant;
        values[i] = nodes_[node.operands[i]].value;
      }
      if (all) return constant(info.fold(values[0], values[1], values[2], values[3]));
    }
    if (info.kind == Kind::view) {
      if (nodes_[a].is(Kind::view)) node.operands[0] = nodes_[a].operands[0];
      return has_type(node.operands[0], *info.result) ? node.operands[0] : -1;
    }
    switch (info.algebra) {
      case Algebra::add:
        if (is_constant(b, 0) && has_type(a, *info.result)) return a;
        if (is_constant(a, 0) && has_type(b, *info.result)) return b;
        break;
      case Algebra::multiply:
        if (is_constant(b, 1) && has_type(a, *info.result)) return a;
        if (is_constant(a, 1) && has_type(b, *info.result)) return b;
        break;
      case Algebra::subtract:
        if (is_constant(b, 0) && has_type(a, *info.result)) return a;
        break;
      case Algebra::divide:
        if (is_constant(b, 1) && has_type(a, *info.result)) return a;
        break;
      case Algebra::negate:
        if (nodes_[a].is_computed() && nodes_[a].operation->algebra == Algebra::negate) return nodes_[a].operands[0];
        break;
      case Algebra::idempotent:
        if (nodes_[a].is_computed() && same_address(nodes_[a].operation->identity, info.identity)) return a;
        break;
      case Algebra::none:
        break;
    }
    return -1;
  }

  static constexpr bool equal(const Node<Tracer>& a, const Node<Tracer>& b) {
    if (a.source != b.source || a.index != b.index || a.value != b.value || a.operand_count != b.operand_count)
      return false;
    for (int i = 0; i < a.operand_count; ++i)
      if (a.operands[i] != b.operands[i]) return false;
    return a.source == Source::operation ? same_address(a.operation->identity, b.operation->identity)
                                         : same_address(a.type, b.type) || *a.type == *b.type;
  }

  /// The node, or the equal one that exists: a hash table with linear probing, entries are ids + 1.
  constexpr int push(const Node<Tracer>& node) {
    unsigned hash = 2166136261u + static_cast<unsigned>(node.source) * 97u + static_cast<unsigned>(node.index) * 7919u;
    if (node.is_computed()) {
      hash += static_cast<unsigned>(node.operation->name[0]) * 31u + static_cast<unsigned>(node.operation->name[1]);
      hash += static_cast<unsigned>(node.operation->kind) * 613u;
    }
    for (int i = 0; i < node.operand_count; ++i)
      hash = (hash ^ static_cast<unsigned>(node.operands[i] + 1)) * 16777619u;
    unsigned at = hash % static_cast<unsigned>(2 * capacity_);
    while (table_[at]) {
      if (equal(nodes_[table_[at] - 1], node)) {
        ++merged_;
        return table_[at] - 1;
      }
      at = at + 1 == static_cast<unsigned>(2 * capacity_) ? 0 : at + 1;
    }
    if (count_ == capacity_) {
      overflow_ = true;
      return count_ - 1;
    }
    nodes_[count_] = node;
    nodes_[count_].layer = last_slot_;
    table_[at] = count_ + 1;
    return count_++;
  }

  Node<Tracer>* nodes_;
  int* table_;
  int* slots_;  // of each slot: the node assigned to it + 1, or 0
  int capacity_;
  int count_ = 0, merged_ = 0, simplified_ = 0, salt_ = 0;
  int last_slot_ = -1, last_line_ = 0;
  bool training_, overflow_ = false;
  MistakeRecord mistake_{};
};

}  // namespace tenet
