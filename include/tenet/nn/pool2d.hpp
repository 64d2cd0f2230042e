#pragma once

#include <tenet/nn/options.hpp>
#include <tenet/nn/parameter.hpp>
#include <tenet/ops/pool2d.hpp>

namespace tenet {

namespace detail {

/// Checks a pooling's input and passes it on; reports a window that is larger than the image.
template <int Kernel, int padding, bool options_known, class Context, class X, class Pooling>
constexpr auto pool(Symbol<Context, X> x, int slot, int line, Pooling pooling) {
  x.context->visit(slot, line);
  if constexpr (!options_known) mistake::report<Mistake::option, X::info, X::info>(x.context, slot, line);
  if constexpr (X::rank != 3) {
    mistake::report<Mistake::rank, Batched<1, Kernel, Kernel>::info, X::info>(x.context, slot, line);
    return x;
  } else if constexpr (X::info.extents[1] + 2 * padding < Kernel || X::info.extents[2] + 2 * padding < Kernel) {
    constexpr TensorInfo expected = with_extents(X::info, {X::info.extents[0], Kernel, Kernel});
    mistake::report<Mistake::kernel, expected, X::info>(x.context, slot, line);
    return x;
  } else {
    return pooling(x);
  }
}

}  // namespace detail

/// The maximum of every Kernel x Kernel window. Options: Stride<n> (Kernel if not given), Padding<n>.
template <int Kernel, class... Options>
struct MaxPool2d {
  static constexpr int stride = int_option<Stride, Kernel, Options...>;
  static constexpr int padding = int_option<Padding, 0, Options...>;
  static constexpr bool options_known = (detail::is_one_of<Options, Stride, Padding> && ...);
  Marker layer;

  constexpr auto operator()(AnySymbol auto x, SourceLine line = SourceLine::current()) const {
    return detail::pool<Kernel, padding, options_known>(x, layer.slot, static_cast<int>(line.line()), [](auto input) {
      return max_pool2d<Kernel, stride, padding>(input);
    });
  }
};

/// The mean of every Kernel x Kernel window, padding counted as zeros. Options as `MaxPool2d`.
template <int Kernel, class... Options>
struct AvgPool2d {
  static constexpr int stride = int_option<Stride, Kernel, Options...>;
  static constexpr int padding = int_option<Padding, 0, Options...>;
  static constexpr bool options_known = (detail::is_one_of<Options, Stride, Padding> && ...);
  Marker layer;

  constexpr auto operator()(AnySymbol auto x, SourceLine line = SourceLine::current()) const {
    return detail::pool<Kernel, padding, options_known>(x, layer.slot, static_cast<int>(line.line()), [](auto input) {
      return avg_pool2d<Kernel, stride, padding>(input);
    });
  }
};

/// The mean of every channel: (batch, channels, height, width) -> (batch, channels).
struct GlobalAvgPool2d {
  Marker layer;

  constexpr auto operator()(AnySymbol auto x, SourceLine line = SourceLine::current()) const {
    return detail::pool<1, 0, true>(x, layer.slot, static_cast<int>(line.line()),
                                    [](auto input) { return global_avg_pool2d(input); });
  }
};

}  // namespace tenet
