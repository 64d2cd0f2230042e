#pragma once

#include <array>
#include <cmath>
#include <tenet/ops/functions.hpp>

namespace tenet {

namespace detail {

/// m = beta1·m + (1 - beta1)·g;  v = beta2·v + (1 - beta2)·g²;
/// p = p - rate·m / (sqrt(v)·correction + epsilon), rate = learning_rate / (1 - beta1^t), correction = 1 / sqrt(1 -
/// beta2^t).
constexpr auto adam_update(auto parameters, auto gradient, const auto& state, auto rate, auto beta1, auto beta2,
                           auto epsilon, auto correction) {
  const auto first = beta1 * state[0] + (1.0f - beta1) * gradient;
  const auto second = beta2 * state[1] + (1.0f - beta2) * square(gradient);
  return std::array{parameters - rate * first / (sqrt(second) * correction + epsilon), first, second};
}

inline std::array<float, 6> adam_scalars(long step, float learning_rate, float beta1, float beta2, float epsilon,
                                         float decay) {
  const double first = 1.0 - std::pow(static_cast<double>(beta1), static_cast<double>(step));
  const double second = 1.0 - std::pow(static_cast<double>(beta2), static_cast<double>(step));
  return {static_cast<float>(learning_rate / first),   beta1, beta2, epsilon,
          static_cast<float>(1.0 / std::sqrt(second)), decay};
}

}  // namespace detail

/// Adam as PyTorch's torch.optim.Adam; weight decay is added to the gradient. (Kingma and Ba, arXiv 1412.6980.)
struct Adam {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0.0f;

  static constexpr const char* name = "Adam";
  static constexpr int state_count = 2;   ///< numbers a parameter that are kept
  static constexpr int scalar_count = 6;  ///< numbers that may change from step to step

  /// The numbers of step `step` (from 1).
  std::array<float, scalar_count> scalars(long step) const {
    return detail::adam_scalars(step, learning_rate, beta1, beta2, epsilon, weight_decay);
  }

  static constexpr auto update(auto parameters, auto gradient, const auto& state, const auto& scalar) {
    const auto [rate, beta1, beta2, epsilon, correction, decay] = scalar;
    return detail::adam_update(parameters, gradient + decay * parameters, state, rate, beta1, beta2, epsilon,
                               correction);
  }
};

/// Adam with decoupled weight decay, as PyTorch's torch.optim.AdamW: parameters shrink by 1 -
/// learning_rate·weight_decay before the update. (Loshchilov and Hutter, arXiv 1711.05101.)
struct AdamW {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0.01f;

  static constexpr const char* name = "AdamW";
  static constexpr int state_count = 2;
  static constexpr int scalar_count = 6;

  std::array<float, scalar_count> scalars(long step) const {
    return detail::adam_scalars(step, learning_rate, beta1, beta2, epsilon, 1.0f - learning_rate * weight_decay);
  }

  static constexpr auto update(auto parameters, auto gradient, const auto& state, const auto& scalar) {
    const auto [rate, beta1, beta2, epsilon, correction, keep] = scalar;
    return detail::adam_update(parameters * keep, gradient, state, rate, beta1, beta2, epsilon, correction);
  }
};

}  // namespace tenet
