#pragma once

#include <cmath>

#include "tenet/device/epilogue.hpp"
#include "tenet/device/reference/serial.hpp"

namespace tenet::reference {

/// y[r, c] = exp(x[r, c]) / sum over c of exp(x[r, c]), shifted by the row's maximum.
///
/// With a `causal_period` p > 0 row r sees columns 0 … r % p only; the others are 0.
inline void run_softmax(Serial&, long rows, int columns, int causal_period, const float* x, float* y,
                        Epilogue epilogue = {}) {
  for (long r = 0; r < rows; ++r, x += columns, y += columns) {
    const int seen =
        causal_period > 0 && r % causal_period < columns ? static_cast<int>(r % causal_period) + 1 : columns;
    float largest = x[0], sum = 0;
    for (int c = 0; c < seen; ++c) largest = x[c] > largest ? x[c] : largest;
    for (int c = 0; c < seen; ++c) sum += y[c] = std::exp(x[c] - largest);
    for (int c = 0; c < seen; ++c) y[c] /= sum;
    for (int c = seen; c < columns; ++c) y[c] = 0;
  }
  epilogue(0, rows * columns);
}

/// y[r, c] = x[r, c] - log of the sum over c of exp(x[r, c]).
inline void run_log_softmax(Serial&, long rows, int columns, const float* x, float* y, Epilogue epilogue = {}) {
  for (long r = 0; r < rows; ++r, x += columns, y += columns) {
    float largest = x[0], sum = 0;
    for (int c = 0; c < columns; ++c) largest = x[c] > largest ? x[c] : largest;
    for (int c = 0; c < columns; ++c) sum += std::exp(x[c] - largest);
    for (int c = 0; c < columns; ++c) y[c] = x[c] - largest - std::log(sum);
  }
  epilogue(0, rows * columns);
}

}  // namespace tenet::reference
