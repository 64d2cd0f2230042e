#pragma once

#include "tenet/core/vector_math.hpp"
#include "tenet/device/cpu/lanes.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

/// Layer norm: each pass reads a row from memory once and goes over it several times in the first-level cache. Moments
/// are computed again for the gradients, which costs less than keeping them.
namespace tenet::cpu {

namespace detail {

/// The rows of a layer norm.
struct NormRows {
  int columns;
  float epsilon, reciprocal;  ///< reciprocal: 1 / columns

  NormRows(int count, float small) : columns(count), epsilon(small), reciprocal(1.0f / static_cast<float>(count)) {}
};

/// Mean and 1 / sqrt(variance + epsilon) of a row.
struct RowMoments {
  float mean, scale;

  RowMoments(const NormRows& rows, const float* x) {
    Vector sum = zero_lanes(), squares = zero_lanes();
    for_each_vector(rows.columns, [&](int c, int lanes) { sum += load_lanes(x + c, lanes); });
    mean = horizontal_sum(sum) * rows.reciprocal;
    for_each_vector(rows.columns, [&](int c, int lanes) {
      Vector difference = load_lanes(x + c, lanes) - mean;
      if (lanes < vector_width) difference = select(first_lanes(lanes), difference, zero_lanes());
      squares += difference * difference;
    });
    scale = rsqrt(horizontal_sum(squares) * rows.reciprocal + rows.epsilon);
  }
};

/// Rows of one task of `run_layer_norm_parameters`: as many as are worth one, at most 64 tasks.
constexpr long norm_chunk(long rows, int columns) {
  const long worth = (1 << 15) / columns + 1, least = (rows + 63) / 64;
  return worth > least ? worth : least;
}

}  // namespace detail

/// y[r, c] = n[r, c] * weight[c] + bias[c] with n[r, c] = (x[r, c] - mean[r]) / sqrt(variance[r] + epsilon).
inline void run_layer_norm(Workers& workers, long count, int columns, float epsilon, const float* x,
                           const float* weight, const float* bias, float* y, Epilogue epilogue = {}) {
  using namespace detail;
  const NormRows rows(columns, epsilon);
  run_ranges(workers, count, 2L * columns, [&](long first, long last) {
    for (long r = first; r < last; ++r) {
      const float* const from = x + r * columns;
      float* const to = y + r * columns;
      const RowMoments moments(rows, from);
      for_each_vector(columns, [&](int c, int lanes) {
        const Vector normal = (load_lanes(from + c, lanes) - moments.mean) * moments.scale;
        store_lanes(to + c, normal * load_lanes(weight + c, lanes) + load_lanes(bias + c, lanes), lanes);
      });
    }
    epilogue(first * columns, last * columns);
  });
}

/// dx = scale·(g - mean(g) - n·mean(g·n)), g = upstream·weight, the means over each row.
inline void run_layer_norm_gradient(Workers& workers, long count, int columns, float epsilon, const float* x,
                                    const float* weight, const float* upstream, float* gradient,
                                    Epilogue epilogue = {}) {
  using namespace detail;
  const NormRows rows(columns, epsilon);
  run_ranges(workers, count, 3L * columns, [&](long first, long last) {
    for (long r = first; r < last; ++r) {
      const float *const from = x + r * columns, *const dy = upstream + r * columns;
      float* const to = gradient + r * columns;
      const RowMoments moments(rows, from);
      Vector sum = zero_lanes(), projections = zero_lanes();
      for_each_vector(columns, [&](int c, int lanes) {  // lanes without an element hold upstream = 0
        const Vector g = load_lanes(dy + c, lanes) * load_lanes(weight + c, lanes);
        sum += g;
        projections += g * (load_lanes(from + c, lanes) - moments.mean);
      });
      // scale·(g - mean - (x - m)·scale·projection·scale)
      const float mean = horizontal_sum(sum) * rows.reciprocal;
      const float projection = horizontal_sum(projections) * rows.reciprocal * moments.scale * moments.scale;
      for_each_vector(columns, [&](int c, int lanes) {
        const Vector g = load_lanes(dy + c, lanes) * load_lanes(weight + c, lanes);
        const Vector centered = load_lanes(from + c, lanes) - moments.mean;
        store_lanes(to + c, (g - mean - centered * projection) * moments.scale, lanes);
      });
    }
    epilogue(first * columns, last * columns);
  });
}

/// Floats of workspace for `run_layer_norm_parameters`: the sums of chunks of rows.
constexpr long workspace_layer_norm_parameters(const Workers*, long count, int columns) {
  const long chunk = detail::norm_chunk(count, columns), chunks = (count + chunk - 1) / chunk;
  return chunks > 1 ? chunks * 2 * columns : 0;
}

/// gradients[0, c] = sum over r of upstream[r, c] * n[r, c], gradients[1, c] = sum over r of upstream[r, c]: those of
/// weight and bias. Sums of chunks of rows, added in their order.
inline void run_layer_norm_parameters(Workers& workers, long count, int columns, float epsilon, const float* x,
                                      const float* upstream, float* gradients) {
  using namespace detail;
  const NormRows rows(columns, epsilon);
  const long chunk = norm_chunk(count, columns), chunks = (count + chunk - 1) / chunk, size = 2L * columns;
  float* const partial =
      chunks > 1 ? workers.workspace(workspace_layer_norm_parameters(&workers, count, columns)) : gradients;
  auto task = [&](int index, int) {
    float* const to = partial + index * size;
    for (long c = 0; c < size; ++c) to[c] = 0;
    const long last = (index + 1) * chunk < count ? (index + 1) * chunk : count;
    for (long r = index * chunk; r < last; ++r) {
      const float *const from = x + r * columns, *const dy = upstream + r * columns;
      const RowMoments moments(rows, from);
      for_each_vector(columns, [&](int c, int lanes) {
        const Vector g = load_lanes(dy + c, lanes);
        const Vector normal = (load_lanes(from + c, lanes) - moments.mean) * moments.scale;
        store_lanes(to + c, load_lanes(to + c, lanes) + g * normal, lanes);
        store_lanes(to + columns + c, load_lanes(to + columns + c, lanes) + g, lanes);
      });
    }
  };
  run_tasks(workers, chunks, static_cast<double>(count) * columns < inline_elements, task);
  if (chunks <= 1) return;
  for_each_vector(static_cast<int>(size), [&](int c, int lanes) {
    Vector sum = zero_lanes();
    for (long i = 0; i < chunks; ++i) sum += load_lanes(partial + i * size + c, lanes);
    store_lanes(gradients + c, sum, lanes);
  });
}

}  // namespace tenet::cpu
