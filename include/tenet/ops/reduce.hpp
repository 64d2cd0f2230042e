#pragma once

#include <tenet/ops/arithmetic.hpp>
#include <tenet/ops/shape.hpp>

/// Sums over extents, and the two directions of broadcasting: `expand_to` copies, `sum_to` adds up again.
namespace tenet {
namespace ops {

/// The operand read as a larger shape: an element-wise copy, so it disappears into its consumers.
template <class Target>
struct Expand : ElementOperation {
  static constexpr const char* name = "expand";
  static constexpr Target result(auto) { return {}; }
  static constexpr auto element(auto x) { return x; }
  static constexpr auto gradient(auto, auto upstream, auto) {
    return gradients([=] { return upstream; });  // summed to the operand's shape by the rule for every gradient
  }
};

/// result[c] = sum over all i with (i / inner) % count = c of x[i], see `Access`.
template <class Target>
struct SumTo {
  static constexpr const char* name = "sum";
  static constexpr Kind kind = Kind::reduction;
  static constexpr Algebra algebra = Algebra::none;
  static constexpr bool carries_epilogue = true;
  static constexpr Target result(auto) { return {}; }
  template <class X>
  static constexpr Cost flops(Target, X) {
    return X::batched ? Cost{X::size, 0} : Cost{0, X::size};
  }
  static constexpr auto gradient(auto, auto upstream, auto x) {
    return gradients([=] { return expand_to<typename decltype(x)::Type>(upstream); });
  }
};

/// Strides by which a shape `from` walks through a shape `to` that it is broadcast to; the batch stands first.
constexpr StridedCopyGeometry broadcast_geometry(const TensorInfo& to, const TensorInfo& from) {
  StridedCopyGeometry g{};
  g.rank = to.rank + (to.batched ? 1 : 0);
  g.batched = to.batched;
  if (to.batched) {
    g.extents[0] = 1;
    g.to_strides[0] = to.size();
    g.from_strides[0] = from.batched ? from.size() : 0;
  }
  long to_stride = 1, from_stride = 1;
  for (int i = to.rank - 1; i >= 0; --i) {
    const int k = i - (to.rank - from.rank), at = i + (to.batched ? 1 : 0);
    g.extents[at] = to.extents[i];
    g.to_strides[at] = to_stride;
    g.from_strides[at] = k >= 0 && from.extents[k] != 1 ? from_stride : 0;
    to_stride *= to.extents[i];
    if (k >= 0) from_stride *= from.extents[k];
  }
  return g;
}

template <class Target>
struct Contract;

/// `Expand` for shapes whose extents do not stand side by side in the result: a copy.
template <class Target>
struct ExpandCopy : KernelOperation {
  static constexpr const char* name = "expand_copy";
  static constexpr Target result(auto) { return {}; }
  template <class X>
  static void run(auto& executor, const auto& arguments, X) {
    constexpr auto geometry = broadcast_geometry(Target::info, X::info);
    run_strided_copy(executor, geometry, arguments.batch, arguments.template operand<float>(0),
                     arguments.template result<float>());
  }
  template <class X>
  static constexpr auto gradient(auto, auto upstream, X) {
    return gradients([=] { return apply<Contract<typename X::Type>>(upstream); });
  }
};

/// The transpose of `ExpandCopy`: sums the elements that came from the same one.
template <class Target>
struct Contract : KernelOperation {
  static constexpr const char* name = "contract";
  static constexpr Target result(auto) { return {}; }
  template <class X>
  static void run(auto& executor, const auto& arguments, X) {
    constexpr auto geometry = [] {
      auto g = broadcast_geometry(X::info, Target::info);
      for (int i = 0; i < g.rank; ++i) std::swap(g.from_strides[i], g.to_strides[i]);
      return g;
    }();
    run_strided_sum(executor, geometry, arguments.batch, arguments.template operand<float>(0),
                    arguments.template result<float>(), Target::size * (Target::batched ? arguments.batch : 1));
  }
  static constexpr auto gradient(auto, auto upstream, auto x) {
    return gradients([=] { return expand_to<typename decltype(x)::Type>(upstream); });
  }
};

}  // namespace ops

/// x read as the shape Target, to which it is broadcast.
template <class Target, class Context, class Type>
constexpr auto expand_to(Symbol<Context, Type> x) {
  if constexpr (std::is_same_v<Target, Type>)
    return x;
  else if constexpr (access_of(Target::info, Type::info).full)
    return reshape_to<Target>(x);
  else if constexpr (access_of(Target::info, Type::info).regular)
    return apply<ops::Expand<Target>>(x);
  else
    return apply<ops::ExpandCopy<Target>>(x);
}

/// The sum of those elements of x which come from the same element when Target is broadcast to the shape of x.
template <class Target, class Context, class Type>
constexpr auto sum_to(Symbol<Context, Type> x) {
  if constexpr (std::is_same_v<Target, Type>)
    return x;
  else if constexpr (access_of(Type::info, Target::info).full || (is_one_sample<Context> && Target::size == Type::size))
    return reshape_to<Target>(x);
  else if constexpr (broadcast(Type::info, Target::info) != Type::info)  // a gradient smaller than its operand: spread
    return expand_to<Target>(x);
  else if constexpr (access_of(Type::info, Target::info).regular)
    return apply<ops::SumTo<Target>>(x);
  else
    return apply<ops::Contract<Target>>(x);
}

namespace detail {

/// Dimensions are counted as in PyTorch: 0 is the batch of a batched tensor, negative ones count from the end.
template <class Type, int... Dims>
struct Reduced {
  static constexpr int count = Type::rank + (Type::batched ? 1 : 0);
  static constexpr bool reduces(int dim) {
    if (sizeof...(Dims) == 0) return true;
    return ((Dims == dim || Dims + count == dim) || ...);
  }
  static_assert(((Dims >= -count && Dims < count) && ...), "a reduced dimension lies outside of the tensor's");
  static constexpr TensorInfo kept = [] {
    TensorInfo info = Type::info;
    info.batched = Type::batched && !reduces(0);
    for (int i = 0; i < info.rank; ++i)
      if (reduces(i + (Type::batched ? 1 : 0))) info.extents[i] = 1;
    return info;
  }();
  static constexpr TensorInfo squeezed = [] {
    TensorInfo info = kept;
    info.rank = 0;
    for (int& extent : info.extents) extent = 0;
    for (int i = 0; i < Type::rank; ++i)
      if (!reduces(i + (Type::batched ? 1 : 0))) info.extents[info.rank++] = Type::info.extents[i];
    return info;
  }();
  static constexpr bool over_batch = Type::batched && reduces(0);
  static constexpr long per_sample = Type::size / TypeOf<kept>::size;
};

}  // namespace detail

/// Sums over the dimensions Dims (all without any), which stay as extents of 1: PyTorch's keepdim=True.
template <int... Dims, class Context, class Type>
constexpr auto sum_keep(Symbol<Context, Type> x) {
  return sum_to<TypeOf<detail::Reduced<Type, Dims...>::kept>>(x);
}

/// Sums over the dimensions Dims (all without any). Dimension 0 is the batch.
template <int... Dims, class Context, class Type>
constexpr auto sum(Symbol<Context, Type> x) {
  return reshape_to<TypeOf<detail::Reduced<Type, Dims...>::squeezed>>(sum_keep<Dims...>(x));
}

/// 1 / (number of elements that go into one element of the mean over Dims), batch included.
template <int... Dims, class Context, class Type>
constexpr auto reciprocal_count(Symbol<Context, Type> x) {
  using R = detail::Reduced<Type, Dims...>;
  if constexpr (R::over_batch)
    return Symbol<Context, Scalar>{x.context, x.context->reciprocal_count(R::per_sample)};
  else
    return constant(x, 1.0f / static_cast<float>(R::per_sample));
}

template <int... Dims, class Context, class Type>
constexpr auto mean_keep(Symbol<Context, Type> x) {
  return sum_keep<Dims...>(x) * reciprocal_count<Dims...>(x);
}

/// The mean over the dimensions Dims (all without any). Dimension 0 is the batch.
template <int... Dims, class Context, class Type>
constexpr auto mean(Symbol<Context, Type> x) {
  return sum<Dims...>(x) * reciprocal_count<Dims...>(x);
}

}  // namespace tenet
