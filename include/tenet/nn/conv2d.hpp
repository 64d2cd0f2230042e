#pragma once

#include <tenet/nn/options.hpp>
#include <tenet/nn/parameter.hpp>
#include <tenet/ops/arithmetic.hpp>
#include <tenet/ops/conv2d.hpp>
#include <tenet/ops/reduce.hpp>

namespace tenet {

/// Convolution: (batch, In, h, w) -> (batch, Out, (h + 2·padding - Kernel) / stride + 1, …), weight (Out, In, Kernel,
/// Kernel), bias (Out). Options: Stride<n>, Padding<n>, Bias<false>.
template <int In, int Out, int Kernel, class... Options>
struct Conv2d {
  static constexpr int stride = int_option<Stride, 1, Options...>;
  static constexpr int padding = int_option<Padding, 0, Options...>;
  static constexpr bool has_bias = bool_option<Bias, true, Options...>;
  static constexpr bool options_known =
      ((detail::is_one_of<Options, Stride, Padding> || detail::is_bool_option<Bias, Options>)&&...);
  static constexpr int fan_in = In * Kernel * Kernel;
  Parameter<Fixed<Out, In, Kernel, Kernel>, KaimingUniform<fan_in>> weight;
  OptionalParameter<has_bias, Fixed<Out>, KaimingUniform<fan_in>> bias;

  template <class Context, class X>
  constexpr auto operator()(Symbol<Context, X> x, SourceLine line = SourceLine::current()) const {
    const int number = static_cast<int>(line.line());
    x.context->visit(weight.slot, number);
    if constexpr (!options_known) mistake::report<Mistake::option, X::info, X::info>(x.context, weight.slot, number);
    if constexpr (X::rank != 3) {
      mistake::report<Mistake::rank, Batched<In, Kernel, Kernel>::info, X::info>(x.context, weight.slot, number);
      return Symbol<Context, Batched<Out, 1, 1>>{x.context, x.id};
    } else if constexpr (X::info.extents[0] != In) {
      constexpr TensorInfo expected = with_extents(X::info, {In, X::info.extents[1], X::info.extents[2]});
      mistake::report<Mistake::channels, expected, X::info>(x.context, weight.slot, number);
      return Symbol<Context, decltype(shape_after<X>())>{x.context, x.id};
    } else if constexpr (X::info.extents[1] + 2 * padding < Kernel || X::info.extents[2] + 2 * padding < Kernel) {
      mistake::report<Mistake::kernel, Batched<In, Kernel, Kernel>::info, X::info>(x.context, weight.slot, number);
      return Symbol<Context, Batched<Out, 1, 1>>{x.context, x.id};
    } else {
      const auto y = conv2d<stride, padding>(x, weight.in(x));
      if constexpr (has_bias)
        return y + reshape<Out, 1, 1>(bias.in(x));
      else
        return y;
    }
  }

 private:
  /// The shape of the result, also where the channels do not fit: the harmless shape with which tracing goes on.
  template <class X>
  static constexpr auto shape_after() {
    constexpr int height = (X::info.extents[1] + 2 * padding - Kernel) / stride + 1;
    constexpr int width = (X::info.extents[2] + 2 * padding - Kernel) / stride + 1;
    return Batched<Out, (height > 0 ? height : 1), (width > 0 ? width : 1)>{};
  }
};

}  // namespace tenet
