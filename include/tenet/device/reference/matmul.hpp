#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/epilogue.hpp"
#include "tenet/device/reference/serial.hpp"

namespace tenet::reference {

constexpr long scratch_matmul(const Serial*, const MatmulGeometry&) { return 0; }

/// result[c] = op(lhs[c]) * op(rhs[c]), or the sum of these over c; see `MatmulGeometry`.
inline void run_matmul(Serial&, const MatmulGeometry& g, const float* lhs, const float* rhs, float* result,
                       Epilogue epilogue = {}) {
  const long results = g.accumulate_over_count ? 1 : g.count;
  const long terms = g.accumulate_over_count ? g.count : 1;
  for (long c = 0; c < results; ++c) {
    for (long row = 0; row < g.rows; ++row) {
      for (long column = 0; column < g.columns; ++column) {
        float sum = 0;
        for (long term = c; term < c + terms; ++term) {
          for (long k = 0; k < g.inner; ++k) {
            const float a = lhs[term * g.lhs_step + (g.transpose_lhs ? k * g.rows + row : row * g.inner + k)];
            const float b = rhs[term * g.rhs_step + (g.transpose_rhs ? column * g.inner + k : k * g.columns + column)];
            sum += a * b;
          }
        }
        result[(c * g.rows + row) * g.columns + column] = sum;
      }
    }
  }
  epilogue(0, results * g.rows * g.columns);
}

}  // namespace tenet::reference
