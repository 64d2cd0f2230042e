#pragma once

#include <tenet/nn/parameter.hpp>
#include <tenet/ops/normalization.hpp>

namespace tenet {

/// Layer normalisation over the last dimension: (x - mean) / sqrt(variance + 1e-5)·weight + bias.
/// (Ba, Kiros and Hinton, arXiv 1607.06450.)
template <int Width>
struct LayerNorm {
  Parameter<Fixed<Width>, Constant<1>> weight;
  Parameter<Fixed<Width>, Constant<0>> bias;

  template <class Context, class X>
  constexpr auto operator()(Symbol<Context, X> x, SourceLine line = SourceLine::current()) const {
    const int number = static_cast<int>(line.line());
    x.context->visit(weight.slot, number);
    if constexpr (X::rank < 1 || X::info.extents[X::rank - 1] != Width) {
      mistake::report<Mistake::features, Batched<Width>::info, X::info>(x.context, weight.slot, number);
      return x;
    } else {
      return layer_norm(x, weight.in(x), bias.in(x));
    }
  }
};

}  // namespace tenet
