#pragma once

#include <vector>

#include "tenet/core/bfloat16.hpp"
#include "tenet/device/reference.hpp"

/// The reference device with products and convolutions of bfloat16, as GPUs have them: factors are rounded, sums are
/// floats; what a convolution computes is rounded once. Compared with plain loops it says what a device in mixed
/// precision has to compute, and its programs need every kind of conversion.
namespace narrow {

using tenet::bfloat16;

struct Executor : tenet::reference::Serial {
  inline static long products = 0, convolutions = 0;  ///< how many were asked for
};

inline std::vector<float> widened(const bfloat16* from, long count) { return {from, from + count}; }
inline void round_to(bfloat16* to, const std::vector<float>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = bfloat16(from[i]);
}

inline void run_matmul(Executor& executor, const tenet::MatmulGeometry& g, const bfloat16* lhs, const bfloat16* rhs,
                       float* result, tenet::Epilogue epilogue = {}) {
  ++Executor::products;
  const auto a = widened(lhs, (g.count - 1) * g.lhs_step + g.rows * g.inner),
             b = widened(rhs, (g.count - 1) * g.rhs_step + g.inner * g.columns);
  run_matmul(static_cast<tenet::reference::Serial&>(executor), g, a.data(), b.data(), result, epilogue);
}

inline void run_conv2d(Executor& executor, const tenet::Conv2dGeometry& g, int batch, const bfloat16* input,
                       const bfloat16* weight, bfloat16* result, tenet::Epilogue epilogue = {}) {
  ++Executor::convolutions;
  const auto x = widened(input, batch * g.input_size()), w = widened(weight, g.weight_size());
  std::vector<float> y(static_cast<std::size_t>(batch * g.result_size()));
  run_conv2d(static_cast<tenet::reference::Serial&>(executor), g, batch, x.data(), w.data(), y.data());
  round_to(result, y);
  epilogue(0, batch * g.result_size());
}

inline void run_conv2d_input_gradient(Executor& executor, const tenet::Conv2dGeometry& g, int batch,
                                      const bfloat16* gradient_of_result, const bfloat16* weight,
                                      bfloat16* input_gradient, tenet::Epilogue epilogue = {}) {
  const auto dy = widened(gradient_of_result, batch * g.result_size()), w = widened(weight, g.weight_size());
  std::vector<float> dx(static_cast<std::size_t>(batch * g.input_size()));
  run_conv2d_input_gradient(static_cast<tenet::reference::Serial&>(executor), g, batch, dy.data(), w.data(), dx.data());
  round_to(input_gradient, dx);
  epilogue(0, batch * g.input_size());
}

inline void run_conv2d_weight_gradient(Executor& executor, const tenet::Conv2dGeometry& g, int batch,
                                       const bfloat16* input, const bfloat16* gradient_of_result,
                                       bfloat16* weight_gradient) {
  const auto x = widened(input, batch * g.input_size()), dy = widened(gradient_of_result, batch * g.result_size());
  std::vector<float> dw(static_cast<std::size_t>(g.weight_size()));
  run_conv2d_weight_gradient(static_cast<tenet::reference::Serial&>(executor), g, batch, x.data(), dy.data(),
                             dw.data());
  round_to(weight_gradient, dw);
}

struct Kernels : tenet::ReferenceKernels {
  using Executor = narrow::Executor;
  using Kernel = void (*)(Executor&, const Arguments&);
};

struct Device {
  using Kernels = narrow::Kernels;
  static constexpr int index = 0;
  static constexpr int threads() { return 1; }
};

}  // namespace narrow
