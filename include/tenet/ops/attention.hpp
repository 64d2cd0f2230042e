#pragma once

#include <tenet/ops/matmul.hpp>
#include <tenet/ops/softmax.hpp>

namespace tenet {
namespace detail {
/// 1 / sqrt(n) by Newton's iteration, for constant evaluation.
constexpr float reciprocal_square_root(long n) {
  double root = static_cast<double>(n);
  for (int i = 0; i < 60; ++i) root = 0.5 * (root + static_cast<double>(n) / root);
  return static_cast<float>(1.0 / root);
}
}  // namespace detail

/// softmax(query·keyᵀ / sqrt(width))·value; query, key, value (batch, heads, length, width) -> the shape of query.
/// With Causal, a position attends to itself and those before it. (Vaswani et al., arXiv 1706.03762.)
template <bool Causal = false, class Context, class Query, class Key, class Value>
constexpr auto scaled_dot_product_attention(Symbol<Context, Query> query, Symbol<Context, Key> key,
                                            Symbol<Context, Value> value) {
  static_assert(Query::rank >= 2, "attention: query, key and value are (batch, …, length, width)");
  const auto scores =
      matmul<false, true>(query * detail::reciprocal_square_root(Query::info.extents[Query::rank - 1]), key);
  if constexpr (Causal)
    return matmul(causal_softmax(scores), value);
  else
    return matmul(softmax(scores), value);
}

}  // namespace tenet
