#pragma once

#include <tenet/ops/cross_entropy.hpp>
#include <tenet/ops/functions.hpp>

/// Losses: a network's output and a target -> one number, and the metric that is reported with it.
namespace tenet {

/// Mean cross entropy between scores (batch, …, classes) and integer labels (batch, …).
struct CrossEntropy {
  template <class Output>
  static constexpr bool fits =
      Output::batched && (Output::rank == 1 || Output::rank == 2) && std::is_same_v<typename Output::Element, float>;
  template <class Output>
  using Target = ops::PerRow<Output, std::int32_t>;
  static constexpr bool has_accuracy = true;

  static constexpr auto loss(AnySymbol auto output, AnySymbol auto labels) { return cross_entropy(output, labels); }
  static constexpr auto metric(AnySymbol auto output, AnySymbol auto labels) { return accuracy(output, labels); }
};

/// Mean squared difference between output and target of one shape.
struct MeanSquaredError {
  template <class Output>
  static constexpr bool fits = Output::batched && std::is_same_v<typename Output::Element, float>;
  template <class Output>
  using Target = Output;
  static constexpr bool has_accuracy = false;

  static constexpr auto loss(AnySymbol auto output, AnySymbol auto target) { return mean(square(output - target)); }
};

}  // namespace tenet
