#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "image_order.hpp"
#include "tenet/core/bfloat16.hpp"
#include "tenet/device/reference.hpp"

/// The reference device with convolutions that want channels last, of floats or bfloat16, as GPUs have them. All else
/// is the reference's, so that its programs need images in both orders.
namespace turned {

using image_order::channels_first, image_order::channels_last;
using tenet::bfloat16, tenet::ChannelsLast, tenet::Conv2dGeometry, tenet::Pool2dGeometry;

struct Executor : tenet::reference::Serial {
  inline static long convolutions = 0;  ///< how many were asked for
};

/// Writes what a kernel has computed range by range, each with the epilogue behind it: which finds nothing but NaN in
/// what comes later.
template <class Number>
void write_in_ranges(const std::vector<float>& values, long channels, long positions, Number* to,
                     tenet::Epilogue epilogue) {
  const std::vector<Number> last = channels_last<Number>(values, channels, positions);
  std::fill_n(to, last.size(), Number(std::nanf("")));
  constexpr std::size_t range = 7;
  for (std::size_t i = 0; i < last.size(); i += range) {
    const std::size_t end = std::min(i + range, last.size());
    std::copy(last.data() + i, last.data() + end, to + i);
    epilogue(static_cast<long>(i), static_cast<long>(end));
  }
}

/// The operands of a convolution in the reference's order.
struct Operands {
  const Conv2dGeometry& g;
  int batch;

  auto input(const auto* x) const { return channels_first(x, batch, g.channels, long{1} * g.height * g.width); }
  auto result(const auto* y) const { return channels_first(y, batch, g.out_channels, g.positions()); }
  auto weight(const auto* w) const { return channels_first(w, g.out_channels, g.channels, taps()); }
  long taps() const { return long{1} * g.kernel_height * g.kernel_width; }
};

template <class Number>
void run_conv2d(Executor& executor, ChannelsLast, const Conv2dGeometry& g, int batch, const Number* input,
                const Number* weight, Number* result, tenet::Epilogue epilogue = {}) {
  ++Executor::convolutions;
  const Operands of{g, batch};
  std::vector<float> y(static_cast<std::size_t>(batch * g.result_size()));
  run_conv2d(static_cast<tenet::reference::Serial&>(executor), g, batch, of.input(input).data(),
             of.weight(weight).data(), y.data());
  write_in_ranges(y, g.out_channels, g.positions(), result, epilogue);
}
template <class Number>
void run_conv2d_input_gradient(Executor& executor, ChannelsLast, const Conv2dGeometry& g, int batch,
                               const Number* gradient_of_result, const Number* weight, Number* input_gradient,
                               tenet::Epilogue epilogue = {}) {
  const Operands of{g, batch};
  std::vector<float> dx(static_cast<std::size_t>(batch * g.input_size()));
  run_conv2d_input_gradient(static_cast<tenet::reference::Serial&>(executor), g, batch,
                            of.result(gradient_of_result).data(), of.weight(weight).data(), dx.data());
  write_in_ranges(dx, g.channels, long{1} * g.height * g.width, input_gradient, epilogue);
}
template <class Number>
void run_conv2d_weight_gradient(Executor& executor, ChannelsLast, const Conv2dGeometry& g, int batch,
                                const Number* input, const Number* gradient_of_result, Number* weight_gradient) {
  const Operands of{g, batch};
  std::vector<float> dw(static_cast<std::size_t>(g.weight_size()));
  run_conv2d_weight_gradient(static_cast<tenet::reference::Serial&>(executor), g, batch, of.input(input).data(),
                             of.result(gradient_of_result).data(), dw.data());
  std::ranges::copy(channels_last<Number>(dw, g.channels, of.taps()), weight_gradient);
}

/// The operands of a pooling in the reference's order.
struct Pooled {
  const Pool2dGeometry& g;
  int batch;

  long inputs() const { return long{1} * g.height * g.width; }
  long results() const { return long{1} * g.out_height() * g.out_width(); }
  auto input(const float* x) const { return channels_first(x, batch, g.channels, inputs()); }
  auto result(const float* y) const { return channels_first(y, batch, g.channels, results()); }
  auto empty(long positions) const {
    return std::vector<float>(static_cast<std::size_t>(batch * g.channels * positions));
  }
};

inline void run_max_pool2d(Executor& executor, ChannelsLast, const Pool2dGeometry& g, int batch, const float* x,
                           float* y, tenet::Epilogue epilogue = {}) {
  const Pooled of{g, batch};
  auto to = of.empty(of.results());
  run_max_pool2d(static_cast<tenet::reference::Serial&>(executor), g, batch, of.input(x).data(), to.data());
  write_in_ranges(to, g.channels, of.results(), y, epilogue);
}
inline void run_max_pool2d_gradient(Executor& executor, ChannelsLast, const Pool2dGeometry& g, int batch,
                                    const float* x, const float* y, const float* dy, float* dx,
                                    tenet::Epilogue epilogue = {}) {
  const Pooled of{g, batch};
  auto to = of.empty(of.inputs());
  run_max_pool2d_gradient(static_cast<tenet::reference::Serial&>(executor), g, batch, of.input(x).data(),
                          of.result(y).data(), of.result(dy).data(), to.data());
  write_in_ranges(to, g.channels, of.inputs(), dx, epilogue);
}
inline void run_avg_pool2d(Executor& executor, ChannelsLast, const Pool2dGeometry& g, int batch, const float* x,
                           float* y, tenet::Epilogue epilogue = {}) {
  const Pooled of{g, batch};
  auto to = of.empty(of.results());
  run_avg_pool2d(static_cast<tenet::reference::Serial&>(executor), g, batch, of.input(x).data(), to.data());
  write_in_ranges(to, g.channels, of.results(), y, epilogue);
}
inline void run_avg_pool2d_gradient(Executor& executor, ChannelsLast, const Pool2dGeometry& g, int batch,
                                    const float* dy, float* dx, tenet::Epilogue epilogue = {}) {
  const Pooled of{g, batch};
  auto to = of.empty(of.inputs());
  run_avg_pool2d_gradient(static_cast<tenet::reference::Serial&>(executor), g, batch, of.result(dy).data(), to.data());
  write_in_ranges(to, g.channels, of.inputs(), dx, epilogue);
}

struct Kernels : tenet::ReferenceKernels {
  using Executor = turned::Executor;
  using Kernel = void (*)(Executor&, const Arguments&);
  static constexpr bool turns_images = true, reads_repeated_rows = true;
};

struct Device {
  using Kernels = turned::Kernels;
  static constexpr int index = 0;
  static constexpr int threads() { return 1; }
};

}  // namespace turned
