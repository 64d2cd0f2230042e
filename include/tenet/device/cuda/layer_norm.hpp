#pragma once

#include <algorithm>
#include <cmath>
#include <tenet/device/cuda/element.hpp>
#include <tenet/device/cuda/index.hpp>
#include <tenet/device/cuda/team.hpp>
#include <tenet/device/epilogue.hpp>

/// Layer norm: a team of threads for each row. Moments are computed again for the gradients, which costs less than
/// keeping them.
namespace tenet::gpu {

namespace detail {

/// Mean and 1 / sqrt(variance + epsilon) of a row.
struct RowMoments {
  float mean, scale;

  /// All threads of the team call it.
  template <class Members>
  TENET_HOST_DEVICE static RowMoments of(const Members& team, const float* x, int columns, float epsilon) {
    float sum = 0, squares = 0;
    for (int c = team.rank(); c < columns; c += Members::size) sum += x[c];
    const float mean = team.sum(sum) / static_cast<float>(columns);
    for (int c = team.rank(); c < columns; c += Members::size) squares += (x[c] - mean) * (x[c] - mean);
    return {mean, 1 / std::sqrt(team.sum(squares) / static_cast<float>(columns) + epsilon)};
  }
  TENET_HOST_DEVICE float normalized(float x) const { return (x - mean) * scale; }
};

struct LayerNorm {
  int columns;
  float epsilon;
  const float *x, *weight, *bias;
  float* y;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    const float* const from = x + row * columns;
    float* const to = y + row * columns;
    const RowMoments moments = RowMoments::of(team, from, columns, epsilon);
    for (int c = team.rank(); c < columns; c += Members::size)
      to[c] = moments.normalized(from[c]) * weight[c] + bias[c];
  }
};

struct LayerNormGradient {
  int columns;
  float epsilon;
  const float *x, *weight, *upstream;
  float* gradient;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    const float *const from = x + row * columns, *const dy = upstream + row * columns;
    float* const to = gradient + row * columns;
    const RowMoments moments = RowMoments::of(team, from, columns, epsilon);
    float sum = 0, projections = 0;
    for (int c = team.rank(); c < columns; c += Members::size) {
      sum += dy[c] * weight[c];
      projections += dy[c] * weight[c] * moments.normalized(from[c]);
    }
    const float mean = team.sum(sum) / static_cast<float>(columns);
    const float projection = team.sum(projections) / static_cast<float>(columns);
    for (int c = team.rank(); c < columns; c += Members::size)
      to[c] = moments.scale * (dy[c] * weight[c] - mean - moments.normalized(from[c]) * projection);
  }
};

struct MomentsOfRows {
  int columns;
  float epsilon;
  const float* x;
  RowMoments* to;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    const RowMoments moments = RowMoments::of(team, x + row * columns, columns, epsilon);
    if (team.rank() == 0) to[row] = moments;
  }
};

/// Part p of both sums of column c: at to[p·2·columns + c] that for the weight, behind all columns' that for the bias.
struct PartOfParameters {
  long rows, columns, parts;
  const float *x, *upstream;
  const RowMoments* moments;
  float* to;

  /// Neighbours read neighbours of a row.
  TENET_HOST_DEVICE void operator()(long i) const {
    const Divided at = divided(i, columns);
    const long part = at.quotient, column = at.rest;
    const long first = rows * part / parts, last = rows * (part + 1) / parts;
    float of_weight = 0, of_bias = 0;
    for (long r = first; r < last; ++r) {
      const float dy = upstream[r * columns + column];
      of_weight += dy * moments[r].normalized(x[r * columns + column]);
      of_bias += dy;
    }
    to[part * 2 * columns + column] = of_weight;
    to[part * 2 * columns + columns + column] = of_bias;
  }
};

}  // namespace detail

/// y[r, c] = n[r, c] * weight[c] + bias[c] with n[r, c] = (x[r, c] - mean[r]) / sqrt(variance[r] + epsilon).
template <class Executor>
void run_layer_norm(Executor& executor, long rows, int columns, float epsilon, const float* x, const float* weight,
                    const float* bias, float* y, Epilogue epilogue = {}) {
  for_each_row(executor, rows, columns, detail::LayerNorm{columns, epsilon, x, weight, bias, y});
  epilogue(0, rows * columns);
}

/// dx = scale·(g - mean(g) - n·mean(g·n)), g = upstream·weight, the means over each row.
template <class Executor>
void run_layer_norm_gradient(Executor& executor, long rows, int columns, float epsilon, const float* x,
                             const float* weight, const float* upstream, float* gradient, Epilogue epilogue = {}) {
  for_each_row(executor, rows, columns, detail::LayerNormGradient{columns, epsilon, x, weight, upstream, gradient});
  epilogue(0, rows * columns);
}

/// gradients[0, c] = sum over r of upstream[r, c] * n[r, c], gradients[1, c] = sum over r of upstream[r, c]: those of
/// weight and bias. The workspace holds the moments of so many rows, and behind them the parts of sums: more rows are
/// taken in turns.
template <class Executor>
void run_layer_norm_parameters(Executor& executor, long rows, int columns, float epsilon, const float* x,
                               const float* upstream, float* gradients) {
  constexpr long most_rows = 1 << 17;
  auto* const moments = static_cast<detail::RowMoments*>(executor.workspace());
  const long numbers = 2l * columns;
  for (long first = 0; first < rows || first == 0; first += most_rows) {
    const long count = std::min(rows - first, most_rows);
    const float *const from = x + first * columns, *const dy = upstream + first * columns;
    const long parts = parts_of_sum(Role::sum_rows, columns, count);
    float* const to = parts == 1 && first == 0 ? gradients : reinterpret_cast<float*>(moments + most_rows);
    for_each_row(executor, count, columns, detail::MomentsOfRows{columns, epsilon, from, moments});
    for_each(executor, parts * columns, detail::PartOfParameters{count, columns, parts, from, dy, moments, to});
    if (to != gradients) add_up_parts(executor, to, numbers, parts, gradients, first != 0);
  }
}

}  // namespace tenet::gpu
