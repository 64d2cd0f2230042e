#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/epilogue.hpp"
#include "tenet/device/reference/serial.hpp"

namespace tenet::reference {

constexpr long scratch_conv2d(const Serial*, const Conv2dGeometry&) { return 0; }
constexpr long scratch_conv2d_input_gradient(const Serial*, const Conv2dGeometry&) { return 0; }
constexpr long scratch_conv2d_weight_gradient(const Serial*, const Conv2dGeometry&) { return 0; }

namespace detail {

/// Calls visit(result index, input index, weight index) for every product of one sample's convolution.
template <class Visit>
void for_each_product(const Conv2dGeometry& g, Visit visit) {
  for (int o = 0; o < g.out_channels; ++o) {
    for (int i = 0; i < g.out_height(); ++i) {
      for (int j = 0; j < g.out_width(); ++j) {
        const long result = (long{o} * g.out_height() + i) * g.out_width() + j;
        for (int c = 0; c < g.channels; ++c) {
          for (int u = 0; u < g.kernel_height; ++u) {
            const int y = i * g.stride + u - g.padding;
            if (y < 0 || y >= g.height) continue;
            const long input = (long{c} * g.height + y) * g.width;
            const long weight = ((long{o} * g.channels + c) * g.kernel_height + u) * g.kernel_width;
            for (int v = 0; v < g.kernel_width; ++v) {
              const int x = j * g.stride + v - g.padding;
              if (x >= 0 && x < g.width) visit(result, input + x, weight + v);
            }
          }
        }
      }
    }
  }
}

}  // namespace detail

/// result[n, o, i, j] = sum over c, u, v of weight[o, c, u, v] * input[n, c, i * stride + u - padding, j * stride + v -
/// padding].
inline void run_conv2d(Serial&, const Conv2dGeometry& g, int batch, const float* input, const float* weight,
                       float* result, Epilogue epilogue = {}) {
  for (int n = 0; n < batch; ++n) {
    const float* x = input + n * g.input_size();
    float* y = result + n * g.result_size();
    for (long i = 0; i < g.result_size(); ++i) y[i] = 0;
    detail::for_each_product(g, [&](long r, long i, long w) { y[r] += weight[w] * x[i]; });
  }
  epilogue(0, batch * g.result_size());
}

/// The gradient of `run_conv2d` by its input.
inline void run_conv2d_input_gradient(Serial&, const Conv2dGeometry& g, int batch, const float* gradient_of_result,
                                      const float* weight, float* input_gradient, Epilogue epilogue = {}) {
  for (int n = 0; n < batch; ++n) {
    const float* dy = gradient_of_result + n * g.result_size();
    float* dx = input_gradient + n * g.input_size();
    for (long i = 0; i < g.input_size(); ++i) dx[i] = 0;
    detail::for_each_product(g, [&](long r, long i, long w) { dx[i] += weight[w] * dy[r]; });
  }
  epilogue(0, batch * g.input_size());
}

/// The gradient of `run_conv2d` by its weight, summed over the batch.
inline void run_conv2d_weight_gradient(Serial&, const Conv2dGeometry& g, int batch, const float* input,
                                       const float* gradient_of_result, float* weight_gradient) {
  for (long i = 0; i < g.weight_size(); ++i) weight_gradient[i] = 0;
  for (int n = 0; n < batch; ++n) {
    const float* x = input + n * g.input_size();
    const float* dy = gradient_of_result + n * g.result_size();
    detail::for_each_product(g, [&](long r, long i, long w) { weight_gradient[w] += x[i] * dy[r]; });
  }
}

}  // namespace tenet::reference
