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
};

template <class>
inline constexpr bool is_symbol = false;
template <class Context, class Type>
inline constexpr bool is_symbol<Symbol<Context, Type>> = true;

template <class T>
concept AnySymbol = is_symbol<T>;

}  // namespace tenet
