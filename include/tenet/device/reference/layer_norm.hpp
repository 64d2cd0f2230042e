#pragma once

#include <cmath>

#include "tenet/device/epilogue.hpp"
#include "tenet/device/reference/serial.hpp"

namespace tenet::reference {

namespace detail {

/// Mean and 1 / sqrt(variance + epsilon) of a row.
struct RowMoments {
  float mean = 0, scale = 0;

  RowMoments(const float* x, int columns, float epsilon) {
    float variance = 0;
    for (int c = 0; c < columns; ++c) mean += x[c] / static_cast<float>(columns);
    for (int c = 0; c < columns; ++c) variance += (x[c] - mean) * (x[c] - mean) / static_cast<float>(columns);
    scale = 1 / std::sqrt(variance + epsilon);
  }
  float normalized(float x) const { return (x - mean) * scale; }
};

}  // namespace detail

/// y[r, c] = n[r, c] * weight[c] + bias[c] with n[r, c] = (x[r, c] - mean[r]) / sqrt(variance[r] + epsilon).
inline void run_layer_norm(Serial&, long rows, int columns, float epsilon, const float* x, const float* weight,
                           const float* bias, float* y, Epilogue epilogue = {}) {
  for (long r = 0; r < rows; ++r) {
    const float* const row = x + r * columns;
    const detail::RowMoments moments(row, columns, epsilon);
    for (int c = 0; c < columns; ++c) y[r * columns + c] = moments.normalized(row[c]) * weight[c] + bias[c];
  }
  epilogue(0, rows * columns);
}

/// dx = scale·(g - mean(g) - n·mean(g·n)), g = upstream·weight, the means over each row.
inline void run_layer_norm_gradient(Serial&, long rows, int columns, float epsilon, const float* x, const float* weight,
                                    const float* upstream, float* gradient, Epilogue epilogue = {}) {
  for (long r = 0; r < rows; ++r) {
    const float *const row = x + r * columns, *const dy = upstream + r * columns;
    const detail::RowMoments moments(row, columns, epsilon);
    float mean = 0, projection = 0;
    for (int c = 0; c < columns; ++c) {
      mean += dy[c] * weight[c] / static_cast<float>(columns);
      projection += dy[c] * weight[c] * moments.normalized(row[c]) / static_cast<float>(columns);
    }
    for (int c = 0; c < columns; ++c)
      gradient[r * columns + c] = moments.scale * (dy[c] * weight[c] - mean - moments.normalized(row[c]) * projection);
  }
  epilogue(0, rows * columns);
}

/// gradients[0, c] = sum over r of upstream[r, c] * n[r, c], gradients[1, c] = sum over r of upstream[r, c]: those of
/// weight and bias.
inline void run_layer_norm_parameters(Serial&, long rows, int columns, float epsilon, const float* x,
                                      const float* upstream, float* gradients) {
  for (int c = 0; c < 2 * columns; ++c) gradients[c] = 0;
  for (long r = 0; r < rows; ++r) {
    const detail::RowMoments moments(x + r * columns, columns, epsilon);
    for (int c = 0; c < columns; ++c) {
      gradients[c] += upstream[r * columns + c] * moments.normalized(x[r * columns + c]);
      gradients[columns + c] += upstream[r * columns + c];
    }
  }
}

}  // namespace tenet::reference
