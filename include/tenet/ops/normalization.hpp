#pragma once

#include <tenet/ops/functions.hpp>
#include <tenet/ops/reduce.hpp>

/// The arithmetic of batch norm and layer norm, composed from element-wise operations and sums: their backward passes
/// are derived, and a device needs no kernel of its own for them.
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

}  // namespace ops

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
