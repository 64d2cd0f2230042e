#pragma once

#include <array>
#include <tenet/ops/arithmetic.hpp>

namespace tenet {

/// Stochastic gradient descent with momentum and weight decay, as PyTorch's torch.optim.SGD:
/// g = gradient + weight_decay·p;  v = momentum·v + g;  p = p - learning_rate·v.
struct Sgd {
  float learning_rate = 0.01f;
  float momentum = 0.0f;
  float weight_decay = 0.0f;

  static constexpr const char* name = "SGD";
  static constexpr int state_count = 1;   ///< numbers a parameter that are kept
  static constexpr int scalar_count = 3;  ///< numbers that may change from step to step

  /// The numbers of step `step` (from 1).
  std::array<float, scalar_count> scalars(long) const { return {learning_rate, momentum, weight_decay}; }

  /// The update rule, written with symbols over all parameters at once: new parameters and new states.
  static constexpr auto update(auto parameters, auto gradient, const auto& state, const auto& scalar) {
    const auto [learning_rate, momentum, weight_decay] = scalar;
    const auto velocity = momentum * state[0] + (gradient + weight_decay * parameters);
    return std::array{parameters - learning_rate * velocity, velocity};
  }
};

/// Stochastic gradient descent without momentum: p = p - learning_rate·(gradient + weight_decay·p). It keeps nothing
/// beside the parameters, where `Sgd` keeps a velocity even if its momentum is 0.
struct PlainSgd {
  float learning_rate = 0.01f;
  float weight_decay = 0.0f;

  static constexpr const char* name = "plain SGD";
  static constexpr int state_count = 0;
  static constexpr int scalar_count = 2;

  std::array<float, scalar_count> scalars(long) const { return {learning_rate, weight_decay}; }

  static constexpr auto update(auto parameters, auto gradient, const auto&, const auto& scalar) {
    const auto [learning_rate, weight_decay] = scalar;
    return std::array{parameters - learning_rate * (gradient + weight_decay * parameters)};
  }
};

}  // namespace tenet
