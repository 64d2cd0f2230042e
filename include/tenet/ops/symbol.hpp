#pragma once

#include <tenet/core/tensor_type.hpp>

namespace tenet {

/// A tensor in a computation: its type says shape and element type, its context what an operation on it does. With a
/// `Tracer` the operation becomes a node of the compile-time graph, with an `Eager` context it runs at once.
template <class Context, class Type_>
struct Symbol {
  using Type = Type_;
  Context* context = nullptr;
  int id = -1;  ///< the node of the graph, or the entry of the tape

  /// The numbers of a real tensor, row-major, valid until its tape is cleared. A symbol of a graph has none, so
  /// branching on values is for imperative mode.
  auto values() const
    requires(Context::holds_values)
  {
    return context->template values<typename Type::Element>(id);
  }
  /// The number of a tensor that holds just one.
  typename Type::Element item() const
    requires(Context::holds_values && Type::size == 1 && !Type::batched)
  {
    return values()[0];
  }
};

template <class>
inline constexpr bool is_symbol = false;
template <class Context, class Type>
inline constexpr bool is_symbol<Symbol<Context, Type>> = true;

template <class T>
concept AnySymbol = is_symbol<T>;

}  // namespace tenet
