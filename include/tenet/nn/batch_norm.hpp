#pragma once

#include <tenet/nn/parameter.hpp>
#include <tenet/ops/activation.hpp>
#include <tenet/ops/normalization.hpp>
#include <utility>

namespace tenet {

namespace detail {

/// x of shape (batch, channels, …), with a dimension for each of Spatial, normalised by channel: the arithmetic of the
/// layers below.
template <class Layer, class Context, class X, int... Spatial>
constexpr auto batch_norm(const Layer& layer, Symbol<Context, X> x, std::integer_sequence<int, Spatial...>) {
  constexpr float epsilon = 1e-5f;
  constexpr int channels = X::info.extents[0];
  const auto channel = [](auto values) { return reshape<channels, (0 * Spatial + 1)...>(values); };
  const auto shift = channel(layer.bias.in(x));
  if (!x.context->training()) {
    const auto scale = layer.weight.in(x)*rsqrt(layer.running_var.in(x) + epsilon);
    return normalize(x, channel(layer.running_mean.in(x)), channel(scale), shift);
  }
  const auto move = [](const auto& running, auto present) {
    constexpr float momentum = 0.1f;
    const auto before = running.in(present);
    running.assign(before + momentum * (present - before));
  };
  const auto [mean, variance] = moments<0, (Spatial + 2)...>(x);
  const auto scale = channel(layer.weight.in(x)) * rsqrt(variance + epsilon);
  move(layer.running_mean, reshape<channels>(mean));
  // n / (n - 1) = 1 / (1 - 1/n), n the elements of a channel: the unbiased variance. Where n may be 1, whose variance
  // is 0, the divisor is not: for larger n it is 1/2 at least, and stays as it is.
  const auto divisor = [&] {
    const auto of_unbiased = 1.0f - reciprocal_count<0, (Spatial + 2)...>(x);
    if constexpr (X::size == channels)
      return 0.5f + relu(of_unbiased - 0.5f);
    else
      return of_unbiased;
  }();
  move(layer.running_var, reshape<channels>(variance) / divisor);
  return normalize(x, mean, scale, shift);
}

}  // namespace detail

/// Batch normalisation of every channel of images: (x - mean) / sqrt(variance + 1e-5)·weight + bias, mean and variance
/// over batch, height and width.
///
/// In training mode with the moments of the batch, which also move the running statistics by a tenth (variance
/// unbiased), in evaluation mode with the running statistics: PyTorch's defaults. (Ioffe and Szegedy, arXiv
/// 1502.03167.) A batch of one number a channel has the variance 0, where PyTorch refuses it.
template <int Channels>
struct BatchNorm2d {
  Parameter<Fixed<Channels>, Constant<1>> weight;
  Parameter<Fixed<Channels>, Constant<0>> bias;
  StateBuffer<Fixed<Channels>, Constant<0>> running_mean;
  StateBuffer<Fixed<Channels>, Constant<1>> running_var;
  StepCounter num_batches_tracked;

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
      return detail::batch_norm(*this, x, std::make_integer_sequence<int, 2>{});
    }
  }
};

/// The same of features, (batch, Channels), over the batch, or of sequences, (batch, Channels, length), over batch and
/// length.
template <int Channels>
struct BatchNorm1d {
  Parameter<Fixed<Channels>, Constant<1>> weight;
  Parameter<Fixed<Channels>, Constant<0>> bias;
  StateBuffer<Fixed<Channels>, Constant<0>> running_mean;
  StateBuffer<Fixed<Channels>, Constant<1>> running_var;
  StepCounter num_batches_tracked;

  template <class Context, class X>
  constexpr auto operator()(Symbol<Context, X> x, SourceLine line = SourceLine::current()) const {
    const int number = static_cast<int>(line.line());
    x.context->visit(weight.slot, number);
    if constexpr (X::rank != 1 && X::rank != 2) {
      mistake::report<Mistake::rank, Batched<Channels>::info, X::info>(x.context, weight.slot, number);
      return x;
    } else if constexpr (X::info.extents[0] != Channels) {
      constexpr TensorInfo expected = [] {
        if constexpr (X::rank == 1)
          return with_extents(X::info, {Channels});
        else
          return with_extents(X::info, {Channels, X::info.extents[1]});
      }();
      mistake::report<Mistake::channels, expected, X::info>(x.context, weight.slot, number);
      return x;
    } else {
      return detail::batch_norm(*this, x, std::make_integer_sequence<int, X::rank - 1>{});
    }
  }
};

}  // namespace tenet
