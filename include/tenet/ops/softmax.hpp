#pragma once

#include <tenet/ops/functions.hpp>
#include <tenet/ops/reduce.hpp>

/// Softmax over the last dimension.
namespace tenet {
namespace ops {

/// With Causal, row r of every matrix sees the columns 0 … r only.
template <bool Causal>
struct Softmax : KernelOperation {
  static constexpr const char* name = Causal ? "causal_softmax" : "softmax";
  static constexpr bool carries_epilogue = true;
  template <class X>
  static constexpr X result(X) {
    return {};
  }
  template <class X>
  static constexpr Cost flops(X, X) {
    return X::batched ? Cost{4 * X::size, 0} : Cost{0, 4 * X::size};
  }
  template <class X>
  static void run(auto& executor, const auto& arguments, X) {
    constexpr int columns = X::info.extents[X::rank - 1];
    constexpr int period = Causal ? X::info.extents[X::rank - 2] : 0;
    run_softmax(executor, X::size / columns * (X::batched ? arguments.batch : 1), columns, period,
                arguments.template operand<float>(0), arguments.template result<float>(), arguments.epilogue);
  }
  /// dx = y·(dy - sum(dy·y)); masked elements have y = 0 and so no gradient.
  static constexpr auto gradient(auto y, auto upstream, auto) {
    return gradients([=] { return y * (upstream - sum_keep<-1>(upstream * y)); });
  }
};

struct LogSoftmax : KernelOperation {
  static constexpr const char* name = "log_softmax";
  static constexpr bool carries_epilogue = true;
  template <class X>
  static constexpr X result(X) {
    return {};
  }
  template <class X>
  static void run(auto& executor, const auto& arguments, X) {
    constexpr int columns = X::info.extents[X::rank - 1];
    run_log_softmax(executor, X::size / columns * (X::batched ? arguments.batch : 1), columns,
                    arguments.template operand<float>(0), arguments.template result<float>(), arguments.epilogue);
  }
  static constexpr auto gradient(auto y, auto upstream, auto) {
    return gradients([=] { return upstream - exp(y) * sum_keep<-1>(upstream); });
  }
};

}  // namespace ops

/// exp(x) / sum(exp(x)) over the last dimension.
template <class Context, class Type>
constexpr auto softmax(Symbol<Context, Type> x) {
  static_assert(Type::rank >= 1, "softmax: the input needs an extent besides the batch");
  return apply<ops::Softmax<false>>(x);
}

/// The same where row r sees the columns 0 … r only: (…, length, length).
template <class Context, class Type>
constexpr auto causal_softmax(Symbol<Context, Type> x) {
  static_assert(Type::rank >= 2, "causal_softmax: the input needs rows and columns besides the batch");
  return apply<ops::Softmax<true>>(x);
}

/// log(softmax(x)), computed without overflow.
template <class Context, class Type>
constexpr auto log_softmax(Symbol<Context, Type> x) {
  static_assert(Type::rank >= 1, "log_softmax: the input needs an extent besides the batch");
  return apply<ops::LogSoftmax>(x);
}

}  // namespace tenet
