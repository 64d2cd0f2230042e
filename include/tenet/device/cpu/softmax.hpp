#pragma once

#include <cmath>

#include "tenet/core/vector_math.hpp"
#include "tenet/device/cpu/lanes.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

namespace tenet::cpu {

namespace detail {

/// Largest element of a row; NaN elements do not count.
inline float largest_of_row(const float* x, int columns) {
  Vector largest = broadcast<Vector>(-__builtin_inff());
  for_each_vector(columns, [&](int c, int lanes) {
    const Vector value = load_lanes(x + c, lanes);
    largest = select((value > largest) & first_lanes(lanes), value, largest);
  });
  return horizontal_max(largest);
}

/// Sum of exp(x - shift) over a row, whose terms are also written to `y` unless it is null.
inline float sum_of_exponentials(const float* x, int columns, float shift, float* y) {
  Vector sum = zero_lanes();
  for_each_vector(columns, [&](int c, int lanes) {
    const Vector value = exp(load_lanes(x + c, lanes) - shift);
    sum += select(first_lanes(lanes), value, zero_lanes());
    if (y != nullptr) store_lanes(y + c, value, lanes);
  });
  return horizontal_sum(sum);
}

}  // namespace detail

/// y[r, c] = exp(x[r, c]) / sum over c of exp(x[r, c]), shifted by the row's maximum.
///
/// With a `causal_period` p > 0 row r sees columns 0 … r % p only; the others are 0.
inline void run_softmax(Workers& workers, long rows, int columns, int causal_period, const float* x, float* y,
                        Epilogue epilogue = {}) {
  detail::run_ranges(workers, rows, 4L * columns, [&](long first, long last) {
    for (long r = first; r < last; ++r) {
      const long period = causal_period > 0 ? r % causal_period : columns;
      const int seen = period < columns ? static_cast<int>(period) + 1 : columns;
      const float* from = x + r * columns;
      float* to = y + r * columns;
      const float scale = 1 / detail::sum_of_exponentials(from, seen, detail::largest_of_row(from, seen), to);
      detail::for_each_vector(seen, [&](int c, int lanes) {
        detail::store_lanes(to + c, detail::load_lanes(to + c, lanes) * scale, lanes);
      });
      for (int c = seen; c < columns; ++c) to[c] = 0;
    }
    epilogue(first * columns, last * columns);
  });
}

/// y[r, c] = x[r, c] - log of the sum over c of exp(x[r, c]).
inline void run_log_softmax(Workers& workers, long rows, int columns, const float* x, float* y,
                            Epilogue epilogue = {}) {
  detail::run_ranges(workers, rows, 4L * columns, [&](long first, long last) {
    for (long r = first; r < last; ++r) {
      const float* from = x + r * columns;
      float* to = y + r * columns;
      const float largest = detail::largest_of_row(from, columns);
      const float log_sum = std::log(detail::sum_of_exponentials(from, columns, largest, nullptr));
      detail::for_each_vector(columns, [&](int c, int lanes) {
        detail::store_lanes(to + c, detail::load_lanes(from + c, lanes) - largest - log_sum, lanes);
      });
    }
    epilogue(first * columns, last * columns);
  });
}

}  // namespace tenet::cpu
