#pragma once

#include <tenet/nn/parameter.hpp>
#include <tenet/ops/normalization.hpp>

namespace tenet {

/// Batch normalisation of every channel: (x - mean) / sqrt(variance + 1e-5)·weight + bias over batch, height and width.
///
/// In training mode with the moments of the batch, which also move the running statistics by a tenth (variance
/// unbiased), in evaluation mode with the running statistics: PyTorch's defaults. (Ioffe and Szegedy, arXiv
/// 1502.03167.)
template <int Channels>
struct BatchNorm2d {
  Parameter<Fixed<Channels>, Constant<1>> weight;
  Parameter<Fixed<Channels>, Constant<0>> bias;
  StateBuffer<Fixed<Channels>, Constant<0>> running_mean;
  StateBuffer<Fixed<Channels>, Constant<1>> running_var;
  StepCounter num_batches_tracked;

  static constexpr float epsilon = 1e-5f, momentum = 0.1f;

  template <class Context, class X>
  constexpr auto operator()(Symbol<Context, X> x, SourceLine line = SourceLine::current()) const {
    const int number = static_cast<int>(line.line());
    x.context->visit(weight.slot, number);
    if constexpr (X::rank != 3) {
      mistake::report<Mistake::rank, Batched<Channels, 1, 1>::info, X::info>(x.context, weight.slot, number);
      return x;
    } else if constexpr (X::info.extents[0] != Channels) {
      constexpr TensorInfo expected = with_extents(X::info, {Channels, X::info.extents[1], X::info.extents[2]});
      mistake::report<Mistake::channels, expected, X::info>(x.context, weight.slot, number);
      return x;
    } else {
      const auto channel = [](auto values) { return reshape<Channels, 1, 1>(values); };
      const auto shift = channel(bias.in(x));
      if (!x.context->training()) {
        const auto scale = weight.in(x)*rsqrt(running_var.in(x) + epsilon);
        return normalize(x, channel(running_mean.in(x)), channel(scale), shift);
      }
      const auto [mean, variance] = moments<0, 2, 3>(x);
      const auto scale = channel(weight.in(x)) * rsqrt(variance + epsilon);
      move(running_mean, reshape<Channels>(mean));
      // n / (n - 1) = 1 / (1 - 1/n), n the elements of a channel: the unbiased variance.
      move(running_var, reshape<Channels>(variance) / (1.0f - reciprocal_count<0, 2, 3>(x)));
      return normalize(x, mean, scale, shift);
    }
  }

 private:
  static constexpr void move(const auto& running, auto present) {
    const auto before = running.in(present);
    running.assign(before + momentum * (present - before));
  }
};

}  // namespace tenet
