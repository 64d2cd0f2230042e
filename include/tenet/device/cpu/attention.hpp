#pragma once

#include "tenet/core/attention_geometry.hpp"
#include "tenet/core/vector_math.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/workers.hpp"

/// Attention without the matrix of scores: a block of queries at a time, whose scores stay in cache. Scores are kept
/// transposed, [keys][queries of the block]: queries lie in the lanes, so softmax needs no sums across lanes, and all
/// products run on the tiles of `tile.hpp` without another transpose than those of the block's queries.
///
/// The gradient computes the scores again (Dao et al., arXiv 2205.14135). What the forward pass would have to keep for
/// it, one number a row, is computed again as well: the whole row of scores is in cache.
namespace tenet::cpu {

namespace detail {

inline constexpr long query_block = tile_columns;
/// Queries of one task of the forward pass.
inline constexpr long query_chunk = 4 * query_block;

/// c [rows, columns] = (or +=) the sum over k < inner of a[i * a_row + k * a_step] * b[k * b_step + j]; columns are
/// whole vectors.
inline void tiled_product(long rows, long columns, long inner, const float* a, long a_row, long a_step, const float* b,
                          long b_step, float* c, long c_row, bool accumulate) {
  const PanelCut panels(columns);
  for (long panel = 0; panel < panels.count; ++panel) {
    const long first = panels.first(panel);
    tiles(rows, static_cast<int>(panels.width(panel) / vector_width), inner, a, a_row, a_step, b + first, b_step,
          c + first, c_row, accumulate);
  }
}

/// Rows of `width` floats to rows of whole vectors, filled with zeros.
inline void copy_rows(const float* from, long from_row, long rows, long width, float* to, long to_row) {
  for (long i = 0; i < rows; ++i, from += from_row, to += to_row) {
    if (width < to_row) store(to + to_row - vector_width, zero_lanes());
    copy_floats(to, from, width);
  }
}

/// Rows of whole vectors to rows of `width` floats, row i times scale[i].
inline void scale_rows(const float* from, long from_row, long rows, long width, const float* scale, float* to,
                       long to_row) {
  for (long i = 0; i < rows; ++i, from += from_row, to += to_row) {
    long c = 0;
    for (; c + vector_width <= width; c += vector_width) store(to + c, load(from + c) * scale[i]);
    if (c < width) store_partial(to + c, load(from + c) * scale[i], static_cast<int>(width - c));
  }
}

/// The transpose of a block of queries, [width][query_block]; lanes without a query hold zeros.
inline void transpose_block(const float* from, long from_row, long rows, long width, float* to) {
  if (rows < query_block) fill_floats(to, 0, width * query_block);
  transpose(from, from_row, rows, width, to, query_block);
}

/// Scores of a block of queries [keys][query_block], and the gradient of their weights in the same form, or null.
struct ScoreBlock {
  float *scores, *gradient;
  long keys, masked;  ///< keys behind `masked` are not seen by all queries: key j by the queries j - masked … only
  float scale;
};

/// How many lanes of a vector of queries do not see key j: those of the queries before it.
[[gnu::always_inline]] inline int unseeing(const ScoreBlock& block, long j, int vector) {
  const long count = j - block.masked - vector * vector_width;
  return static_cast<int>(count < 0 ? 0 : smaller(count, vector_width));
}

/// The largest scores of the queries of some vectors.
template <int... V>
[[gnu::always_inline]] inline void largest_scores(const ScoreBlock& block, Vector* largest,
                                                  std::integer_sequence<int, V...>) {
  ((largest[V] = load(block.scores + V * vector_width)), ...);  // all queries see the first key
  const float* row = block.scores;
  const auto larger = [](Vector a, Vector b) { return select(a > b, a, b); };
  for (long j = 0; j < block.keys; ++j, row += query_block) {
    if (j <= block.masked) {
      ((largest[V] = larger(load(row + V * vector_width), largest[V])), ...);
    } else {
      ((largest[V] =
            select(first_lanes(unseeing(block, j, V)), largest[V], larger(load(row + V * vector_width), largest[V]))),
       ...);
    }
  }
}

/// One vector of exp(scale·(scores - largest)), 0 in the first lanes.
[[gnu::always_inline]] inline void exponential_of_score(float* score, Vector largest, float scale, int unseeing,
                                                        Vector& sum) {
  Vector weight = zero_lanes();
  if (unseeing < vector_width) {
    weight = exp_of_negative((load(score) - largest) * scale);
    if (unseeing > 0) weight = select(first_lanes(unseeing), zero_lanes(), weight);
  }
  store(score, weight);
  sum += weight;
}

/// scores = exp(scale·(scores - largest)), 0 where a key is not seen; the sums of these.
template <int... V>
[[gnu::always_inline]] inline void exponentials_of_scores(const ScoreBlock& block, Vector* sum,
                                                          std::integer_sequence<int, V...> vectors) {
  Vector largest[sizeof...(V)];
  largest_scores(block, largest, vectors);
  ((sum[V] = zero_lanes()), ...);
  float* row = block.scores;
  for (long j = 0; j < block.keys; ++j, row += query_block) {
    if (j <= block.masked) {
      (exponential_of_score(row + V * vector_width, largest[V], block.scale, 0, sum[V]), ...);
    } else {
      (exponential_of_score(row + V * vector_width, largest[V], block.scale, unseeing(block, j, V), sum[V]), ...);
    }
  }
}

/// Scores to weights that are still to be divided by their sums; the reciprocals of those go to `reciprocal`.
template <int Vectors>
void weigh(const ScoreBlock& block, float* reciprocal) {
  Vector sum[Vectors];
  exponentials_of_scores(block, sum, std::make_integer_sequence<int, Vectors>{});
  for (int v = 0; v < Vectors; ++v) store(reciprocal + v * vector_width, 1.0f / sum[v]);
}

template <int... V>
[[gnu::always_inline]] inline void weigh_gradient(const ScoreBlock& block, std::integer_sequence<int, V...> vectors) {
  Vector reciprocal[sizeof...(V)], sum[sizeof...(V)] = {};
  exponentials_of_scores(block, reciprocal, vectors);
  ((reciprocal[V] = 1.0f / reciprocal[V]), ...);
  const float* from = block.gradient;
  float* to = block.scores;
  for (long j = 0; j < block.keys; ++j, from += query_block, to += query_block) {
    const Vector weight[sizeof...(V)] = {(load(to + V * vector_width) * reciprocal[V])...};
    ((store(to + V * vector_width, weight[V]), sum[V] += weight[V] * load(from + V * vector_width)), ...);
  }
  to = block.gradient;
  from = block.scores;
  for (long j = 0; j < block.keys; ++j, to += query_block, from += query_block)
    (store(to + V * vector_width, load(from + V * vector_width) * block.scale * (load(to + V * vector_width) - sum[V])),
     ...);
}

/// Scores to weights, the gradients of the weights to those of the scores: ds = scale·p·(dp - sum(p·dp)).
template <int Vectors>
void weigh_with_gradient(const ScoreBlock& block, float*) {
  weigh_gradient(block, std::make_integer_sequence<int, Vectors>{});
}

using Weigh = void (*)(const ScoreBlock&, float*);
inline constexpr Weigh weigh_choices[2][tile_vectors] = {
    {weigh<1>, weigh<2>, weigh<3>}, {weigh_with_gradient<1>, weigh_with_gradient<2>, weigh_with_gradient<3>}};

/// Sizes of the scratch memory of a head, in floats.
struct AttentionScratch {
  long row, keys, block, scores, transposed;
  bool whole;  ///< rows of operands are whole vectors, so that products read and write them where they lie

  constexpr explicit AttentionScratch(const AttentionGeometry& g)
      : row(round_up(g.width, vector_width)),
        keys(g.keys * row + vector_width),  // not a power of two: rows of two parts would compete for cache lines
        block(query_block * row + vector_width),
        scores(g.keys * query_block + vector_width),
        transposed(g.width * query_block + vector_width),
        whole(row == g.width) {}
  constexpr long forward() const { return keys + block + scores + transposed + query_block; }
  constexpr long backward() const { return keys + (whole ? 0 : 2 * keys + 3 * block) + 2 * scores + 2 * transposed; }
};

/// Rows of whole vectors.
struct WholeRows {
  float* data;
  long row;
};
struct ConstantRows {
  const float* data;
  long row;
};

/// A block of queries and what is computed for it.
struct QueryBlock {
  const AttentionGeometry& g;
  long first, rows, seen;

  QueryBlock(const AttentionGeometry& geometry, long begin, long end)
      : g(geometry), first(begin), rows(smaller(query_block, end - begin)), seen(g.seen(begin + rows)) {}
  long columns() const { return round_up(rows, vector_width); }
  ScoreBlock scores(float* scores, float* gradient) const {
    return {scores, gradient, seen, g.causal ? first : seen, g.scale};
  }

  /// to [seen][query_block] = keys [seen, width] times the transposed queries.
  void multiply_keys(const float* keys, long row, const float* transposed, float* to) const {
    tiled_product(seen, columns(), g.width, keys, row, 1, transposed, query_block, to, query_block, false);
  }
  /// to [rows, width] = the transpose of weights [seen][query_block] times values [seen, width]. Of causal attention in
  /// parts, as the weights of keys that are not seen are zero.
  void sum_values(const float* weights, ConstantRows values, long columns_, WholeRows to) const {
    const long step = g.causal ? vector_width : rows;
    for (long i = 0; i < rows; i += step)
      tiled_product(smaller(step, rows - i), columns_, smaller(seen, g.seen(first + i + step)), weights + i, 1,
                    query_block, values.data, values.row, to.data + i * to.row, to.row, false);
  }
  /// to [seen, width] += weights [seen][query_block] times queries [rows, width]; the first of these sums for the keys
  /// behind `begun`.
  void sum_queries(const float* weights, ConstantRows queries, long columns_, long begun, WholeRows to) const {
    if (begun > 0)
      tiled_product(begun, columns_, rows, weights, query_block, 1, queries.data, queries.row, to.data, to.row, true);
    const long step = g.causal ? vector_width : seen;
    for (long j = begun; j < seen; j += step) {
      const long skipped = g.causal ? j - first : 0;  // queries that do not see these keys
      tiled_product(smaller(step, seen - j), columns_, rows - skipped, weights + j * query_block + skipped, query_block,
                    1, queries.data + skipped * queries.row, queries.row, to.data + j * to.row, to.row, false);
    }
  }
};

}  // namespace detail

constexpr long scratch_attention(const Workers*, const AttentionGeometry& g) {
  return detail::AttentionScratch(g).forward();
}
constexpr long scratch_attention_gradient(const Workers*, const AttentionGeometry& g) {
  return detail::AttentionScratch(g).backward();
}

/// result = softmax(scale·query·keyᵀ)·value, see `AttentionGeometry`.
inline void run_attention(Workers& workers, const AttentionGeometry& g, int batch, const float* query, const float* key,
                          const float* value, float* result) {
  using namespace detail;
  const AttentionScratch size(g);
  workers.reserve_scratch(size.forward());
  const long chunks = blocks_of(g.queries, query_chunk);
  auto task = [&](int index, int worker) {
    const long s = index / chunks / g.heads, h = index / chunks % g.heads, chunk = index % chunks * query_chunk;
    const long end = smaller(g.queries, chunk + query_chunk);
    float* const values = workers.scratch(worker);
    float* const transposed = values + size.keys;
    float* const sums = transposed + size.transposed;
    float* const reciprocals = sums + size.block;
    float* const scores = reciprocals + query_block;
    copy_rows(value + g.value.at(s, h), g.value.row, g.seen(end), g.width, values, size.row);
    for (long first = chunk; first < end; first += query_block) {
      const QueryBlock block(g, first, end);
      transpose_block(query + g.query.at(s, h) + first * g.query.row, g.query.row, block.rows, g.width, transposed);
      block.multiply_keys(key + g.key.at(s, h), g.key.row, transposed, scores);
      weigh_choices[0][block.columns() / vector_width - 1](block.scores(scores, nullptr), reciprocals);
      block.sum_values(scores, {values, size.row}, size.row, {sums, size.row});
      scale_rows(sums, size.row, block.rows, g.width, reciprocals, result + g.result.at(s, h) + first * g.result.row,
                 g.result.row);
    }
  };
  run_tasks(workers, batch * g.heads * chunks, batch * g.flops() < inline_flops, task);
}

/// The gradients of the three operands; `upstream` lies as the result does. With weights p = softmax(s):
/// dvalue = pᵀ·upstream,  dp = upstream·valueᵀ,  ds = p·(dp - sum(p·dp)),  dquery = scale·ds·key,  dkey =
/// scale·dsᵀ·query.
inline void run_attention_gradient(Workers& workers, const AttentionGeometry& g, int batch, const float* query,
                                   const float* key, const float* value, const float* upstream, float* query_gradient,
                                   float* key_gradient, float* value_gradient) {
  using namespace detail;
  const AttentionScratch size(g);
  workers.reserve_scratch(size.backward());
  auto task = [&](int index, int worker) {
    const long s = index / g.heads, h = index % g.heads, row = size.row;
    float* next = workers.scratch(worker);
    const auto take = [&](long floats) { return std::exchange(next, next + floats); };
    float *const keys = take(size.keys), *const scores = take(size.scores), *const gradient = take(size.scores);
    float *const q_transposed = take(size.transposed), *const dy_transposed = take(size.transposed);
    // Rows that are not whole vectors are widened in scratch memory.
    const auto widened = [&](float* data, long step, long floats) {
      return size.whole ? WholeRows{data, step} : WholeRows{take(floats), row};
    };
    float *const q_to = query_gradient + g.query_gradient.at(s, h),
                 *const k_to = key_gradient + g.key_gradient.at(s, h),
                 *const v_to = value_gradient + g.value_gradient.at(s, h);
    const WholeRows dk = widened(k_to, g.key_gradient.row, size.keys);
    const WholeRows dv = widened(v_to, g.value_gradient.row, size.keys);
    float *const q_wide = size.whole ? nullptr : take(size.block), *const dy_wide =
                                                                       size.whole ? nullptr : take(size.block);
    float* const dq_wide = size.whole ? nullptr : take(size.block);
    const auto read = [&](const float* from, long step, long rows, float* wide) {
      if (size.whole) return ConstantRows{from, step};
      copy_rows(from, step, rows, g.width, wide, row);
      return ConstantRows{wide, row};
    };
    const auto write = [&](WholeRows from, long rows, float* to, long step) {
      if (!size.whole)
        for (long i = 0; i < rows; ++i) copy_floats(to + i * step, from.data + i * from.row, g.width);
    };
    copy_rows(key + g.key.at(s, h), g.key.row, g.keys, g.width, keys, row);
    long begun = 0;
    for (long first = 0; first < g.queries; first += query_block) {
      const QueryBlock block(g, first, g.queries);
      const ConstantRows q = read(query + g.query.at(s, h) + first * g.query.row, g.query.row, block.rows, q_wide);
      const ConstantRows dy =
          read(upstream + g.result.at(s, h) + first * g.result.row, g.result.row, block.rows, dy_wide);
      float* const to = q_to + first * g.query_gradient.row;
      const WholeRows dq = size.whole ? WholeRows{to, g.query_gradient.row} : WholeRows{dq_wide, row};
      transpose_block(q.data, q.row, block.rows, g.width, q_transposed);
      transpose_block(dy.data, dy.row, block.rows, g.width, dy_transposed);
      block.multiply_keys(keys, row, q_transposed, scores);
      block.multiply_keys(value + g.value.at(s, h), g.value.row, dy_transposed, gradient);
      weigh_choices[1][block.columns() / vector_width - 1](block.scores(scores, gradient), nullptr);
      block.sum_queries(scores, dy, row, begun, dv);
      block.sum_queries(gradient, q, row, begun, dk);
      block.sum_values(gradient, {keys, row}, row, dq);
      write(dq, block.rows, to, g.query_gradient.row);
      begun = block.seen;
    }
    for (long j = begun; j < g.keys; ++j) {  // keys that no query sees
      fill_floats(dk.data + j * dk.row, 0, row);
      fill_floats(dv.data + j * dv.row, 0, row);
    }
    write(dk, g.keys, k_to, g.key_gradient.row);
    write(dv, g.keys, v_to, g.value_gradient.row);
  };
  run_tasks(workers, long{batch} * g.heads, 2.5 * batch * g.flops() < inline_flops, task);
}

}  // namespace tenet::cpu
