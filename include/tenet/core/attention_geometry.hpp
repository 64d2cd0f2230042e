#pragma once

namespace tenet {

/// Attention of several heads: result = softmax(scale·query·keyᵀ)·value for every head of every sample.
///
/// Of each head, query and result are [queries, width], key and value [keys, width]; element (s, h, r, c) of an operand
/// lies at s * sample + h * head + r * row + c, so that heads may be read where a projection has left them.
struct AttentionGeometry {
  struct Steps {
    long sample, head, row;
    constexpr long at(long s, long h) const { return s * sample + h * head; }
  };
  int heads, queries, keys, width;
  bool causal;  ///< query r sees the keys 0 … r only
  float scale;
  Steps query, key, value, result;
  Steps query_gradient, key_gradient, value_gradient;  ///< of the gradients, each in the shape of its operand

  /// The keys that the queries before `end` see.
  constexpr long seen(long end) const { return causal && end < keys ? end : keys; }
  /// Multiplications and additions of the products of one sample, masked ones included.
  constexpr double flops() const {
    return 4.0 * static_cast<double>(heads) * static_cast<double>(queries) * static_cast<double>(keys) *
           static_cast<double>(width);
  }
};

}  // namespace tenet
