#pragma once

#include "tenet/core/attention_geometry.hpp"

/// Operands of an attention in one of the two ways in which they lie: three tensors, or one projection.
struct AttentionCase {
  tenet::AttentionGeometry g;
  int batch;
  long query = 0, key = 0, value = 0;     ///< where the operands begin
  long dquery = 0, dkey = 0, dvalue = 0;  ///< where their gradients begin
  long operands = 0, results = 0, gradients = 0;

  /// [batch][heads][length][width] each; the gradients [batch][heads][queries + 2 keys][width].
  static AttentionCase of_parts(int batch, int heads, int queries, int keys, int width, bool causal) {
    const auto steps = [&](long rows) {
      return tenet::AttentionGeometry::Steps{heads * rows * width, rows * width, width};
    };
    AttentionCase made{
        {heads, queries, keys, width, causal, 0.7f, steps(queries), steps(keys), steps(keys), steps(queries),
         steps(queries + 2 * keys), steps(queries + 2 * keys), steps(queries + 2 * keys)},
        batch};
    const long row = long{batch} * heads * width;
    made.results = row * queries;
    made.key = row * queries;
    made.value = made.key + row * keys;
    made.operands = made.gradients = made.value + row * keys;
    made.dkey = long{queries} * width;
    made.dvalue = long{queries + keys} * width;
    return made;
  }

  /// [batch][length][3][heads][width], as are the gradients; the result [batch][length][heads][width].
  static AttentionCase of_projection(int batch, int heads, int length, int width, bool causal) {
    const long row = long{3} * heads * width;
    const tenet::AttentionGeometry::Steps part{length * row, width, row}, result{length * row / 3, width, row / 3};
    AttentionCase made{{heads, length, length, width, causal, 0.7f, part, part, part, result, part, part, part}, batch};
    made.key = made.dkey = row / 3;
    made.value = made.dvalue = row / 3 * 2;
    made.operands = made.gradients = batch * length * row;
    made.results = made.operands / 3;
    return made;
  }

  void forward(auto& executor, const float* x, float* to) const {
    run_attention(executor, g, batch, x + query, x + key, x + value, to);
  }
  void backward(auto& executor, const float* x, const float* upstream, float* to) const {
    run_attention_gradient(executor, g, batch, x + query, x + key, x + value, upstream, to + dquery, to + dkey,
                           to + dvalue);
  }
};
