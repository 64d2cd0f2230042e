#pragma once

#include <cstdint>

#include "tenet/device/epilogue.hpp"
#include "tenet/device/reference/serial.hpp"

namespace tenet::reference {

/// result[i, :] = table[tokens[i], :] for i < count; NaN for a token outside [0, table_rows).
inline void run_embedding(Serial&, long count, int width, int table_rows, const std::int32_t* tokens,
                          const float* table, float* result, Epilogue epilogue = {}) {
  for (long i = 0; i < count; ++i) {
    const bool valid = tokens[i] >= 0 && tokens[i] < table_rows;
    for (int j = 0; j < width; ++j)
      result[i * width + j] = valid ? table[long{tokens[i]} * width + j] : __builtin_nanf("");
  }
  epilogue(0, count * width);
}

/// table_gradient[t, :] = sum of upstream[i, :] over the i with tokens[i] = t, in order; other tokens are skipped.
inline void run_embedding_gradient(Serial&, long count, int width, int table_rows, const std::int32_t* tokens,
                                   const float* upstream, float* table_gradient) {
  for (long i = 0; i < long{table_rows} * width; ++i) table_gradient[i] = 0;
  for (long i = 0; i < count; ++i) {
    if (tokens[i] < 0 || tokens[i] >= table_rows) continue;
    for (int j = 0; j < width; ++j) table_gradient[long{tokens[i]} * width + j] += upstream[i * width + j];
  }
}

}  // namespace tenet::reference
