#pragma once

#include <tenet/nn/parameter.hpp>
#include <tenet/ops/activation.hpp>
#include <tenet/ops/shape.hpp>
#include <tenet/ops/softmax.hpp>

/// Layers without parameters, for use in containers; in a `forward` the functions of the same names do.
namespace tenet {

struct ReLU {
  constexpr auto operator()(AnySymbol auto x) const { return relu(x); }
};
struct GELU {
  constexpr auto operator()(AnySymbol auto x) const { return gelu(x); }
};
struct Sigmoid {
  constexpr auto operator()(AnySymbol auto x) const { return sigmoid(x); }
};
struct Tanh {
  constexpr auto operator()(AnySymbol auto x) const { return tanh(x); }
};
/// Over the last dimension.
struct Softmax {
  constexpr auto operator()(AnySymbol auto x) const { return softmax(x); }
};
/// The input itself: a shortcut that does nothing.
struct Identity {
  constexpr auto operator()(AnySymbol auto x) const { return x; }
};
/// (batch, a, b, …) -> (batch, a·b·…)
struct Flatten {
  constexpr auto operator()(AnySymbol auto x) const { return flatten(x); }
};

}  // namespace tenet
