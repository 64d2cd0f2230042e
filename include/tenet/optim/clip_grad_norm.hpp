#pragma once

#include <algorithm>
#include <array>
#include <tenet/ops/functions.hpp>
#include <tenet/ops/reduce.hpp>
#include <type_traits>

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
    std::copy(own.begin(), own.end(), result.begin());
    result.back() = max_norm;
    return result;
  }

  static constexpr auto update(auto parameters, auto gradient, const auto& state, const auto& scalar) {
    const auto norm = sqrt(sum(square(gradient)));
    const auto factor = minimum(scalar.back() / (norm + 1e-6f), constant(norm, 1.0f));
    std::array<std::remove_cvref_t<decltype(scalar.back())>, Optimizer::scalar_count> own{};
    std::copy_n(scalar.begin(), own.size(), own.begin());
    return Optimizer::update(parameters, factor * gradient, state, own);
  }
};

}  // namespace tenet
