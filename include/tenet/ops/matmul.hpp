#pragma once

#include <tenet/core/geometry.hpp>
#include <tenet/ops/arithmetic.hpp>
#include <tenet/ops/shape.hpp>

/// Products of matrices. A factor has two extents or more; the last two are its rows and columns, those before (and the
/// batch) count the matrices. A factor that is shared by the whole batch (a weight) is multiplied in one large product.
namespace tenet {
namespace ops {

/// The extents of a product; those that are `batched` are multiplied by the batch at run time.
struct MatmulShape {
  long count = 1, rows = 1, columns = 1, inner = 1;
  bool count_batched = false, rows_batched = false, inner_batched = false;
  bool transpose_lhs = false, transpose_rhs = false;
  long lhs_step = 0, rhs_step = 0;

  constexpr MatmulGeometry at(long batch) const {
    return {count * (count_batched ? batch : 1),
            rows * (rows_batched ? batch : 1),
            columns,
            inner * (inner_batched ? batch : 1),
            transpose_lhs,
            transpose_rhs,
            lhs_step,
            rhs_step,
            false};
  }
  constexpr Cost flops() const {
    const long each = 2 * count * rows * columns * inner;
    return count_batched || rows_batched || inner_batched ? Cost{each, 0} : Cost{0, each};
  }
};

/// The extents for the batch of a run: a constant where the batch is one.
template <MatmulShape shape, class Arguments>
constexpr auto geometry_for(const Arguments& arguments) {
  if constexpr (batch_is_known<Arguments>)
    return Known<shape.at(Arguments::batch)>{};
  else
    return shape.at(arguments.batch);
}

/// Base of products: bfloat16 factors in mixed precision where the device multiplies such, with a sum of floats in any
/// case.
struct ProductOperation : KernelOperation {
  static constexpr bool carries_epilogue = true;

  template <class Executor, class Arguments>
  static constexpr KernelNumbers numbers(auto...) {
    if constexpr (in_mixed_precision<Arguments>)
      if constexpr (requires(Executor& executor, const MatmulGeometry& g, const bfloat16* factor, float* result,
                             const Arguments& arguments) {
                      run_matmul(executor, g, factor, factor, result, arguments.epilogue);
                    })
        return {DType::bfloat16, DType::float32};
    return {};
  }

  template <class Arguments, class Executor>
  static long workspace_of(const Executor* executor, const MatmulShape& shape, long batch) {
    return workspace_matmul(executor, shape.at(batch), NumberOf<numbers<Executor, Arguments>().operands>{});
  }

  template <class Executor, class Arguments>
  static void multiply(Executor& executor, const auto& geometry, const Arguments& arguments) {
    using Factor = NumberOf<numbers<Executor, Arguments>().operands>;
    run_matmul(executor, geometry, arguments.template operand<Factor>(0), arguments.template operand<Factor>(1),
               arguments.template result<float>(), arguments.epilogue);
  }
};

constexpr long rows_of(const TensorInfo& info) { return info.rank > 1 ? info.extents[info.rank - 2] : 1; }
constexpr long columns_of(const TensorInfo& info) { return info.extents[info.rank - 1]; }

/// One factor for all matrices of the other?
constexpr bool is_shared(const TensorInfo& lhs, const TensorInfo& rhs) {
  return !rhs.batched && rhs.rank == 2 && (lhs.batched || lhs.rank != 2);
}

constexpr MatmulShape matmul_shape(const TensorInfo& lhs, const TensorInfo& rhs, bool transpose_lhs,
                                   bool transpose_rhs) {
  MatmulShape shape;
  shape.transpose_lhs = transpose_lhs;
  shape.transpose_rhs = transpose_rhs;
  shape.columns = transpose_rhs ? rows_of(rhs) : columns_of(rhs);
  shape.inner = transpose_lhs ? rows_of(lhs) : columns_of(lhs);
  if (is_shared(lhs, rhs)) {  // all rows of all matrices are the rows of one product
    shape.rows = lhs.size() / shape.inner;
    shape.rows_batched = lhs.batched;
  } else {
    shape.rows = transpose_lhs ? columns_of(lhs) : rows_of(lhs);
    shape.count = lhs.size() / (shape.rows * shape.inner);
    shape.count_batched = lhs.batched;
    shape.lhs_step = shape.rows * shape.inner;
    shape.rhs_step = shape.inner * shape.columns;
  }
  return shape;
}

/// Extents of lhs with the last one exchanged: the result of a product.
constexpr TensorInfo matmul_result(const TensorInfo& lhs, const MatmulShape& shape, bool shared) {
  TensorInfo info = lhs;
  if (info.rank > 1 && !shared) info.extents[info.rank - 2] = static_cast<int>(shape.rows);
  info.extents[info.rank - 1] = static_cast<int>(shape.columns);
  return info;
}

/// What the types of two factors say of their product. Named here once, because nvcc's front end takes 128 MB for each
/// call of a constexpr function that names its namespace and depends on a template's arguments.
template <class A, class B, bool TransposeLhs, bool TransposeRhs>
struct Product {
  static constexpr bool shared = is_shared(A::info, B::info);
  static constexpr MatmulShape shape = matmul_shape(A::info, B::info, TransposeLhs, TransposeRhs);
  static constexpr long rhs_inner = TransposeRhs ? columns_of(B::info) : rows_of(B::info);
  using Result = TypeOf<matmul_result(A::info, shape, shared)>;
};

/// Floats of the form in which a device wants the transposed matrix [columns, inner] that a row is multiplied by again
/// and again; 0: as it is.
template <class Context>
constexpr long prepared_factor_floats([[maybe_unused]] const MatmulShape& shape) {
  if constexpr (!Context::differentiable && requires { Context::Device::prepared_factor_floats(1L, 1L); })
    return shape.rows == 1 ? Context::Device::prepared_factor_floats(shape.columns, shape.inner) : 0;
  else
    return 0;
}

/// What the device prepares it as.
template <class Context>
using PreparedFactor = typename Context::Device::PreparedFactor;

/// The matrix in the device's form: a step that a program for inference runs once.
template <class Number, int Floats>
struct PrepareFactor : KernelOperation {
  static constexpr const char* name = "prepare_factor";
  static constexpr Fixed<Floats> result(auto) { return {}; }
  template <class Factor>
  static void run(auto& executor, const auto& arguments, Factor) {
    run_prepare_factor(executor, Number{}, rows_of(Factor::info), columns_of(Factor::info),
                       arguments.template operand<float>(0), arguments.template result<float>());
  }
};

/// A row times the transpose of a prepared matrix.
template <class Number, class Result, int Inner>
struct PreparedMatmul : KernelOperation {
  static constexpr const char* name = "matmul";
  static constexpr Result result(auto, auto) { return {}; }
  static constexpr Cost flops(auto, auto, auto) { return {2 * Result::size * Inner, 0}; }
  static void run(auto& executor, const auto& arguments, auto, auto) {
    run_prepared_matmul(executor, Number{}, Known<static_cast<int>(Result::size)>{}, Known<Inner>{},
                        arguments.template operand<float>(0), arguments.template operand<float>(1),
                        arguments.template result<float>());
  }
};

template <bool TransposeLhs, bool TransposeRhs>
struct Matmul;

/// lhsᵀ·rhs summed over all matrices: (…, n, a), (…, n, b) -> (a, b). The gradient of a shared factor.
struct OuterSum : ProductOperation {
  static constexpr const char* name = "outer_sum";
  template <class A, class B>
  static constexpr MatmulShape shape(A, B) {
    MatmulShape shape;
    shape.rows = columns_of(A::info);
    shape.columns = columns_of(B::info);
    shape.inner = A::size / shape.rows;
    shape.inner_batched = A::batched;
    shape.transpose_lhs = true;
    return shape;
  }
  template <class A, class B>
  static constexpr auto result(A, B) {
    return Fixed<static_cast<int>(columns_of(A::info)), static_cast<int>(columns_of(B::info))>{};
  }
  template <class A, class B>
  static constexpr Cost flops(auto, A a, B b) {
    return shape(a, b).flops();
  }
  template <class Arguments, class A, class B>
  static long workspace(const auto* executor, long batch, A a, B b) {
    return workspace_of<Arguments>(executor, shape(a, b), batch);
  }
  template <class A, class B>
  static void run(auto& executor, const auto& arguments, A, B) {
    const auto geometry = geometry_for<shape(A{}, B{})>(arguments);
    using Executor = std::remove_reference_t<decltype(executor)>;
    using Factor = NumberOf<numbers<Executor, std::remove_cvref_t<decltype(arguments)>>().operands>;
    if constexpr (A::batched && !batch_is_known<std::remove_cvref_t<decltype(arguments)>> &&
                  requires(const Factor* factor, float* result) {
                    run_outer_sum(executor, geometry, factor, factor, result, arguments.epilogue);
                  })
      run_outer_sum(executor, geometry, arguments.template operand<Factor>(0), arguments.template operand<Factor>(1),
                    arguments.template result<float>(), arguments.epilogue);
    else
      multiply(executor, geometry, arguments);
  }
};

/// `OuterSum`; of two rows a broadcasted product, which is computed where it is used.
template <class Context, class A, class B>
constexpr auto outer_sum(Symbol<Context, A> a, Symbol<Context, B> b) {
  constexpr auto rows = static_cast<int>(columns_of(A::info)), columns = static_cast<int>(columns_of(B::info));
  if constexpr (is_one_sample<Context> && A::size == rows && B::size == columns)
    return reshape_to<Fixed<rows, 1>>(a) * reshape_to<Fixed<columns>>(b);
  else
    return apply<OuterSum>(a, b);
}

template <bool TransposeLhs, bool TransposeRhs>
struct Matmul : ProductOperation {
  static constexpr const char* name = "matmul";
  template <class A, class B>
  using ProductOf = Product<A, B, TransposeLhs, TransposeRhs>;

  template <class A, class B>
  static constexpr typename ProductOf<A, B>::Result result(A, B) {
    return {};
  }
  template <class A, class B>
  static constexpr Cost flops(auto, A, B) {
    return ProductOf<A, B>::shape.flops();
  }
  template <class Arguments, class A, class B>
  static long workspace(const auto* executor, long batch, A, B) {
    return workspace_of<Arguments>(executor, ProductOf<A, B>::shape, batch);
  }
  template <class A, class B>
  static void run(auto& executor, const auto& arguments, A, B) {
    multiply(executor, geometry_for<ProductOf<A, B>::shape>(arguments), arguments);
  }

  /// With a = op(lhs), b = op(rhs), y = a·b:  da = dy·bᵀ,  db = aᵀ·dy; a transposed factor wants the transpose of that.
  template <class A, class B>
  static constexpr auto gradient(auto, auto upstream, A lhs, B rhs) {
    return gradients(
        [=] {
          if constexpr (TransposeLhs)
            return apply<Matmul<TransposeRhs, true>>(rhs, upstream);
          else
            return apply<Matmul<false, !TransposeRhs>>(upstream, rhs);
        },
        [=] {
          if constexpr (is_shared(A::Type::info, B::Type::info)) {
            if constexpr (TransposeRhs)
              return outer_sum(upstream, lhs);
            else
              return outer_sum(lhs, upstream);
          } else {
            if constexpr (TransposeRhs)
              return apply<Matmul<true, TransposeLhs>>(upstream, lhs);
            else
              return apply<Matmul<!TransposeLhs, false>>(lhs, upstream);
          }
        });
  }
};

}  // namespace ops

/// op(lhs)·op(rhs): (batch, …, n, k)·(batch, …, k, m) -> (batch, …, n, m), or (batch, …, k)·(k, m) -> (batch, …, m)
/// with a factor that has no batch. A flag says that the factor is given transposed.
template <bool TransposeLhs = false, bool TransposeRhs = false, class Context, class A, class B>
constexpr auto matmul(Symbol<Context, A> lhs, Symbol<Context, B> rhs) {
  static_assert(B::rank >= 2 && A::rank >= 1, "matmul(lhs, rhs): rhs needs rows and columns");
  using Product = ops::Product<A, B, TransposeLhs, TransposeRhs>;
  static_assert(!(Product::shared && TransposeLhs),
                "matmul: lhs cannot be transposed when rhs is one matrix for the whole batch");
  static_assert(Product::shared || (A::rank == B::rank && A::batched == B::batched),
                "matmul(lhs, rhs): both have a batch and as many extents, or rhs is one matrix without a batch");
  using Result = typename Product::Result;
  if constexpr (Product::shape.inner != Product::rhs_inner) {
    mistake::report<Mistake::matmul, A::info, B::info>(lhs.context);
    return Symbol<Context, Result>{lhs.context, lhs.id};
  } else if constexpr (Product::shared && TransposeRhs && ops::prepared_factor_floats<Context>(Product::shape) > 0) {
    constexpr auto floats = static_cast<int>(ops::prepared_factor_floats<Context>(Product::shape));
    using Number = ops::PreparedFactor<Context>;
    return apply<ops::PreparedMatmul<Number, Result, static_cast<int>(Product::shape.inner)>>(
        lhs, apply<ops::PrepareFactor<Number, floats>>(rhs));
  } else {
    return apply<ops::Matmul<TransposeLhs, TransposeRhs>>(lhs, rhs);
  }
}

}  // namespace tenet
