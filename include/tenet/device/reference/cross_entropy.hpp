#pragma once

#include <cmath>
#include <cstdint>

#include "tenet/device/epilogue.hpp"
#include "tenet/device/reference/serial.hpp"

namespace tenet::reference {

/// loss[r] = log of the sum over c of exp(logits[r, c]), minus logits[r, labels[r]]; NaN for a label outside [0,
/// classes).
inline void run_cross_entropy(Serial&, long rows, int classes, const float* logits, const std::int32_t* labels,
                              float* loss_per_row, Epilogue epilogue = {}) {
  for (long r = 0; r < rows; ++r, logits += classes) {
    float largest = logits[0], sum = 0;
    for (int c = 0; c < classes; ++c) largest = logits[c] > largest ? logits[c] : largest;
    for (int c = 0; c < classes; ++c) sum += std::exp(logits[c] - largest);
    const bool valid = labels[r] >= 0 && labels[r] < classes;
    loss_per_row[r] = valid ? std::log(sum) - (logits[labels[r]] - largest) : __builtin_nanf("");
  }
  epilogue(0, rows);
}

/// gradient[r, c] = upstream[r] * (softmax(logits[r])[c] - (c == labels[r])); NaN for a label outside [0, classes).
inline void run_cross_entropy_gradient(Serial&, long rows, int classes, const float* logits, const std::int32_t* labels,
                                       const float* upstream, float* gradient, Epilogue epilogue = {}) {
  for (long r = 0; r < rows; ++r, logits += classes, gradient += classes) {
    float largest = logits[0], sum = 0;
    for (int c = 0; c < classes; ++c) largest = logits[c] > largest ? logits[c] : largest;
    for (int c = 0; c < classes; ++c) sum += std::exp(logits[c] - largest);
    const bool valid = labels[r] >= 0 && labels[r] < classes;
    for (int c = 0; c < classes; ++c) {
      const float target = c == labels[r] ? 1.0f : 0.0f;
      gradient[c] = valid ? upstream[r] * (std::exp(logits[c] - largest) / sum - target) : __builtin_nanf("");
    }
  }
  epilogue(0, rows * classes);
}

/// correct[r] = 1 if the first largest logit of row r is at labels[r], else 0.
inline void run_correct(Serial&, long rows, int classes, const float* logits, const std::int32_t* labels,
                        float* correct, Epilogue epilogue = {}) {
  for (long r = 0; r < rows; ++r, logits += classes) {
    int best = 0;
    for (int c = 1; c < classes; ++c) best = logits[c] > logits[best] ? c : best;
    correct[r] = best == labels[r] ? 1.0f : 0.0f;
  }
  epilogue(0, rows);
}

}  // namespace tenet::reference
