#pragma once

#include <tenet/nn/linear.hpp>
#include <tenet/ops/attention.hpp>

namespace tenet {

/// Self-attention with several heads: (batch, length, Width) -> the same. Option: Causal<true>. Parameters are named as
/// those of PyTorch's MultiheadAttention: in_proj_weight (3·Width, Width), in_proj_bias, out_proj.
template <int Width, int Heads, class... Options>
struct MultiheadAttention {
  static_assert(Width % Heads == 0, "MultiheadAttention<Width, Heads>: the width is a multiple of the number of heads");
  static constexpr bool causal = bool_option<Causal, false, Options...>;
  static constexpr bool options_known = (detail::is_bool_option<Causal, Options> && ...);
  Parameter<Fixed<3 * Width, Width>, XavierUniform<Width, 3 * Width>> in_proj_weight;
  Parameter<Fixed<3 * Width>, Constant<0>> in_proj_bias;
  Linear<Width, Width> out_proj;

  template <class Context, class X>
  constexpr auto operator()(Symbol<Context, X> x, SourceLine line = SourceLine::current()) const {
    const int number = static_cast<int>(line.line());
    x.context->visit(in_proj_weight.slot, number);
    if constexpr (!options_known)
      mistake::report<Mistake::option, X::info, X::info>(x.context, in_proj_weight.slot, number);
    if constexpr (X::rank != 2 || X::info.extents[X::rank - 1] != Width) {
      mistake::report<Mistake::features, Batched<1, Width>::info, X::info>(x.context, in_proj_weight.slot, number);
      return x;
    } else {
      const auto projected = matmul<false, true>(x, in_proj_weight.in(x)) + in_proj_bias.in(x);
      return out_proj(self_attention<Heads, causal>(projected));
    }
  }
};

}  // namespace tenet
