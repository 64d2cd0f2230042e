#pragma once

#include <array>
#include <tenet/ops/functions.hpp>
#include <tenet/ops/reduce.hpp>

namespace tenet {

/// Another optimizer, whose gradients' norm over all parameters is at most `max_norm`: where it is larger all of them
/// become smaller by one factor, as by PyTorch's torch.nn.utils.clip_grad_norm_ before a step:
/// g = gradient·min(1, max_norm / (norm + 1e-6)),  norm = sqrt(sum of all gradients²).
///
///     ClipGradNorm<AdamW>{{.learning_rate = 1e-3f}, 1.0f}
///
/// (Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks, ICML 2013.)
template <class Optimizer>
struct ClipGradNorm : Optimizer {
  float max_norm = 1.0f;

  static constexpr const char* name = Optimizer::name;
  static constexpr int scalar_count = Optimizer::scalar_count + 1;
  static constexpr bool needs_all_gradients = true;  ///< before one parameter is updated

  std::array<float, scalar_count> scalars(long step) const {
    std::array<float, scalar_count> result{};
    const auto own = Optimizer::scalars(step);
    for (std::size_t i = 0; i < own.size(); ++i) result[i] = own[i];
    result.back() = max_norm;
    return result;
  }

  static constexpr auto update(auto parameters, auto gradient, const auto& state, const auto& scalar) {
    const auto norm = sqrt(sum(square(gradient)));
    const auto factor = minimum(scalar.back() / (norm + 1e-6f), constant(norm, 1.0f));
    return Optimizer::update(parameters, factor * gradient, state, first_of<Optimizer::scalar_count>(scalar));
  }

 private:
  template <int count>
  static constexpr auto first_of(const auto& all) {
    std::array<typename std::remove_cvref_t<decltype(all)>::value_type, count> result{};
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = all[i];
    return result;
  }
};

}  // namespace tenet
