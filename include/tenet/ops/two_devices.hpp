#pragma once

#include <tenet/ops/mistake.hpp>
#include <tenet/ops/symbol.hpp>

/// Operations on real tensors of two devices, which do not compile: each function of several operands once more, for
/// such alone. It is declared only; what it returns says why, so that the user's line is what instantiates the mistake.
namespace tenet {

/// It stands for the first operand in what follows, of which nothing is told.
template <class Instead, class... Devices>
inline constexpr bool is_symbol<mistake::DevicesDiffer<Instead, Devices...>> = true;

namespace mistake {

template <AnySymbol Operand>
using TapeOf = typename std::remove_pointer_t<decltype(Operand::context)>::Base;

template <class First, class... Others>
concept OfTwoDevices = (TapeOf<First>::holds_values && ... && TapeOf<Others>::holds_values) &&
                       !(std::is_same_v<TapeOf<First>, TapeOf<Others>> && ...);

/// What operands of two devices give.
template <AnySymbol First, AnySymbol... Others>
using TwoDevices = DevicesDiffer<Symbol<TapeOf<First>, typename First::Type>, typename TapeOf<First>::LogicalDevice,
                                 typename TapeOf<Others>::LogicalDevice...>;

}  // namespace mistake

template <AnySymbol A, AnySymbol B>
  requires mistake::OfTwoDevices<A, B>
mistake::TwoDevices<A, B> operator+(A, B);
template <AnySymbol A, AnySymbol B>
  requires mistake::OfTwoDevices<A, B>
mistake::TwoDevices<A, B> operator-(A, B);
template <AnySymbol A, AnySymbol B>
  requires mistake::OfTwoDevices<A, B>
mistake::TwoDevices<A, B> operator*(A, B);
template <AnySymbol A, AnySymbol B>
  requires mistake::OfTwoDevices<A, B>
mistake::TwoDevices<A, B> operator/(A, B);
template <AnySymbol A, AnySymbol B>
  requires mistake::OfTwoDevices<A, B>
mistake::TwoDevices<A, B> maximum(A, B);
template <AnySymbol A, AnySymbol B>
  requires mistake::OfTwoDevices<A, B>
mistake::TwoDevices<A, B> minimum(A, B);
template <AnySymbol Scores, AnySymbol Labels>
  requires mistake::OfTwoDevices<Scores, Labels>
mistake::TwoDevices<Symbol<mistake::TapeOf<Scores>, Scalar>, Labels> cross_entropy(Scores, Labels);
template <AnySymbol Scores, AnySymbol Labels>
  requires mistake::OfTwoDevices<Scores, Labels>
mistake::TwoDevices<Symbol<mistake::TapeOf<Scores>, Scalar>, Labels> accuracy(Scores, Labels);
template <bool TransposeLhs = false, bool TransposeRhs = false, AnySymbol A, AnySymbol B>
  requires mistake::OfTwoDevices<A, B>
mistake::TwoDevices<A, B> matmul(A, B);
template <int Stride = 1, int Padding = 0, AnySymbol Input, AnySymbol Weight>
  requires mistake::OfTwoDevices<Input, Weight>
mistake::TwoDevices<Input, Weight> conv2d(Input, Weight);
template <AnySymbol Tokens, AnySymbol Table>
  requires mistake::OfTwoDevices<Tokens, Table>
mistake::TwoDevices<Tokens, Table> embedding(Tokens, Table);
template <int Dim, AnySymbol A, AnySymbol... B>
  requires mistake::OfTwoDevices<A, B...>
mistake::TwoDevices<A, B...> concatenate(A, B...);
template <bool Causal = false, AnySymbol Query, AnySymbol Key, AnySymbol Value>
  requires mistake::OfTwoDevices<Query, Key, Value>
mistake::TwoDevices<Query, Key, Value> scaled_dot_product_attention(Query, Key, Value);
template <AnySymbol X, AnySymbol Weight, AnySymbol Bias>
  requires mistake::OfTwoDevices<X, Weight, Bias>
mistake::TwoDevices<X, Weight, Bias> layer_norm(X, Weight, Bias);
template <AnySymbol X, AnySymbol Mean, AnySymbol Scale, AnySymbol Shift>
  requires mistake::OfTwoDevices<X, Mean, Scale, Shift>
mistake::TwoDevices<X, Mean, Scale, Shift> normalize(X, Mean, Scale, Shift);
/// Operations of one's own.
template <class Op, AnySymbol A, AnySymbol... B>
  requires mistake::OfTwoDevices<A, B...>
mistake::TwoDevices<A, B...> apply(A, B...);

}  // namespace tenet
