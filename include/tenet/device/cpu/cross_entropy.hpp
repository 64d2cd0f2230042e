#pragma once

#include <cmath>
#include <cstdint>

#include "tenet/device/cpu/softmax.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

namespace tenet::cpu {

/// loss[r] = log of the sum over c of exp(logits[r, c]), minus logits[r, labels[r]]; NaN for a label outside [0,
/// classes).
inline void run_cross_entropy(Workers& workers, long rows, int classes, const float* logits, const std::int32_t* labels,
                              float* loss_per_row, Epilogue epilogue = {}) {
  detail::run_ranges(workers, rows, 4L * classes, [&](long first, long last) {
    for (long r = first; r < last; ++r) {
      const float* row = logits + r * classes;
      const float largest = detail::largest_of_row(row, classes);
      const bool valid = labels[r] >= 0 && labels[r] < classes;
      const float sum = detail::sum_of_exponentials(row, classes, largest, nullptr);
      loss_per_row[r] = valid ? std::log(sum) - (row[labels[r]] - largest) : __builtin_nanf("");
    }
    epilogue(first, last);
  });
}

/// gradient[r, c] = upstream[r] * (softmax(logits[r])[c] - (c == labels[r])); NaN for a label outside [0, classes).
inline void run_cross_entropy_gradient(Workers& workers, long rows, int classes, const float* logits,
                                       const std::int32_t* labels, const float* upstream, float* gradient,
                                       Epilogue epilogue = {}) {
  detail::run_ranges(workers, rows, 4L * classes, [&](long first, long last) {
    for (long r = first; r < last; ++r) {
      const float* row = logits + r * classes;
      float* to = gradient + r * classes;
      const bool valid = labels[r] >= 0 && labels[r] < classes;
      const float sum = detail::sum_of_exponentials(row, classes, detail::largest_of_row(row, classes), to);
      const float scale = valid ? 1 / sum : __builtin_nanf("");
      if (valid) to[labels[r]] -= sum;  // exp / sum - 1 = (exp - sum) / sum
      detail::for_each_vector(classes, [&](int c, int lanes) {
        detail::store_lanes(to + c, detail::load_lanes(to + c, lanes) * scale * upstream[r], lanes);
      });
    }
    epilogue(first * classes, last * classes);
  });
}

/// correct[r] = 1 if the first largest logit of row r is at labels[r], else 0.
inline void run_correct(Workers& workers, long rows, int classes, const float* logits, const std::int32_t* labels,
                        float* correct, Epilogue epilogue = {}) {
  detail::run_ranges(workers, rows, classes, [&](long first, long last) {
    for (long r = first; r < last; ++r) {
      const float* row = logits + r * classes;
      const bool valid = labels[r] >= 0 && labels[r] < classes;
      bool best = valid && row[labels[r]] == detail::largest_of_row(row, classes);
      for (int c = 0; best && c < labels[r]; ++c) best = row[c] != row[labels[r]];
      correct[r] = best ? 1.0f : 0.0f;
    }
    epilogue(first, last);
  });
}

}  // namespace tenet::cpu
