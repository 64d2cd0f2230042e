#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <tenet/core/bfloat16.hpp>
#include <tenet/core/geometry.hpp>
#include <tenet/device/cuda/plans.hpp>
#include <tenet/device/cuda/stream.hpp>
#include <tenet/device/cuda/team.hpp>
#include <tenet/device/element.hpp>
#include <tenet/device/epilogue.hpp>
#include <type_traits>

/// Products of matrices: cuBLASLt's on a GPU.
namespace tenet::gpu {

inline void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail("Cuda", what, "success", cublasLtGetStatusString(status));
}

/// What a product does with each row of its result as it writes it; nothing without a bias.
struct RowBias {
  const float* bias = nullptr;
  bool relu = false;
};

/// cuBLASLt's products, each planned when it is met first.
class Products {
 public:
  explicit Products(const Stream& stream) : tensor_float32_(stream.tensor_float32()) {
    check(cublasLtCreate(&handle_), "starting cuBLASLt");
  }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products() {
    plans_.clear();
    cublasLtDestroy(handle_);
  }

  /// result = op(lhs) · op(rhs) for each of `g.count`, added to what is there if `adds`. Factor: float or bfloat16.
  /// With a bias: false, and nothing done, where the library has no algorithm for it.
  template <class Factor>
  bool multiply(Stream& stream, const MatmulGeometry& g, const Factor* lhs, const Factor* rhs, float* result, bool adds,
                const RowBias& row = {}) {
    constexpr cudaDataType_t factor = std::is_same_v<Factor, bfloat16> ? CUDA_R_16BF : CUDA_R_32F;
    const long written = alignment(result), added = row.bias != nullptr ? alignment(row.bias) : written;
    const Plan& plan = planned(g, factor, adds, {alignment(lhs), alignment(rhs), std::min(written, added)}, row);
    if (!plan.serves) return false;
    if (row.bias != nullptr)  // read as the product is started, or recorded
      cublasLtMatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &row.bias, sizeof row.bias);
    const float one = 1, kept = adds ? 1.0f : 0.0f;
    // A row-major matrix is the transpose of a column-major one: the library is asked for resultᵀ = op(rhs)ᵀ ·
    // op(lhs)ᵀ.
    check(
        cublasLtMatmul(handle_, plan.operation, &one, rhs, plan.rhs, lhs, plan.lhs, &kept, result, plan.result, result,
                       plan.result, &plan.algorithm, stream.workspace(), Stream::workspace_bytes, stream.get()),
        "starting a product of matrices");
    return true;
  }

 private:
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t lhs = nullptr, rhs = nullptr, result = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
    bool serves = true;

    Plan() = default;
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    ~Plan() {
      for (cublasLtMatrixLayout_t layout : {lhs, rhs, result})
        if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
      if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
    }
  };
  using Alignments = std::array<long, 3>;  ///< of lhs, rhs, and result and bias, in bytes
  using Key = std::array<long, 14>;

  static long alignment(const void* data) {
    const auto address = reinterpret_cast<std::uintptr_t>(data) | 256;
    return static_cast<long>(address & ~(address - 1));  // the lowest bit that is set
  }

  static cublasLtMatrixLayout_t layout(cudaDataType_t number, long rows, long columns, long count, long step) {
    cublasLtMatrixLayout_t made = nullptr;
    check(cublasLtMatrixLayoutCreate(&made, number, static_cast<std::uint64_t>(columns),
                                     static_cast<std::uint64_t>(rows), columns),
          "describing a matrix");
    const auto matrices = static_cast<std::int32_t>(count);
    const std::int64_t apart = step;
    cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &matrices, sizeof matrices);
    cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof apart);
    return made;
  }

  const Plan& planned(const MatmulGeometry& g, cudaDataType_t factor, bool adds, const Alignments& aligned,
                      const RowBias& row) {
    const cublasLtEpilogue_t epilogue = row.bias == nullptr ? CUBLASLT_EPILOGUE_DEFAULT
                                        : row.relu          ? CUBLASLT_EPILOGUE_RELU_BIAS
                                                            : CUBLASLT_EPILOGUE_BIAS;
    const Key key{factor,     g.count,    g.rows, g.columns,  g.inner,    g.transpose_lhs, g.transpose_rhs,
                  g.lhs_step, g.rhs_step, adds,   aligned[0], aligned[1], aligned[2],      epilogue};
    return plans_.get(key, [&](Plan& made) { plan(g, factor, aligned, epilogue, made); });
  }

  void plan(const MatmulGeometry& g, cudaDataType_t factor, const Alignments& aligned, cublasLtEpilogue_t epilogue,
            Plan& made) {
    const bool rounds = tensor_float32_ && factor == CUDA_R_32F;
    check(cublasLtMatmulDescCreate(&made.operation, rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                   CUDA_R_32F),
          "describing a product");
    const cublasOperation_t of_rhs = g.transpose_rhs ? CUBLAS_OP_T : CUBLAS_OP_N,
                            of_lhs = g.transpose_lhs ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtMatmulDescSetAttribute(made.operation, CUBLASLT_MATMUL_DESC_TRANSA, &of_rhs, sizeof of_rhs);
    cublasLtMatmulDescSetAttribute(made.operation, CUBLASLT_MATMUL_DESC_TRANSB, &of_lhs, sizeof of_lhs);
    cublasLtMatmulDescSetAttribute(made.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    made.lhs = g.transpose_lhs ? layout(factor, g.inner, g.rows, g.count, g.lhs_step)
                               : layout(factor, g.rows, g.inner, g.count, g.lhs_step);
    made.rhs = g.transpose_rhs ? layout(factor, g.columns, g.inner, g.count, g.rhs_step)
                               : layout(factor, g.inner, g.columns, g.count, g.rhs_step);
    made.result = layout(CUDA_R_32F, g.rows, g.columns, g.count, g.rows * g.columns);

    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "choosing a product's algorithm");
    const auto workspace = static_cast<std::uint64_t>(Stream::workspace_bytes);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                         sizeof workspace);
    const auto allow = [&](cublasLtMatmulPreferenceAttributes_t attribute, long alignment) {
      const auto bytes = static_cast<std::uint32_t>(alignment);
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &bytes, sizeof bytes);
    };
    allow(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned[1]);
    allow(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned[0]);
    allow(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned[2]);
    allow(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned[2]);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, made.operation, made.rhs, made.lhs, made.result, made.result, preference, 1, &best, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    made.serves = status == CUBLAS_STATUS_SUCCESS && found > 0;
    if (!made.serves && epilogue != CUBLASLT_EPILOGUE_DEFAULT) return;  // the caller does that behind the product
    check(status, "choosing a product's algorithm");
    if (found == 0)
      fail("Cuda", "no algorithm for a product", "one of cuBLASLt's",
           "[" + std::to_string(g.rows) + ", " + std::to_string(g.inner) + "] · [" + std::to_string(g.inner) + ", " +
               std::to_string(g.columns) + "]");
    made.algorithm = best.algo;
  }

  bool tensor_float32_;
  cublasLtHandle_t handle_ = nullptr;
  Plans<Key, Plan> plans_;
};

/// False, and nothing done, where the library does not do what `row` says.
template <class Factor>
bool run_products(Stream& stream, const MatmulGeometry& g, const Factor* lhs, const Factor* rhs, float* result,
                  const RowBias& row) {
  Products& products = stream.library<Products>();
  if (!g.accumulate_over_count) return products.multiply(stream, g, lhs, rhs, result, false, row);
  MatmulGeometry one = g;
  one.count = 1;
  for (long c = 0; c < g.count; ++c)
    products.multiply(stream, one, lhs + c * g.lhs_step, rhs + c * g.rhs_step, result, c > 0);
  return true;
}

namespace detail {

/// One number of the result of a product: what stands for the library where there is no GPU.
template <class Factor>
struct ProductElement {
  MatmulGeometry g;
  const Factor *lhs, *rhs;
  float* result;
  RowBias row_bias;

  TENET_HOST_DEVICE void operator()(long i) const {
    const long column = i % g.columns, row = i / g.columns % g.rows, first = i / (g.rows * g.columns);
    float sum = 0;
    for (long c = first; c < first + (g.accumulate_over_count ? g.count : 1); ++c)
      for (long k = 0; k < g.inner; ++k)
        sum += float{lhs[c * g.lhs_step + (g.transpose_lhs ? k * g.rows + row : row * g.inner + k)]} *
               float{rhs[c * g.rhs_step + (g.transpose_rhs ? column * g.inner + k : k * g.columns + column)]};
    if (row_bias.bias != nullptr) sum += row_bias.bias[column];
    result[i] = row_bias.relu && sum < 0 ? 0.0f : sum;
  }
};

/// What a region behind a product has the product do.
inline RowBias row_bias(const RegionEpilogue* region) {
  const int bias = region != nullptr && region->form != nullptr ? region->form->bias() : -1;
  if (bias < 0) return {};
  return {region->arguments->inputs[bias].data, region->form->ends_with_relu()};
}

}  // namespace detail

template <class Executor, class Factor>
bool run_products(Executor& executor, const MatmulGeometry& g, const Factor* lhs, const Factor* rhs, float* result,
                  const RowBias& row) {
  for_each(executor, g.result_size(), detail::ProductElement<Factor>{g, lhs, rhs, result, row});
  return true;
}

/// result[c] = op(lhs[c]) * op(rhs[c]), or the sum of these over c; see `MatmulGeometry`. Factor: float, or bfloat16,
/// which tensor cores multiply.
template <class Executor, class Factor>
void run_matmul(Executor& executor, const MatmulGeometry& g, const Factor* lhs, const Factor* rhs, float* result,
                Epilogue epilogue = {}) {
  const RegionEpilogue* const region = RegionEpilogue::of(epilogue);
  const RowBias row = detail::row_bias(region);
  if (row.bias != nullptr && g.count == 1 && !g.accumulate_over_count &&
      run_products(executor, g, lhs, rhs, region->arguments->outputs[0], row))
    return;
  run_products(executor, g, lhs, rhs, result, {});
  epilogue(0, g.result_size());
}

}  // namespace tenet::gpu
