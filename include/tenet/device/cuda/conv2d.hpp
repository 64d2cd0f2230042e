#pragma once

#include <string>
#include <tenet/core/bfloat16.hpp>
#include <tenet/core/geometry.hpp>
#include <tenet/device/cuda/cudnn_graph.hpp>
#include <tenet/device/cuda/few_channels_conv2d.hpp>
#include <tenet/device/cuda/fused_conv2d.hpp>
#include <tenet/device/cuda/stream.hpp>
#include <tenet/device/cuda/team.hpp>
#include <tenet/device/epilogue.hpp>

/// Convolutions: cuDNN's on a GPU, with channels last, as tensor cores want them; of few channels our own.
namespace tenet::gpu {

/// The operation of one pass. `number`: what all tensors hold.
inline CudnnGraph convolution_graph(cudnnDataType_t number, Conv2dPass pass, const Conv2dGeometry& g, int batch) {
  CudnnGraph graph;
  const auto result = graph.tensor(GraphTensor::result, number, CudnnGraph::result_extents(g, batch));
  graph.convolve(pass, g, batch, number, result);
  return graph;
}

namespace detail {

/// One number of what a pass computes, by its definition: what stands for the library where there is no GPU, or where
/// operands are not aligned.
template <Conv2dPass pass, class Number>
struct ConvolutionElement {
  Conv2dGeometry g;
  int batch;
  Conv2dOperands<Number> at;
  Number* to;

  TENET_HOST_DEVICE float product(int n, int o, int i, int j, int c, int u, int v) const {
    const int y = i * g.stride + u - g.padding, x = j * g.stride + v - g.padding;
    if (i < 0 || i >= g.out_height() || j < 0 || j >= g.out_width() || y < 0 || y >= g.height || x < 0 || x >= g.width)
      return 0;
    const long of_input = ((long{n} * g.height + y) * g.width + x) * g.channels + c;
    const long of_weight = ((long{o} * g.kernel_height + u) * g.kernel_width + v) * g.channels + c;
    const long of_result = ((long{n} * g.out_height() + i) * g.out_width() + j) * g.out_channels + o;
    if constexpr (pass == Conv2dPass::result) return float{at.input[of_input]} * float{at.weight[of_weight]};
    if constexpr (pass == Conv2dPass::input_gradient) return float{at.result[of_result]} * float{at.weight[of_weight]};
    return float{at.input[of_input]} * float{at.result[of_result]};
  }

  TENET_HOST_DEVICE void operator()(long element) const { to[element] = Number(sum(element)); }

  TENET_HOST_DEVICE float sum(long element) const {
    const auto digit = [&element](int extent) {
      const auto result = static_cast<int>(element % extent);
      element /= extent;
      return result;
    };
    float sum = 0;
    if constexpr (pass == Conv2dPass::result) {
      const int o = digit(g.out_channels), j = digit(g.out_width()), i = digit(g.out_height());
      const auto n = static_cast<int>(element);
      for (int c = 0; c < g.channels; ++c)
        for (int u = 0; u < g.kernel_height; ++u)
          for (int v = 0; v < g.kernel_width; ++v) sum += product(n, o, i, j, c, u, v);
    } else if constexpr (pass == Conv2dPass::input_gradient) {
      const int c = digit(g.channels), x = digit(g.width), y = digit(g.height);
      const auto n = static_cast<int>(element);
      for (int o = 0; o < g.out_channels; ++o)
        for (int u = 0; u < g.kernel_height; ++u)
          for (int v = 0; v < g.kernel_width; ++v) {
            const int rows = y + g.padding - u, columns = x + g.padding - v;
            if (rows >= 0 && columns >= 0 && rows % g.stride == 0 && columns % g.stride == 0)
              sum += product(n, o, rows / g.stride, columns / g.stride, c, u, v);
          }
    } else {
      const int c = digit(g.channels), v = digit(g.kernel_width), u = digit(g.kernel_height);
      const auto o = static_cast<int>(element);
      for (int n = 0; n < batch; ++n)
        for (int i = 0; i < g.out_height(); ++i)
          for (int j = 0; j < g.out_width(); ++j) sum += product(n, o, i, j, c, u, v);
    }
    return sum;
  }
};

/// The same of a convolution with the region behind it.
template <class Number>
struct FusedConvolutionElement {
  ConvolutionElement<Conv2dPass::result, Number> convolution;
  PointwiseForm form;
  ElementArguments arguments;

  TENET_HOST_DEVICE void operator()(long i) const {
    const float value = form.at(arguments, i, convolution.sum(i));
    if (form.narrow_output)
      reinterpret_cast<bfloat16*>(arguments.outputs[0])[i] = bfloat16(value);
    else
      arguments.outputs[0][i] = value;
  }
};

template <class Executor, class Number>
void run_by_definition(Executor& executor, Conv2dPass pass, const Conv2dGeometry& g, int batch,
                       const Conv2dOperands<Number>& at, Number* to) {
  using enum Conv2dPass;
  if (pass == result)
    for_each(executor, batch * g.result_size(), ConvolutionElement<result, Number>{g, batch, at, to});
  else if (pass == input_gradient)
    for_each(executor, batch * g.input_size(), ConvolutionElement<input_gradient, Number>{g, batch, at, to});
  else
    for_each(executor, g.weight_size(), ConvolutionElement<weight_gradient, Number>{g, batch, at, to});
}

}  // namespace detail

template <class Number>
void run_convolution(Stream& stream, Conv2dPass pass, const Conv2dGeometry& g, int batch,
                     const Conv2dOperands<Number>& at, Number* to) {
  using enum Conv2dPass;
  GraphOperands operands;
  operands.add(pass == result           ? GraphTensor::result
               : pass == input_gradient ? GraphTensor::input
                                        : GraphTensor::weight,
               to);
  if (pass != result) operands.add(GraphTensor::result, at.result);
  if (pass != input_gradient) operands.add(GraphTensor::input, at.input);
  if (pass != weight_gradient) operands.add(GraphTensor::weight, at.weight);
  if (!operands.are_aligned()) return detail::run_by_definition(stream, pass, g, batch, at, to);
  constexpr cudnnDataType_t number = cudnn_number<Number>;
  constexpr int most = 8;  // the library has dozens, of which those behind its first ones are slower
  if (stream.library<CudnnGraphs>().run(stream, number, convolution_key(pass, g, batch), operands, most,
                                        [&] { return convolution_graph(number, pass, g, batch); }))
    return;
  const std::string of = pass == result           ? ""
                         : pass == input_gradient ? "'s gradient by its input"
                                                  : "'s gradient by its weight";
  fail("Cuda", "no algorithm for a convolution" + of, "one of cuDNN's that needs at most 64 MiB",
       std::to_string(g.channels) + " x " + std::to_string(g.height) + " x " + std::to_string(g.width) + " by " +
           std::to_string(g.out_channels) + " kernels of " + std::to_string(g.kernel_height) + " x " +
           std::to_string(g.kernel_width));
}

template <class Executor, class Number>
void run_convolution(Executor& executor, Conv2dPass pass, const Conv2dGeometry& g, int batch,
                     const Conv2dOperands<Number>& at, Number* to) {
  detail::run_by_definition(executor, pass, g, batch, at, to);
}

template <class Executor, class Number>
bool run_fused_convolution(Executor& executor, const Conv2dGeometry& g, int batch, const Number* input,
                           const Number* weight, const RegionEpilogue& region) {
  for_each(executor, batch * g.result_size(),
           detail::FusedConvolutionElement<Number>{
               {g, batch, {input, weight, nullptr}, nullptr}, *region.form, *region.arguments});
  return true;
}

/// A pass by the kernels that serve for it. What a program does not need is not compiled.
template <Conv2dPass pass, class Executor, class Geometry, class Number>
void run_conv2d_pass(Executor& executor, const Geometry& geometry, int batch, const Conv2dOperands<Number>& at,
                     Number* to) {
  const Conv2dGeometry g = geometry;
  if constexpr (may_have_few_channels<pass, Geometry>)
    if (few_channels(g, pass)) return run_few_channels<pass>(executor, g, batch, at, to);
  run_convolution(executor, pass, g, batch, at, to);
}

template <class Executor>
constexpr long scratch_conv2d(const Executor*, const Conv2dGeometry&) {
  return 0;
}
template <class Executor>
constexpr long scratch_conv2d_input_gradient(const Executor*, const Conv2dGeometry&) {
  return 0;
}
template <class Executor>
constexpr long scratch_conv2d_weight_gradient(const Executor*, const Conv2dGeometry&) {
  return 0;
}

/// result[n, o, i, j] = sum over c, u, v of weight[o, c, u, v] * input[n, c, i * stride + u - padding, j * stride + v -
/// padding], all of them with their channels last. Number: float, or bfloat16, which tensor cores multiply; the sum is
/// a float, and rounded once.
template <class Executor, class Geometry, class Number>
void run_conv2d(Executor& executor, ChannelsLast, const Geometry& geometry, int batch, const Number* input,
                const Number* weight, Number* result, Epilogue epilogue = {}) {
  const Conv2dGeometry g = geometry;
  const RegionEpilogue* const region = RegionEpilogue::of(epilogue);
  if (region != nullptr && region->form != nullptr && *region->form &&
      run_fused_convolution(executor, g, batch, input, weight, *region))
    return;
  run_conv2d_pass<Conv2dPass::result>(executor, geometry, batch, Conv2dOperands<Number>{input, weight, nullptr},
                                      result);
  epilogue(0, batch * g.result_size());
}

/// The gradient of `run_conv2d` by its input.
template <class Executor, class Geometry, class Number>
void run_conv2d_input_gradient(Executor& executor, ChannelsLast, const Geometry& geometry, int batch,
                               const Number* gradient_of_result, const Number* weight, Number* input_gradient,
                               Epilogue epilogue = {}) {
  run_conv2d_pass<Conv2dPass::input_gradient>(
      executor, geometry, batch, Conv2dOperands<Number>{nullptr, weight, gradient_of_result}, input_gradient);
  epilogue(0, batch * Conv2dGeometry(geometry).input_size());
}

/// The gradient of `run_conv2d` by its weight, summed over the batch.
template <class Executor, class Geometry, class Number>
void run_conv2d_weight_gradient(Executor& executor, ChannelsLast, const Geometry& geometry, int batch,
                                const Number* input, const Number* gradient_of_result, Number* weight_gradient) {
  run_conv2d_pass<Conv2dPass::weight_gradient>(
      executor, geometry, batch, Conv2dOperands<Number>{input, nullptr, gradient_of_result}, weight_gradient);
}

}  // namespace tenet::gpu
