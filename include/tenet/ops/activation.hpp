#pragma once

#include <tenet/ops/arithmetic.hpp>

/// Activation functions and their gradients, which use the result y where that is enough, so that x need not be kept.
namespace tenet {
namespace ops {

struct ReluGradient : ElementOperation {
  static constexpr const char* name = "relu_gradient";
  static constexpr auto element(auto y, auto upstream) {
    return select(y > 0.0f, upstream, broadcast<decltype(y)>(0.0f));
  }
};

struct Relu : ElementOperation {
  static constexpr const char* name = "relu";
  static constexpr Algebra algebra = Algebra::idempotent;
  static constexpr auto element(auto x) { return select(x < 0.0f, broadcast<decltype(x)>(0.0f), x); }
  static constexpr auto gradient(auto y, auto upstream, auto) {
    return gradients([=] { return apply<ReluGradient>(y, upstream); });
  }
};

struct SigmoidGradient : ElementOperation {
  static constexpr const char* name = "sigmoid_gradient";
  static constexpr auto element(auto y, auto upstream) { return upstream * y * (1.0f - y); }
};

struct Sigmoid : ElementOperation {
  static constexpr const char* name = "sigmoid";
  static constexpr bool cheap = false;
  static constexpr auto element(auto x) { return sigmoid(x); }
  static constexpr auto gradient(auto y, auto upstream, auto) {
    return gradients([=] { return apply<SigmoidGradient>(y, upstream); });
  }
};

struct TanhGradient : ElementOperation {
  static constexpr const char* name = "tanh_gradient";
  static constexpr auto element(auto y, auto upstream) { return upstream * (1.0f - y * y); }
};

struct Tanh : ElementOperation {
  static constexpr const char* name = "tanh";
  static constexpr bool cheap = false;
  static constexpr auto element(auto x) { return tanh(x); }
  static constexpr auto gradient(auto y, auto upstream, auto) {
    return gradients([=] { return apply<TanhGradient>(y, upstream); });
  }
};

/// d/dx x·P(X <= x) = P(X <= x) + x·density(x), X normal.
struct GeluGradient : ElementOperation {
  static constexpr const char* name = "gelu_gradient";
  static constexpr bool cheap = false;
  static constexpr auto element(auto x, auto upstream) { return upstream * gelu_slope(x); }
};

/// x·P(X <= x), X normal: the exact form, PyTorch's default (Hendrycks and Gimpel, arXiv 1606.08415).
struct Gelu : ElementOperation {
  static constexpr const char* name = "gelu";
  static constexpr bool cheap = false;
  static constexpr auto element(auto x) { return x * normal_probability(x); }
  static constexpr auto gradient(auto, auto upstream, auto x) {
    return gradients([=] { return apply<GeluGradient>(x, upstream); });
  }
};

}  // namespace ops

/// max(x, 0)
constexpr auto relu(AnySymbol auto x) { return apply<ops::Relu>(x); }
/// 1 / (1 + exp(-x))
constexpr auto sigmoid(AnySymbol auto x) { return apply<ops::Sigmoid>(x); }
constexpr auto tanh(AnySymbol auto x) { return apply<ops::Tanh>(x); }
constexpr auto gelu(AnySymbol auto x) { return apply<ops::Gelu>(x); }

}  // namespace tenet
