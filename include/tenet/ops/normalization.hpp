#pragma once

#include <tenet/ops/functions.hpp>
#include <tenet/ops/reduce.hpp>

/// The arithmetic of batch norm, composed from element-wise operations and sums: its backward pass is derived, and a
/// device needs no kernel of its own for it. Layer norm has kernels, as its rows fit a cache: one pass over memory.
namespace tenet {
namespace ops {

/// (x - mean)², summed to the variance.
struct SquaredDifference : ElementOperation {
  static constexpr const char* name = "squared_difference";
  static constexpr auto element(auto x, auto mean) { return (x - mean) * (x - mean); }
  static constexpr auto gradient(auto, auto upstream, auto x, auto mean) {
    // The gradient of the mean is -2·sum(upstream·(x - mean)): zero, for the upstream is the same for all x of a mean.
    return gradients([=] { return 2.0f * upstream * (x - mean); }, no_gradient);
  }
};

struct CenteredProduct : ElementOperation {
  static constexpr const char* name = "centered_product";
  static constexpr auto element(auto upstream, auto x, auto mean) { return upstream * (x - mean); }
};

/// (x - mean)·scale + shift
struct Normalize : ElementOperation {
  static constexpr const char* name = "normalize";
  static constexpr auto element(auto x, auto mean, auto scale, auto shift) { return (x - mean) * scale + shift; }
  template <class X, class Mean, class Scale, class Shift>
  static constexpr auto gradient(auto, auto upstream, X x, Mean mean, Scale scale, Shift) {
    return gradients([=] { return upstream * scale; },
                     [=] {
                       // Where mean and scale have one shape, the sum is taken before the product: it is there already.
                       if constexpr (std::is_same_v<Mean, Scale>)
                         return -(sum_to<typename Mean::Type>(upstream) * scale);
                       else
                         return -(upstream * scale);
                     },
                     [=] { return apply<CenteredProduct>(upstream, x, mean); }, [=] { return upstream; });
  }
};

inline constexpr float layer_norm_epsilon = 1e-5f;

/// A tensor as rows that are normalised one by one.
template <class X>
struct NormalizedRows {
  static constexpr int columns = X::info.extents[X::rank - 1];
  static constexpr long at(long batch) { return X::size / columns * (X::batched ? batch : 1); }
};

struct LayerNormGradient : KernelOperation {
  static constexpr const char* name = "layer_norm_gradient";
  static constexpr bool carries_epilogue = true;
  template <class X>
  static constexpr X result(X, auto, auto) {
    return {};
  }
  template <class X>
  static void run(auto& executor, const auto& arguments, X, auto, auto) {
    run_layer_norm_gradient(executor, NormalizedRows<X>::at(arguments.batch), NormalizedRows<X>::columns,
                            layer_norm_epsilon, arguments.template operand<float>(0),
                            arguments.template operand<float>(1), arguments.template operand<float>(2),
                            arguments.template result<float>(), arguments.epilogue);
  }
};

/// The gradients of weight and bias below each other, (2, columns): one pass makes both.
struct LayerNormParameters : KernelOperation {
  static constexpr const char* name = "layer_norm_parameters";
  template <class X>
  static constexpr auto result(X, auto) {
    return Fixed<2, NormalizedRows<X>::columns>{};
  }
  template <class, class X>
  static long workspace(const auto* executor, long batch, X, auto) {
    return workspace_layer_norm_parameters(executor, NormalizedRows<X>::at(static_cast<int>(batch)),
                                           NormalizedRows<X>::columns);
  }
  template <class X>
  static void run(auto& executor, const auto& arguments, X, auto) {
    run_layer_norm_parameters(executor, NormalizedRows<X>::at(arguments.batch), NormalizedRows<X>::columns,
                              layer_norm_epsilon, arguments.template operand<float>(0),
                              arguments.template operand<float>(1), arguments.template result<float>());
  }
};

/// (x - mean) / sqrt(variance + 1e-5)·weight + bias, mean and (biased) variance of each row.
struct LayerNormalize : KernelOperation {
  static constexpr const char* name = "layer_norm";
  static constexpr bool carries_epilogue = true;
  template <class X>
  static constexpr X result(X, auto, auto) {
    return {};
  }
  template <class X>
  static constexpr Cost flops(X, X, auto, auto) {
    return X::batched ? Cost{8 * X::size, 0} : Cost{0, 8 * X::size};
  }
  template <class X>
  static void run(auto& executor, const auto& arguments, X, auto, auto) {
    run_layer_norm(executor, NormalizedRows<X>::at(arguments.batch), NormalizedRows<X>::columns, layer_norm_epsilon,
                   arguments.template operand<float>(0), arguments.template operand<float>(1),
                   arguments.template operand<float>(2), arguments.template result<float>(), arguments.epilogue);
  }
  static constexpr auto gradient(auto, auto upstream, auto x, auto weight, auto) {
    const auto parameters = apply<LayerNormParameters>(x, upstream);
    return gradients([=] { return apply<LayerNormGradient>(x, weight, upstream); },
                     [=] { return apply<Slice<0, 0, 1>>(parameters); },
                     [=] { return apply<Slice<0, 1, 1>>(parameters); });
  }
};

}  // namespace ops

/// Each row of x, its last dimension, normalised, times weight (columns), plus bias (columns). (Ba, Kiros and Hinton,
/// arXiv 1607.06450.)
template <class Context, class X, class Weight>
constexpr auto layer_norm(Symbol<Context, X> x, Symbol<Context, Weight> weight, Symbol<Context, Weight> bias) {
  static_assert(X::rank >= 1 && std::is_same_v<Weight, Fixed<X::info.extents[X::rank - 1]>>,
                "layer_norm(x, weight, bias): weight and bias have as many elements as a row of x");
  return apply<ops::LayerNormalize>(x, weight, bias);
}

/// Mean and (biased) variance over the dimensions Dims, kept as extents of 1.
template <class Symbol_>
struct MeanAndVariance {
  Symbol_ mean, variance;
};

template <int... Dims, class Context, class Type>
constexpr auto moments(Symbol<Context, Type> x) {
  const auto average = mean_keep<Dims...>(x);
  const auto variance = mean_keep<Dims...>(apply<ops::SquaredDifference>(x, average));
  return MeanAndVariance<decltype(variance)>{average, variance};
}

/// (x - mean)·scale + shift, the last three broadcast to x.
constexpr auto normalize(AnySymbol auto x, AnySymbol auto mean, AnySymbol auto scale, AnySymbol auto shift) {
  return apply<ops::Normalize>(x, mean, scale, shift);
}

}  // namespace tenet
