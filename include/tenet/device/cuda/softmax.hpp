#pragma once

#include <cmath>
#include <tenet/device/cuda/index.hpp>
#include <tenet/device/cuda/team.hpp>
#include <tenet/device/epilogue.hpp>

/// Softmax: a team of threads goes over its row three times, twice in cache.
namespace tenet::gpu {

namespace detail {

/// The largest element of a row; all threads of the team call it. NaN stays.
template <class Members>
TENET_HOST_DEVICE float largest_of_row(const Members& team, const float* x, int columns) {
  float largest = -__builtin_inff();
  for (int c = team.rank(); c < columns; c += Members::size) largest = x[c] > largest || x[c] != x[c] ? x[c] : largest;
  return team.largest(largest);
}

/// Sum of exp(x - shift) over a row; all threads of the team call it.
template <class Members>
TENET_HOST_DEVICE float sum_of_exponentials(const Members& team, const float* x, int columns, float shift) {
  float sum = 0;
  for (int c = team.rank(); c < columns; c += Members::size) sum += std::exp(x[c] - shift);
  return team.sum(sum);
}

struct Softmax {
  int columns, causal_period;
  const float* x;
  float* y;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    const long last = causal_period > 0 ? divided(row, causal_period).rest : columns;
    const int seen = last < columns ? static_cast<int>(last) + 1 : columns;
    const float* const from = x + row * columns;
    float* const to = y + row * columns;
    const float largest = largest_of_row(team, from, seen);
    const float sum = sum_of_exponentials(team, from, seen, largest);
    for (int c = team.rank(); c < columns; c += Members::size)
      to[c] = c < seen ? std::exp(from[c] - largest) / sum : 0.0f;
  }
};

struct LogSoftmax {
  int columns;
  const float* x;
  float* y;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    const float* const from = x + row * columns;
    float* const to = y + row * columns;
    const float largest = largest_of_row(team, from, columns);
    const float log_sum = std::log(sum_of_exponentials(team, from, columns, largest));
    for (int c = team.rank(); c < columns; c += Members::size) to[c] = from[c] - largest - log_sum;
  }
};

}  // namespace detail

/// y[r, c] = exp(x[r, c]) / sum over c of exp(x[r, c]), shifted by the row's maximum.
///
/// With a `causal_period` p > 0 row r sees columns 0 … r % p only; the others are 0.
template <class Executor>
void run_softmax(Executor& executor, long rows, int columns, int causal_period, const float* x, float* y,
                 Epilogue epilogue = {}) {
  for_each_row(executor, rows, columns, detail::Softmax{columns, causal_period, x, y});
  epilogue(0, rows * columns);
}

/// y[r, c] = x[r, c] - log of the sum over c of exp(x[r, c]).
template <class Executor>
void run_log_softmax(Executor& executor, long rows, int columns, const float* x, float* y, Epilogue epilogue = {}) {
  for_each_row(executor, rows, columns, detail::LogSoftmax{columns, x, y});
  epilogue(0, rows * columns);
}

}  // namespace tenet::gpu
