#pragma once

#include <algorithm>
#include <cmath>
#include <tenet/device/cuda/sums.hpp>
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

/// Both sums of a column: that for the weight, and that for the bias, which is behind those of all columns.
struct ParameterTerms {
  static constexpr int numbers = 2;
  long columns;
  const float *x, *upstream;
  const RowMoments* moments;
  float* gradients;
  bool adds;

  TENET_HOST_DEVICE void of(long row, long column, float* to) const {
    const float dy = upstream[row * columns + column];
    to[0] = dy * moments[row].normalized(x[row * columns + column]);
    to[1] = dy;
  }
  TENET_HOST_DEVICE void store(long column, const float* sums) const {
    for (int k = 0; k < numbers; ++k) {
      float& to = gradients[k * columns + column];
      to = adds ? to + sums[k] : sums[k];
    }
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
/// weight and bias. The workspace holds the moments of so many rows: more are taken in turns.
template <class Executor>
void run_layer_norm_parameters(Executor& executor, long rows, int columns, float epsilon, const float* x,
                               const float* upstream, float* gradients) {
  constexpr long most_rows = 1 << 17;
  auto* const moments = static_cast<detail::RowMoments*>(executor.workspace());
  for (long first = 0; first < rows || first == 0; first += most_rows) {
    const long count = std::min(rows - first, most_rows);
    const float *const from = x + first * columns, *const dy = upstream + first * columns;
    for_each_row(executor, count, columns, detail::MomentsOfRows{columns, epsilon, from, moments});
    run_sums(executor, detail::ParameterTerms{columns, from, dy, moments, gradients, first != 0}, count, columns, true);
  }
}

}  // namespace tenet::gpu
