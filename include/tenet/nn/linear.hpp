#pragma once

#include <tenet/nn/options.hpp>
#include <tenet/nn/parameter.hpp>
#include <tenet/ops/arithmetic.hpp>
#include <tenet/ops/matmul.hpp>
#include <tenet/ops/reduce.hpp>

namespace tenet {

/// y = x·weightᵀ + bias: (batch, …, In) -> (batch, …, Out), weight (Out, In), bias (Out). Option: Bias<false>.
template <int In, int Out, class... Options>
struct Linear {
  static constexpr bool has_bias = bool_option<Bias, true, Options...>;
  static constexpr bool options_known = (detail::is_bool_option<Bias, Options> && ...);
  Parameter<Fixed<Out, In>, KaimingUniform<In>> weight;
  OptionalParameter<has_bias, Fixed<Out>, KaimingUniform<In>> bias;

  template <class Context, class X>
  constexpr auto operator()(Symbol<Context, X> x, SourceLine line = SourceLine::current()) const {
    const int number = static_cast<int>(line.line());
    x.context->visit(weight.slot, number);
    if constexpr (!options_known) mistake::report<Mistake::option, X::info, X::info>(x.context, weight.slot, number);
    if constexpr (X::rank < 1 || X::info.extents[X::rank - 1] != In) {
      mistake::report<Mistake::features, Batched<In>::info, X::info>(x.context, weight.slot, number);
      return Symbol<Context, Batched<Out>>{x.context, x.id};
    } else if constexpr (has_bias) {
      return matmul<false, true>(x, weight.in(x)) + bias.in(x);
    } else {
      return matmul<false, true>(x, weight.in(x));
    }
  }
};

}  // namespace tenet
