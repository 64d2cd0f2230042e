#pragma once

#include <cstdint>

#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

namespace tenet::cpu {

/// result[i, :] = table[tokens[i], :] for i < count; NaN for a token outside [0, table_rows).
inline void run_embedding(Workers& workers, long count, int width, int table_rows, const std::int32_t* tokens,
                          const float* table, float* result, Epilogue epilogue = {}) {
  detail::run_ranges(workers, count, width, [&](long first, long last) {
    for (long i = first; i < last; ++i) {
      if (tokens[i] >= 0 && tokens[i] < table_rows) {
        detail::copy_floats(result + i * width, table + long{tokens[i]} * width, width);
      } else {
        detail::fill_floats(result + i * width, __builtin_nanf(""), width);
      }
    }
    epilogue(first * width, last * width);
  });
}

/// table_gradient[t, :] = sum of upstream[i, :] over the i with tokens[i] = t, in order; other tokens are skipped.
inline void run_embedding_gradient(Workers& workers, long count, int width, int table_rows, const std::int32_t* tokens,
                                   const float* upstream, float* table_gradient) {
  // Tasks own columns, so that equal tokens meet in one task, in order.
  constexpr long block = 32;
  auto task = [&](int index, int) {
    const long j0 = index * block, columns = detail::smaller(block, width - j0);
    for (long t = 0; t < table_rows; ++t) detail::fill_floats(table_gradient + t * width + j0, 0, columns);
    for (long i = 0; i < count; ++i) {
      if (tokens[i] < 0 || tokens[i] >= table_rows) continue;
      float* to = table_gradient + long{tokens[i]} * width + j0;
      const float* from = upstream + i * width + j0;
      long j = 0;
      for (; j + vector_width <= columns; j += vector_width) store(to + j, load(to + j) + load(from + j));
      for (; j < columns; ++j) to[j] += from[j];
    }
  };
  const double elements = static_cast<double>(count + table_rows) * width;
  detail::run_tasks(workers, detail::blocks_of(width, block), elements < detail::inline_elements, task);
}

}  // namespace tenet::cpu
