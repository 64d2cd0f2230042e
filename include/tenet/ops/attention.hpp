#pragma once

#include <tenet/core/attention_geometry.hpp>
#include <tenet/ops/matmul.hpp>
#include <tenet/ops/shape.hpp>
#include <tenet/ops/softmax.hpp>

/// Attention as one operation: no matrix of scores is kept, and its gradient is one operation too, whose result holds
/// the gradients of all operands side by side.
namespace tenet {
namespace detail {
/// 1 / sqrt(n) by Newton's iteration, for constant evaluation.
constexpr float reciprocal_square_root(long n) {
  double root = static_cast<double>(n);
  for (int i = 0; i < 60; ++i) root = 0.5 * (root + static_cast<double>(n) / root);
  return static_cast<float>(1.0 / root);
}
}  // namespace detail

namespace ops {

/// Three operands of (…, length, width), the extents before being heads. The gradients lie below each other,
/// (…, queries + 2·keys, width): those of the queries, of the keys, of the values.
template <class Query, class Key, bool Causal>
constexpr AttentionGeometry attention_of_parts() {
  constexpr int queries = static_cast<int>(rows_of(Query::info)), keys = static_cast<int>(rows_of(Key::info));
  constexpr int width = static_cast<int>(columns_of(Query::info));
  constexpr int heads = static_cast<int>(Query::size / (long{queries} * width));
  constexpr auto steps = [](long rows) { return AttentionGeometry::Steps{heads * rows * width, rows * width, width}; };
  constexpr auto gradient = steps(queries + 2 * keys);
  return {heads,          queries,     keys,        width,          Causal,   detail::reciprocal_square_root(width),
          steps(queries), steps(keys), steps(keys), steps(queries), gradient, gradient,
          gradient};
}

/// One operand (length, 3·heads·width) that holds in each row the heads of query, key and value, as a projection makes
/// it; the gradient lies the same way.
template <class Projected, int Heads, bool Causal>
constexpr AttentionGeometry attention_of_projected() {
  constexpr int length = Projected::info.extents[0], row = Projected::info.extents[1], width = row / 3 / Heads;
  constexpr AttentionGeometry::Steps part{long{length} * row, width, row},
      result{long{length} * row / 3, width, row / 3};
  return {Heads, length, length, width, Causal, detail::reciprocal_square_root(width), part, part,
          part,  result, part,   part,  part};
}

template <class Operand>
constexpr int samples(const auto& arguments) {
  return Operand::batched ? arguments.batch : 1;
}
template <class Operand>
constexpr Cost attention_cost(const AttentionGeometry& g, double products) {
  const auto flops = static_cast<long>(g.flops() * products / 2);
  return Operand::batched ? Cost{flops, 0} : Cost{0, flops};
}

template <bool Causal>
struct AttentionGradient : KernelOperation {
  static constexpr const char* name = "attention_gradient";
  template <class Query, class Key>
  static constexpr auto result(Query, Key, Key, Query) {
    constexpr long rows = rows_of(Query::info) + 2 * rows_of(Key::info);
    return TypeOf<with_extent(Query::info, Query::rank - 2, static_cast<int>(rows))>{};
  }
  template <class Query, class Key>
  static constexpr Cost flops(auto, Query, Key, Key, Query) {
    return attention_cost<Query>(attention_of_parts<Query, Key, Causal>(), 5);
  }
  template <class Query, class Key>
  static constexpr long scratch(const auto* executor, Query, Key, Key, Query) {
    return scratch_attention_gradient(executor, attention_of_parts<Query, Key, Causal>());
  }
  template <class Query, class Key>
  static void run(auto& executor, const auto& arguments, Query, Key, Key, Query) {
    constexpr AttentionGeometry g = attention_of_parts<Query, Key, Causal>();
    float* const to = arguments.template result<float>();
    run_attention_gradient(executor, g, samples<Query>(arguments), arguments.template operand<float>(0),
                           arguments.template operand<float>(1), arguments.template operand<float>(2),
                           arguments.template operand<float>(3), to, to + g.queries * g.width,
                           to + (g.queries + g.keys) * g.width);
  }
};

template <bool Causal>
struct Attention : KernelOperation {
  static constexpr const char* name = Causal ? "causal_attention" : "attention";
  template <class Query, class Key>
  static constexpr Query result(Query, Key, Key) {
    return {};
  }
  template <class Query, class Key>
  static constexpr Cost flops(auto, Query, Key, Key) {
    return attention_cost<Query>(attention_of_parts<Query, Key, Causal>(), 2);
  }
  template <class Query, class Key>
  static constexpr long scratch(const auto* executor, Query, Key, Key) {
    return scratch_attention(executor, attention_of_parts<Query, Key, Causal>());
  }
  template <class Query, class Key>
  static void run(auto& executor, const auto& arguments, Query, Key, Key) {
    run_attention(executor, attention_of_parts<Query, Key, Causal>(), samples<Query>(arguments),
                  arguments.template operand<float>(0), arguments.template operand<float>(1),
                  arguments.template operand<float>(2), arguments.template result<float>());
  }
  template <class Query, class Key>
  static constexpr auto gradient(auto, auto upstream, Query query, Key key, Key value) {
    constexpr int rank = Query::Type::rank, queries = static_cast<int>(rows_of(Query::Type::info)),
                  keys = static_cast<int>(rows_of(Key::Type::info));
    const auto all = apply<AttentionGradient<Causal>>(query, key, value, upstream);  // once for the three of them
    return gradients([=] { return apply<Slice<rank - 2, 0, queries>>(all); },
                     [=] { return apply<Slice<rank - 2, queries, keys>>(all); },
                     [=] { return apply<Slice<rank - 2, queries + keys, keys>>(all); });
  }
};

template <int Heads, bool Causal>
struct SelfAttentionGradient : KernelOperation {
  static constexpr const char* name = "self_attention_gradient";
  template <class Projected>
  static constexpr Projected result(Projected, auto) {
    return {};
  }
  template <class Projected>
  static constexpr Cost flops(auto, Projected, auto) {
    return attention_cost<Projected>(attention_of_projected<Projected, Heads, Causal>(), 5);
  }
  template <class Projected>
  static constexpr long scratch(const auto* executor, Projected, auto) {
    return scratch_attention_gradient(executor, attention_of_projected<Projected, Heads, Causal>());
  }
  template <class Projected>
  static void run(auto& executor, const auto& arguments, Projected, auto) {
    constexpr AttentionGeometry g = attention_of_projected<Projected, Heads, Causal>();
    const float* const from = arguments.template operand<float>(0);
    float* const to = arguments.template result<float>();
    constexpr long part = g.heads * g.width;
    run_attention_gradient(executor, g, samples<Projected>(arguments), from, from + part, from + 2 * part,
                           arguments.template operand<float>(1), to, to + part, to + 2 * part);
  }
};

template <int Heads, bool Causal>
struct SelfAttention : KernelOperation {
  static constexpr const char* name = Causal ? "causal_self_attention" : "self_attention";
  template <class Projected>
  static constexpr auto result(Projected) {
    return TypeOf<with_extent(Projected::info, 1, Projected::info.extents[1] / 3)>{};
  }
  template <class Projected>
  static constexpr Cost flops(auto, Projected) {
    return attention_cost<Projected>(attention_of_projected<Projected, Heads, Causal>(), 2);
  }
  template <class Projected>
  static constexpr long scratch(const auto* executor, Projected) {
    return scratch_attention(executor, attention_of_projected<Projected, Heads, Causal>());
  }
  template <class Projected>
  static void run(auto& executor, const auto& arguments, Projected) {
    constexpr AttentionGeometry g = attention_of_projected<Projected, Heads, Causal>();
    const float* const from = arguments.template operand<float>(0);
    constexpr long part = g.heads * g.width;
    run_attention(executor, g, samples<Projected>(arguments), from, from + part, from + 2 * part,
                  arguments.template result<float>());
  }
  static constexpr auto gradient(auto, auto upstream, auto projected) {
    return gradients([=] { return apply<SelfAttentionGradient<Heads, Causal>>(projected, upstream); });
  }
};

}  // namespace ops

/// softmax(query·keyᵀ / sqrt(width))·value; query, key, value (batch, heads, length, width) -> the shape of query.
/// With Causal, a position attends to itself and those before it. (Vaswani et al., arXiv 1706.03762.)
template <bool Causal = false, class Context, class Query, class Key, class Value>
constexpr auto scaled_dot_product_attention(Symbol<Context, Query> query, Symbol<Context, Key> key,
                                            Symbol<Context, Value> value) {
  static_assert(Query::rank >= 2, "attention: query, key and value are (batch, …, length, width)");
  constexpr bool one_kernel = [] {
    TensorInfo like = Key::info;
    if (Key::rank != Query::rank) return false;
    like.extents[Key::rank - 2] = Query::info.extents[Query::rank - 2];
    return std::is_same_v<Key, Value> && like == Query::info;
  }();
  if constexpr (one_kernel) {
    return apply<ops::Attention<Causal>>(query, key, value);
  } else {  // one key for the whole batch, or values of another width
    const auto scores =
        matmul<false, true>(query * detail::reciprocal_square_root(Query::info.extents[Query::rank - 1]), key);
    if constexpr (Causal)
      return matmul(causal_softmax(scores), value);
    else
      return matmul(softmax(scores), value);
  }
}

/// The attention of Heads heads, whose queries, keys and values stand side by side in each row of a projection:
/// (batch, length, 3·Heads·width) -> (batch, length, Heads·width).
template <int Heads, bool Causal = false, class Context, class Projected>
constexpr auto self_attention(Symbol<Context, Projected> projected) {
  static_assert(Projected::rank == 2 && Projected::info.extents[1] % (3 * Heads) == 0,
                "self_attention<Heads>: the operand is (batch, length, 3·Heads·width)");
  return apply<ops::SelfAttention<Heads, Causal>>(projected);
}

}  // namespace tenet
