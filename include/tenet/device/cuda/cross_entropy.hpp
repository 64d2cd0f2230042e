#pragma once

#include <cmath>
#include <cstdint>
#include <tenet/device/cuda/softmax.hpp>

/// Cross entropy and accuracy: a team of threads for each row.
namespace tenet::gpu {

namespace detail {

struct CrossEntropy {
  int classes;
  const float* logits;
  const std::int32_t* labels;
  float* loss;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    const float* const x = logits + row * classes;
    const int label = labels[row];
    const float largest = largest_of_row(team, x, classes);
    const float sum = sum_of_exponentials(team, x, classes, largest);
    if (team.rank() != 0) return;
    loss[row] = label >= 0 && label < classes ? std::log(sum) - (x[label] - largest) : __builtin_nanf("");
  }
};

struct CrossEntropyGradient {
  int classes;
  const float* logits;
  const std::int32_t* labels;
  const float* upstream;
  float* gradient;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    const float* const x = logits + row * classes;
    float* const to = gradient + row * classes;
    const int label = labels[row];
    const float factor = label >= 0 && label < classes ? upstream[row] : __builtin_nanf("");
    const float largest = largest_of_row(team, x, classes);
    const float sum = sum_of_exponentials(team, x, classes, largest);
    for (int c = team.rank(); c < classes; c += Members::size)
      to[c] = factor * (std::exp(x[c] - largest) / sum - (c == label ? 1.0f : 0.0f));
  }
};

/// The first largest logit is at the label if none before it is as large, and none behind it larger. A NaN is never
/// larger, and if it comes first nothing is larger than it.
struct Correct {
  int classes;
  const float* logits;
  const std::int32_t* labels;
  float* correct;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    const float* const x = logits + row * classes;
    const int label = labels[row];
    const bool valid = label >= 0 && label < classes;
    const float at_label = valid ? x[label] : 0.0f;
    bool beaten = !valid || (label > 0 && (at_label != at_label || x[0] != x[0]));
    for (int c = team.rank(); c < classes; c += Members::size)
      beaten = beaten || x[c] > at_label || (c < label && x[c] == at_label);
    const float any_beaten = team.largest(beaten ? 1.0f : 0.0f);
    if (team.rank() == 0) correct[row] = 1 - any_beaten;
  }
};

}  // namespace detail

/// loss[r] = log of the sum over c of exp(logits[r, c]), minus logits[r, labels[r]]; NaN for a label outside [0,
/// classes).
template <class Executor>
void run_cross_entropy(Executor& executor, long rows, int classes, const float* logits, const std::int32_t* labels,
                       float* loss_per_row, Epilogue epilogue = {}) {
  for_each_row(executor, rows, classes, detail::CrossEntropy{classes, logits, labels, loss_per_row});
  epilogue(0, rows);
}

/// gradient[r, c] = upstream[r] * (softmax(logits[r])[c] - (c == labels[r])); NaN for a label outside [0, classes).
template <class Executor>
void run_cross_entropy_gradient(Executor& executor, long rows, int classes, const float* logits,
                                const std::int32_t* labels, const float* upstream, float* gradient,
                                Epilogue epilogue = {}) {
  for_each_row(executor, rows, classes, detail::CrossEntropyGradient{classes, logits, labels, upstream, gradient});
  epilogue(0, rows * classes);
}

/// correct[r] = 1 if the first largest logit of row r is at labels[r], else 0.
template <class Executor>
void run_correct(Executor& executor, long rows, int classes, const float* logits, const std::int32_t* labels,
                 float* correct, Epilogue epilogue = {}) {
  for_each_row(executor, rows, classes, detail::Correct{classes, logits, labels, correct});
  epilogue(0, rows);
}

}  // namespace tenet::gpu
