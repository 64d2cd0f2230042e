#pragma once

#include <tenet/core/geometry.hpp>
#include <tenet/ops/instance.hpp>
#include <utility>

/// Operations that move elements or rename their places: reshape, flatten, transpose, slice, concatenate.
namespace tenet {

template <class Target, class Context, class Type>
constexpr auto reshape_to(Symbol<Context, Type> x);

namespace ops {

/// The same elements under another shape; costs nothing.
template <class Target>
struct Reshape {
  static constexpr const char* name = "reshape";
  static constexpr Kind kind = Kind::view;
  static constexpr Algebra algebra = Algebra::none;
  static constexpr Target result(auto) { return {}; }
  static constexpr auto gradient(auto, auto upstream, auto x) {
    return gradients([=] { return reshape_to<typename decltype(x)::Type>(upstream); });
  }
};

/// Row-major strides of a tensor with its batch in front.
constexpr void strides_of(const TensorInfo& info, long* strides) {
  long stride = 1;
  const int shift = info.batched ? 1 : 0;
  for (int i = info.rank - 1; i >= 0; --i) {
    strides[i + shift] = stride;
    stride *= info.extents[i];
  }
  if (info.batched) strides[0] = stride;
}

/// A copy between two row-major tensors over the extents of one of them.
constexpr StridedCopyGeometry copy_geometry(const TensorInfo& over, const TensorInfo& from, const TensorInfo& to) {
  StridedCopyGeometry g{};
  const int shift = over.batched ? 1 : 0;
  g.rank = over.rank + shift;
  g.batched = over.batched;
  if (over.batched) g.extents[0] = 1;
  for (int i = 0; i < over.rank; ++i) g.extents[i + shift] = over.extents[i];
  strides_of(from, g.from_strides);
  strides_of(to, g.to_strides);
  return g;
}

/// Exchanges two extents, A and B counted from 0 behind the batch.
template <int A, int B>
struct Transpose : KernelOperation {
  static constexpr const char* name = "transpose";
  template <class X>
  static constexpr auto result(X) {
    return TypeOf<with_extent(with_extent(X::info, A, X::info.extents[B]), B, X::info.extents[A])>{};
  }
  template <class X>
  static void run(auto& executor, const auto& arguments, X) {
    constexpr auto geometry = [] {
      auto g = copy_geometry(X::info, X::info, decltype(result(X{}))::info);
      const int shift = X::batched ? 1 : 0;
      std::swap(g.to_strides[A + shift], g.to_strides[B + shift]);
      return g;
    }();
    run_strided_copy(executor, geometry, arguments.batch, arguments.template operand<float>(0),
                     arguments.template result<float>());
  }
  static constexpr auto gradient(auto, auto upstream, auto) {
    return gradients([=] { return apply<Transpose>(upstream); });
  }
};

template <class Target, int Dim, int Begin>
struct Pad;

/// Elements Begin … Begin + Count - 1 of extent Dim.
template <int Dim, int Begin, int Count>
struct Slice : KernelOperation {
  static constexpr const char* name = "slice";
  template <class X>
  static constexpr auto result(X) {
    return TypeOf<with_extent(X::info, Dim, Count)>{};
  }
  template <class X>
  static void run(auto& executor, const auto& arguments, X) {
    constexpr auto geometry = [] {
      const TensorInfo to = decltype(result(X{}))::info;
      auto g = copy_geometry(to, X::info, to);
      g.from_offset = Begin * g.from_strides[Dim + (X::batched ? 1 : 0)];
      return g;
    }();
    run_strided_copy(executor, geometry, arguments.batch, arguments.template operand<float>(0),
                     arguments.template result<float>());
  }
  static constexpr auto gradient(auto, auto upstream, auto x) {
    return gradients([=] { return apply<Pad<typename decltype(x)::Type, Dim, Begin>>(upstream); });
  }
};

/// The operand placed at Begin of extent Dim of a tensor of zeros: the gradient of `Slice`.
template <class Target, int Dim, int Begin>
struct Pad : KernelOperation {
  static constexpr const char* name = "pad";
  static constexpr Target result(auto) { return {}; }
  template <class X>
  static void run(auto& executor, const auto& arguments, X) {
    constexpr auto geometry = [] {
      auto g = copy_geometry(X::info, X::info, Target::info);
      g.to_offset = Begin * g.to_strides[Dim + (X::batched ? 1 : 0)];
      return g;
    }();
    run_strided_sum(executor, geometry, arguments.batch, arguments.template operand<float>(0),
                    arguments.template result<float>(), Target::size * (Target::batched ? arguments.batch : 1));
  }
  template <class X>
  static constexpr auto gradient(auto, auto upstream, X) {
    return gradients([=] { return apply<Slice<Dim, Begin, X::Type::info.extents[Dim]>>(upstream); });
  }
};

/// The operands one after the other along extent Dim.
template <int Dim>
struct Concatenate : KernelOperation {
  static constexpr const char* name = "concatenate";
  template <class A, class B>
  static constexpr auto result(A, B) {
    return TypeOf<with_extent(A::info, Dim, A::info.extents[Dim] + B::info.extents[Dim])>{};
  }
  template <class A, class B>
  static void run(auto& executor, const auto& arguments, A a, B b) {
    using Result = decltype(result(a, b));
    constexpr auto first = copy_geometry(A::info, A::info, Result::info);
    constexpr auto second = [] {
      auto g = copy_geometry(B::info, B::info, Result::info);
      g.to_offset = A::info.extents[Dim] * g.to_strides[Dim + (B::batched ? 1 : 0)];
      return g;
    }();
    float* const to = arguments.template result<float>();
    run_strided_copy(executor, first, arguments.batch, arguments.template operand<float>(0), to);
    run_strided_copy(executor, second, arguments.batch, arguments.template operand<float>(1), to);
  }
  template <class A, class B>
  static constexpr auto gradient(auto, auto upstream, A, B) {
    constexpr int first = A::Type::info.extents[Dim], second = B::Type::info.extents[Dim];
    return gradients([=] { return apply<Slice<Dim, 0, first>>(upstream); },
                     [=] { return apply<Slice<Dim, first, second>>(upstream); });
  }
};

/// Place of a dimension behind the batch, from PyTorch's count: 0 is the batch, negative ones count from the end.
template <class Type>
constexpr int place(int dim) {
  return dim < 0 ? Type::rank + dim : dim - (Type::batched ? 1 : 0);
}

}  // namespace ops

/// The same elements as a tensor of type Target.
template <class Target, class Context, class Type>
constexpr auto reshape_to(Symbol<Context, Type> x) {
  if constexpr (std::is_same_v<Target, Type>)
    return x;
  else
    return apply<ops::Reshape<Target>>(x);
}

/// The same elements with other extents: (batch, …) -> (batch, Extents...).
template <int... Extents, class Context, class Type>
constexpr auto reshape(Symbol<Context, Type> x) {
  using Target = TensorType<typename Type::Element, Type::batched, Extents...>;
  if constexpr (Target::size != Type::size) {
    mistake::report<Mistake::reshape, Target::info, Type::info>(x.context);
    return Symbol<Context, Target>{x.context, x.id};
  } else {
    return reshape_to<Target>(x);
  }
}

/// (batch, a, b, …) -> (batch, a·b·…)
template <class Context, class Type>
constexpr auto flatten(Symbol<Context, Type> x) {
  return reshape<static_cast<int>(Type::size)>(x);
}

/// Exchanges dimensions A and B, counted as in PyTorch: 0 is the batch, negative ones count from the end.
template <int A, int B, class Context, class Type>
constexpr auto transpose(Symbol<Context, Type> x) {
  constexpr int a = ops::place<Type>(A), b = ops::place<Type>(B);
  static_assert(a >= 0 && a < Type::rank && b >= 0 && b < Type::rank, "transpose: no such dimension (0 is the batch)");
  if constexpr (a == b)
    return x;
  else
    return apply<ops::Transpose<(a < b ? a : b), (a < b ? b : a)>>(x);
}

/// Elements Begin … Begin + Count - 1 of dimension Dim: PyTorch's narrow.
template <int Dim, int Begin, int Count, class Context, class Type>
constexpr auto narrow(Symbol<Context, Type> x) {
  constexpr int dim = ops::place<Type>(Dim);
  static_assert(dim >= 0 && dim < Type::rank, "narrow: no such dimension (0 is the batch)");
  static_assert(Begin >= 0 && Count > 0 && Begin + Count <= Type::info.extents[dim], "narrow: outside of the extent");
  return apply<ops::Slice<dim, Begin, Count>>(x);
}

/// a and b, … one after the other along dimension Dim: PyTorch's cat.
template <int Dim, class Context, class A, class B, class... Rest>
constexpr auto concatenate(Symbol<Context, A> a, Symbol<Context, B> b, Symbol<Context, Rest>... rest) {
  constexpr int dim = ops::place<A>(Dim);
  static_assert(dim >= 0 && dim < A::rank, "concatenate: no such dimension (0 is the batch)");
  constexpr bool fits = [] {
    TensorInfo left = A::info, right = B::info;
    left.extents[dim] = right.extents[dim] = 1;
    return left == right;
  }();
  static_assert(fits, "concatenate: the operands differ in another extent than the one they are joined along");
  const auto joined = apply<ops::Concatenate<dim>>(a, b);
  if constexpr (sizeof...(Rest) > 0)
    return concatenate<Dim>(joined, rest...);
  else
    return joined;
}

}  // namespace tenet
