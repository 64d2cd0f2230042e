#pragma once

#include <string_view>
#include <tenet/tenet.hpp>

/// What static tests ask: the type of an expression of symbols, and what its graph looks like.
namespace traced {

using Kernels = tenet::ReferenceKernels;
using Context = tenet::Tracer<Kernels>;

/// A symbol to write an expression with, in an unevaluated operand: decltype(relu(Symbol<Batched<3>>{})).
template <class Type>
using Symbol = tenet::Symbol<Context, Type>;

template <class S>
using TypeOf = typename S::Type;

/// The type of function(symbols of the given types).
template <class Function, class... Types>
using ResultOf = TypeOf<decltype(std::declval<Function>()(std::declval<Symbol<Types>>()...))>;

/// The inference program of a network.
template <class Net, class Input>
using Inference = tenet::Program<tenet::InferenceProgram<Net, Input, Kernels>>;

/// The training program of a network.
template <class Net, class Input, class Loss = tenet::MeanSquaredError, class Optimizer = tenet::Sgd>
using Training = tenet::Program<tenet::TrainingProgram<Net, Loss, Optimizer, Input, Kernels>>;

/// A network without parameters that is a function.
template <auto function>
struct Function {
  constexpr auto forward(auto x) const { return function(x); }
};

/// Operations (of that name, if one is given) in the graph of a program, views and leaves not counted.
template <class Program>
constexpr int operations(std::string_view name = {}) {
  int count = 0;
  for (const auto& node : Program::graph.nodes)
    if (node.is_computed() && node.operation->kind != tenet::Kind::view)
      count += name.empty() || name == node.operation->name;
  return count;
}

/// Operations in the graph of function(x), x of type Batched<4>.
template <auto function, class Input = tenet::Batched<4>>
inline constexpr int count = operations<Inference<Function<function>, Input>>();

}  // namespace traced
