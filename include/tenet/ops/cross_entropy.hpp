#pragma once

#include <cstdint>
#include <tenet/ops/reduce.hpp>

/// Cross entropy between rows of scores and integer labels, and the count of rows that are classified correctly.
namespace tenet {
namespace ops {

/// The type of one number a row, and of the labels: the scores' type without its last extent.
template <class Scores, class Element>
using PerRow = TypeOf<with_dtype(without_last_extent(Scores::info), dtype_of<Element>)>;

template <class Scores>
struct Rows {
  static constexpr int classes = Scores::info.extents[Scores::rank - 1];
  static constexpr long at(long batch) { return Scores::size / classes * (Scores::batched ? batch : 1); }
};

struct CrossEntropyGradient : KernelOperation {
  static constexpr const char* name = "cross_entropy_gradient";
  template <class Scores>
  static constexpr Scores result(Scores, auto, auto) {
    return {};
  }
  template <class Scores>
  static void run(auto& executor, const auto& arguments, Scores, auto, auto) {
    run_cross_entropy_gradient(executor, Rows<Scores>::at(arguments.batch), Rows<Scores>::classes,
                               arguments.template operand<float>(0), arguments.template operand<std::int32_t>(1),
                               arguments.template operand<float>(2), arguments.template result<float>(),
                               arguments.epilogue);
  }
};

/// log(sum(exp(scores))) - scores[label] of every row.
struct CrossEntropy : KernelOperation {
  static constexpr const char* name = "cross_entropy";
  static constexpr bool carries_epilogue = true;
  static constexpr bool full_precision = true;
  template <class Scores>
  static constexpr PerRow<Scores, float> result(Scores, auto) {
    return {};
  }
  template <class Scores>
  static void run(auto& executor, const auto& arguments, Scores, auto) {
    run_cross_entropy(executor, Rows<Scores>::at(arguments.batch), Rows<Scores>::classes,
                      arguments.template operand<float>(0), arguments.template operand<std::int32_t>(1),
                      arguments.template result<float>(), arguments.epilogue);
  }
  /// (softmax(scores) - onehot(label))·upstream
  template <class Scores, class Labels>
  static constexpr auto gradient(auto, auto upstream, Scores scores, Labels labels) {
    return gradients([=] { return apply<CrossEntropyGradient>(scores, labels, upstream); }, no_gradient);
  }
};

/// 1 for every row whose largest score stands at the label, else 0.
struct Correct : KernelOperation {
  static constexpr const char* name = "correct";
  static constexpr bool carries_epilogue = true;
  static constexpr bool full_precision = true;
  template <class Scores>
  static constexpr PerRow<Scores, float> result(Scores, auto) {
    return {};
  }
  template <class Scores>
  static void run(auto& executor, const auto& arguments, Scores, auto) {
    run_correct(executor, Rows<Scores>::at(arguments.batch), Rows<Scores>::classes,
                arguments.template operand<float>(0), arguments.template operand<std::int32_t>(1),
                arguments.template result<float>(), arguments.epilogue);
  }
};

}  // namespace ops

/// The mean cross entropy: scores (batch, …, classes), labels (batch, …) -> ().
template <class Context, class Scores, class Labels>
constexpr auto cross_entropy(Symbol<Context, Scores> scores, Symbol<Context, Labels> labels) {
  static_assert(std::is_same_v<Labels, ops::PerRow<Scores, std::int32_t>>,
                "cross_entropy(scores, labels): labels are std::int32_t, one for each row of scores");
  return mean(apply<ops::CrossEntropy>(scores, labels));
}

/// The mean of 1 for every row classified correctly: the accuracy. It has no gradient.
template <class Context, class Scores, class Labels>
constexpr auto accuracy(Symbol<Context, Scores> scores, Symbol<Context, Labels> labels) {
  return mean(apply<ops::Correct>(scores, labels));
}

}  // namespace tenet
