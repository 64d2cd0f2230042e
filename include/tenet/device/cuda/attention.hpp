#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>
#include <tenet/core/attention_geometry.hpp>
#include <tenet/core/error.hpp>
#include <tenet/device/cuda/index.hpp>
#include <tenet/device/cuda/team.hpp>
#include <type_traits>

/// Attention: a team of threads for each query goes over its keys once, and keeps the largest score so far (Milakov and
/// Gimelshein, "Online normalizer calculation for softmax", 2018), so that no matrix of scores is stored.
namespace tenet::gpu {

template <class Executor>
constexpr long scratch_attention(const Executor*, const AttentionGeometry&) {
  return 0;
}
template <class Executor>
constexpr long scratch_attention_gradient(const Executor*, const AttentionGeometry&) {
  return 0;
}

namespace detail {

/// Rows of the other operand that a team takes at once: their products do not wait for each other.
inline constexpr int attention_step = 4;

/// The columns rank, rank + size, … of a head's row, which one thread of a team holds; zeros beyond its width.
template <class Members, int most_width>
struct OwnColumns {
  static constexpr int count = (most_width + Members::size - 1) / Members::size;
  float at[count];

  TENET_HOST_DEVICE static OwnColumns zero() {
    OwnColumns result;
    for (int p = 0; p < count; ++p) result.at[p] = 0;
    return result;
  }
  TENET_HOST_DEVICE static OwnColumns of(const Members& team, const float* row, int width) {
    OwnColumns result;
    for (int p = 0; p < count; ++p) {
      const int column = team.rank() + p * Members::size;
      result.at[p] = column < width ? row[column] : 0.0f;
    }
    return result;
  }
  /// This thread's part of the product.
  TENET_HOST_DEVICE float dot(const OwnColumns& other) const {
    float sum = 0;
    for (int p = 0; p < count; ++p) sum += at[p] * other.at[p];
    return sum;
  }
  TENET_HOST_DEVICE void add(float factor, const OwnColumns& other) {
    for (int p = 0; p < count; ++p) at[p] += factor * other.at[p];
  }
  TENET_HOST_DEVICE void scale(float factor) {
    for (int p = 0; p < count; ++p) at[p] *= factor;
  }
  TENET_HOST_DEVICE void store(const Members& team, float* row, int width) const {
    for (int p = 0; p < count; ++p) {
      const int column = team.rank() + p * Members::size;
      if (column < width) row[column] = at[p];
    }
  }
};

/// The largest of the scores so far, and the sum of exp(score - largest).
struct OnlineSoftmax {
  float largest = -FLT_MAX, sum = 0;

  /// Turns scores into weights exp(score - largest) and adds them; returns what sums of earlier weights are to be
  /// multiplied by.
  TENET_HOST_DEVICE float add(float (&scores)[attention_step]) {
    const float before = largest;
    for (const float score : scores) largest = score > largest ? score : largest;
    const float factor = std::exp(before - largest);
    sum *= factor;
    for (float& score : scores) sum += score = std::exp(score - largest);
    return factor;
  }
};

/// What the gradients by keys and values need of a query.
struct QueryStatistics {
  float largest, reciprocal;  ///< of the scores; 1 / the sum of exp(score - largest)
  float mean;                 ///< of the gradients by the weights, weighted
};

/// Row `row` of some rows of each head, which heads of all samples follow from the `first_head`-th on.
struct HeadRow {
  long sample, head, row;

  TENET_HOST_DEVICE HeadRow(const AttentionGeometry& g, long index, int rows, long first_head) {
    const Divided at = divided(index, rows), of_sample = divided(first_head + at.quotient, g.heads);
    sample = of_sample.quotient, head = of_sample.rest, row = at.rest;
  }
  TENET_HOST_DEVICE long in(const AttentionGeometry::Steps& steps) const {
    return sample * steps.sample + head * steps.head + row * steps.row;
  }
  TENET_HOST_DEVICE long head_in(const AttentionGeometry::Steps& steps) const {
    return sample * steps.sample + head * steps.head;
  }
};

/// What all kernels of attention read.
struct AttentionOperands {
  AttentionGeometry g;
  const float *query, *key, *value;

  /// Query number `index`. Causal ones from the last on: rows that take long start early.
  TENET_HOST_DEVICE HeadRow query_row(long index, long first_head) const {
    HeadRow at(g, index, g.queries, first_head);
    if (g.causal) at.row = g.queries - 1 - at.row;
    return at;
  }
};

template <int most_width>
struct Attention : AttentionOperands {
  float* result;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long index) const {
    using Columns = OwnColumns<Members, most_width>;
    const HeadRow at = query_row(index, 0);
    const float *const keys = key + at.head_in(g.key), *const values = value + at.head_in(g.value);
    const Columns q = Columns::of(team, query + at.in(g.query), g.width);
    Columns sum = Columns::zero();
    OnlineSoftmax softmax;
    const long seen = g.seen(at.row + 1);
    for (long j = 0; j < seen; j += attention_step) {
      float weights[attention_step];
      for (int k = 0; k < attention_step; ++k) {  // behind the last key: that one again, with weight 0
        const long row = j + k < seen ? j + k : seen - 1;
        weights[k] = q.dot(Columns::of(team, keys + row * g.key.row, g.width));
      }
      for (int k = 0; k < attention_step; ++k) weights[k] = team.sum(weights[k]);
      for (int k = 0; k < attention_step; ++k) weights[k] = j + k < seen ? g.scale * weights[k] : -__builtin_inff();
      sum.scale(softmax.add(weights));
      for (int k = 0; k < attention_step; ++k) {
        const long row = j + k < seen ? j + k : seen - 1;
        sum.add(weights[k], Columns::of(team, values + row * g.value.row, g.width));
      }
    }
    sum.scale(1 / softmax.sum);
    sum.store(team, result + at.in(g.result), g.width);
  }
};

/// dquery = scale·sum of p·(dp - mean)·key, where p = w / sum(w), w = exp(score - largest), and mean = sum of p·dp: in
/// one pass as scale·(sum of w·dp·key - mean·sum of w·key) / sum(w).
template <int most_width>
struct AttentionQueryGradient : AttentionOperands {
  const float* upstream;
  float* gradient;
  long first_head;
  QueryStatistics* statistics;  ///< [heads from the first on, queries]

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long index) const {
    using Columns = OwnColumns<Members, most_width>;
    const HeadRow at = query_row(index, first_head);
    const float *const keys = key + at.head_in(g.key), *const values = value + at.head_in(g.value);
    const Columns q = Columns::of(team, query + at.in(g.query), g.width);
    const Columns dy = Columns::of(team, upstream + at.in(g.result), g.width);
    Columns weighted = Columns::zero(), of_keys = Columns::zero();
    OnlineSoftmax softmax;
    float mean = 0;
    const long seen = g.seen(at.row + 1);
    for (long j = 0; j < seen; j += attention_step) {
      float weights[attention_step], differences[attention_step];
      Columns k_row[attention_step];
      for (int k = 0; k < attention_step; ++k) {  // behind the last key: that one again, with weight 0
        const long row = j + k < seen ? j + k : seen - 1;
        k_row[k] = Columns::of(team, keys + row * g.key.row, g.width);
        weights[k] = q.dot(k_row[k]);
        differences[k] = dy.dot(Columns::of(team, values + row * g.value.row, g.width));
      }
      for (int k = 0; k < attention_step; ++k) weights[k] = team.sum(weights[k]);
      for (int k = 0; k < attention_step; ++k) differences[k] = team.sum(differences[k]);
      for (int k = 0; k < attention_step; ++k) weights[k] = j + k < seen ? g.scale * weights[k] : -__builtin_inff();
      const float factor = softmax.add(weights);
      mean *= factor;
      weighted.scale(factor);
      of_keys.scale(factor);
      for (int k = 0; k < attention_step; ++k) {
        const float product = weights[k] * differences[k];
        mean += product;
        weighted.add(product, k_row[k]);
        of_keys.add(weights[k], k_row[k]);
      }
    }
    const float reciprocal = 1 / softmax.sum;
    mean *= reciprocal;
    weighted.add(-mean, of_keys);
    weighted.scale(g.scale * reciprocal);
    weighted.store(team, gradient + at.in(g.query_gradient), g.width);
    if (team.rank() == 0) statistics[index - index % g.queries + at.row] = {softmax.largest, reciprocal, mean};
  }
};

/// dvalue = sum of p·dy and dkey = scale·sum of p·(dp - mean)·query over the queries that see a key.
template <int most_width>
struct AttentionKeyGradient : AttentionOperands {
  const float* upstream;
  float *key_gradient, *value_gradient;
  long first_head;
  const QueryStatistics* statistics;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long index) const {
    using Columns = OwnColumns<Members, most_width>;
    const HeadRow at(g, index, g.keys, first_head);
    const float *const queries = query + at.head_in(g.query), *const gradients = upstream + at.head_in(g.result);
    const QueryStatistics* const of_query = statistics + (at.sample * g.heads + at.head - first_head) * g.queries;
    const Columns key_row = Columns::of(team, key + at.in(g.key), g.width);
    const Columns value_row = Columns::of(team, value + at.in(g.value), g.width);
    Columns dk = Columns::zero(), dv = Columns::zero();
    const long end = g.queries;
    for (long r = g.causal ? at.row : 0; r < end; r += attention_step) {
      float scores[attention_step], differences[attention_step];
      Columns q[attention_step], dy[attention_step];
      for (int k = 0; k < attention_step; ++k) {  // behind the last query: that one again, with weight 0
        const long row = r + k < end ? r + k : end - 1;
        q[k] = Columns::of(team, queries + row * g.query.row, g.width);
        dy[k] = Columns::of(team, gradients + row * g.result.row, g.width);
        scores[k] = key_row.dot(q[k]);
        differences[k] = value_row.dot(dy[k]);
      }
      for (int k = 0; k < attention_step; ++k) scores[k] = team.sum(scores[k]);
      for (int k = 0; k < attention_step; ++k) differences[k] = team.sum(differences[k]);
      for (int k = 0; k < attention_step; ++k) {
        if (r + k >= end) break;
        const QueryStatistics its = of_query[r + k];
        const float weight = std::exp(g.scale * scores[k] - its.largest) * its.reciprocal;
        dv.add(weight, dy[k]);
        dk.add(weight * (differences[k] - its.mean), q[k]);
      }
    }
    dk.scale(g.scale);
    dk.store(team, key_gradient + at.in(g.key_gradient), g.width);
    dv.store(team, value_gradient + at.in(g.value_gradient), g.width);
  }
};

/// Calls start(the columns that kernels are made for), a constant that is not below the width.
template <class Start>
void with_columns(int width, const Start& start) {
  if (width <= 32)
    start(std::integral_constant<int, 32>{});
  else if (width <= 64)
    start(std::integral_constant<int, 64>{});
  else if (width <= 128)
    start(std::integral_constant<int, 128>{});
  else if (width <= 256)
    start(std::integral_constant<int, 256>{});
  else
    fail("Cuda", "attention with wide heads", "at most 256 columns a head", width);
}

}  // namespace detail

/// result = softmax(scale·query·keyᵀ)·value, see `AttentionGeometry`.
template <class Executor>
void run_attention(Executor& executor, const AttentionGeometry& g, int batch, const float* query, const float* key,
                   const float* value, float* result) {
  detail::with_columns(g.width, [&](auto columns) {
    for_each_row(executor, long{batch} * g.heads * g.queries, g.width,
                 detail::Attention<columns>{{g, query, key, value}, result});
  });
}

/// The gradients of the three operands; `upstream` lies as the result does. With weights p = softmax(s):
/// dvalue = pᵀ·upstream,  dp = upstream·valueᵀ,  ds = p·(dp - sum(p·dp)),  dquery = scale·ds·key,  dkey =
/// scale·dsᵀ·query.
///
/// The workspace holds three numbers for each query of a head; more heads than fit are taken in turns.
template <class Executor>
void run_attention_gradient(Executor& executor, const AttentionGeometry& g, int batch, const float* query,
                            const float* key, const float* value, const float* upstream, float* query_gradient,
                            float* key_gradient, float* value_gradient) {
  using detail::QueryStatistics;
  constexpr long most_queries = Executor::workspace_bytes / static_cast<long>(sizeof(QueryStatistics));
  if (g.queries > most_queries)
    fail("Cuda", "attention over many queries, whose statistics the workspace holds",
         "at most " + std::to_string(most_queries) + " queries", std::to_string(g.queries));
  auto* const statistics = static_cast<QueryStatistics*>(executor.workspace());
  const detail::AttentionOperands operands{g, query, key, value};
  const long heads = long{batch} * g.heads, at_once = most_queries / std::max(g.queries, 1);
  detail::with_columns(g.width, [&](auto columns) {
    for (long first = 0; first < heads; first += at_once) {
      const long count = std::min(at_once, heads - first);
      for_each_row(executor, count * g.queries, g.width,
                   detail::AttentionQueryGradient<columns>{operands, upstream, query_gradient, first, statistics});
      for_each_row(
          executor, count * g.keys, g.width,
          detail::AttentionKeyGradient<columns>{operands, upstream, key_gradient, value_gradient, first, statistics});
    }
  });
}

}  // namespace tenet::gpu
