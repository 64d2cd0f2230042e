#pragma once

#include <tenet/ops/operation.hpp>

namespace tenet {

/// Where the value of a node comes from.
enum class Source : unsigned char {
  operation,         ///< computed from other nodes
  input,             ///< given by the caller for every run; `index` says which
  parameter,         ///< trained; `index` is the slot
  buffer,            ///< kept from run to run, not trained (running statistics); `index` is the slot
  constant,          ///< `value`
  scalar,            ///< a number that the program's owner sets before a run (learning rate); `index` says which
  reciprocal_count,  ///< 1 / (batch · index), of the whole batch where workers share it
  batch_share,       ///< the worker's part of the batch: its samples / all samples
  seed,              ///< 64 random bits of the run
  parameters,        ///< all parameters as one vector, for the optimizer
  gradients,         ///< all gradients as one vector, in the same order
  state,             ///< state `index` of the optimizer, one number a parameter
  slot_state,        ///< the part of a state that belongs to one parameter; `index` is state · slots + slot
};

/// One value of the graph: a leaf, or an operation on earlier nodes.
template <class Context>
struct Node {
  const OperationInfo<Context>* operation = nullptr;
  const TensorInfo* type = nullptr;
  int operands[max_operands]{};
  int operand_count = 0;
  int index = 0;  ///< of a leaf: see `Source`; of an operation: its attribute
  float value = 0;
  Source source = Source::operation;
  bool needs_gradient = false;  ///< a parameter stands behind it
  int layer = -1;               ///< slot of the layer that was passed last when it was traced

  /// By an operation; else it is a leaf.
  constexpr bool is_computed() const { return source == Source::operation; }
  constexpr bool is(Kind kind) const { return is_computed() && operation->kind == kind; }
};

/// Where a program leaves a value.
enum class Destination : unsigned char {
  result,        ///< for the caller; `index` says which
  gradient,      ///< of the parameter in slot `index`
  buffer,        ///< the buffer in slot `index` gets a new value
  parameters,    ///< the parameters get new values
  state,         ///< state `index` of the optimizer gets new values
  parameter,     ///< the parameter in slot `index` gets a new value
  slot_state,    ///< the part of a state that belongs to one parameter, `index` as in `Source`
  table_tokens,  ///< the tokens that choose rows of the sparse table in slot `index`
  table_rows,    ///< the gradients of these rows, one after the other
};

/// Whether the value stays where the plan has put it, as it is, until the next run.
constexpr bool is_kept(Destination destination) {
  return destination == Destination::result || destination == Destination::table_rows;
}

struct Output {
  int node = -1;
  Destination destination = Destination::result;
  int index = 0;
};

}  // namespace tenet
