#pragma once

#include <cudnn.h>

#include <array>
#include <string>
#include <tenet/core/bfloat16.hpp>
#include <tenet/core/geometry.hpp>
#include <tenet/device/cuda/fused_conv2d.hpp>
#include <tenet/device/cuda/plans.hpp>
#include <tenet/device/cuda/stream.hpp>
#include <tenet/device/cuda/team.hpp>
#include <tenet/device/epilogue.hpp>
#include <type_traits>

/// Convolutions: cuDNN's on a GPU, with channels last, as tensor cores want them.
namespace tenet::gpu {

/// Which of a convolution's three kernels: the result, or the gradient by input or weight.
enum class Conv2dPass : int { result, input_gradient, weight_gradient };

/// The operands of one convolution: of each pass one is written, the other two are read. Number: float or bfloat16.
template <class Number>
struct Conv2dOperands {
  const Number *input, *weight, *result;
};

/// cuDNN's convolutions; each is planned when it is met first: the quickest algorithm, by the library's estimate, of
/// those that need no more than the stream's workspace and give the same bits each time.
class Convolutions {
 public:
  explicit Convolutions(const Stream& stream) : tensor_float32_(stream.tensor_float32()) {
    check(cudnnCreate(&handle_), "starting cuDNN");
  }
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;
  ~Convolutions() {
    plans_.clear();
    cudnnDestroy(handle_);
  }

  template <class Number>
  void run(Stream& stream, Conv2dPass pass, const Conv2dGeometry& g, int batch, const Conv2dOperands<Number>& at,
           Number* to) {
    check(cudnnSetStream(handle_, stream.get()), "choosing cuDNN's stream");
    const Plan& p = planned(std::is_same_v<Number, bfloat16> ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT, pass, g, batch);
    const float one = 1, zero = 0;
    void* const workspace = stream.workspace();
    const auto room = static_cast<std::size_t>(Stream::workspace_bytes);
    if (pass == Conv2dPass::result)
      check(cudnnConvolutionForward(handle_, &one, p.input, at.input, p.weight, at.weight, p.convolution,
                                    static_cast<cudnnConvolutionFwdAlgo_t>(p.algorithm), workspace, room, &zero,
                                    p.result, to),
            "starting a convolution");
    else if (pass == Conv2dPass::input_gradient)
      check(cudnnConvolutionBackwardData(handle_, &one, p.weight, at.weight, p.result, at.result, p.convolution,
                                         static_cast<cudnnConvolutionBwdDataAlgo_t>(p.algorithm), workspace, room,
                                         &zero, p.input, to),
            "starting a convolution's gradient by its input");
    else
      check(cudnnConvolutionBackwardFilter(handle_, &one, p.input, at.input, p.result, at.result, p.convolution,
                                           static_cast<cudnnConvolutionBwdFilterAlgo_t>(p.algorithm), workspace, room,
                                           &zero, p.weight, to),
            "starting a convolution's gradient by its weight");
  }

 private:
  struct Plan {
    cudnnTensorDescriptor_t input = nullptr, result = nullptr;
    cudnnFilterDescriptor_t weight = nullptr;
    cudnnConvolutionDescriptor_t convolution = nullptr;
    int algorithm = -1;

    Plan() = default;
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    ~Plan() {
      if (input != nullptr) cudnnDestroyTensorDescriptor(input);
      if (result != nullptr) cudnnDestroyTensorDescriptor(result);
      if (weight != nullptr) cudnnDestroyFilterDescriptor(weight);
      if (convolution != nullptr) cudnnDestroyConvolutionDescriptor(convolution);
    }
  };
  using Key = std::array<int, 11>;

  const Plan& planned(cudnnDataType_t number, Conv2dPass pass, const Conv2dGeometry& g, int batch) {
    const Key key{number,         static_cast<int>(pass), batch,          g.channels, g.height, g.width,
                  g.out_channels, g.kernel_height,        g.kernel_width, g.stride,   g.padding};
    return plans_.get(key, [&](Plan& made) { plan(number, pass, g, batch, made); });
  }

  void plan(cudnnDataType_t number, Conv2dPass pass, const Conv2dGeometry& g, int batch, Plan& p) {
    const char* const what = "describing a convolution";
    check(cudnnCreateTensorDescriptor(&p.input), what);
    check(cudnnCreateTensorDescriptor(&p.result), what);
    check(cudnnCreateFilterDescriptor(&p.weight), what);
    check(cudnnCreateConvolutionDescriptor(&p.convolution), what);
    check(cudnnSetTensor4dDescriptor(p.input, CUDNN_TENSOR_NHWC, number, batch, g.channels, g.height, g.width), what);
    check(cudnnSetTensor4dDescriptor(p.result, CUDNN_TENSOR_NHWC, number, batch, g.out_channels, g.out_height(),
                                     g.out_width()),
          what);
    check(cudnnSetFilter4dDescriptor(p.weight, number, CUDNN_TENSOR_NHWC, g.out_channels, g.channels, g.kernel_height,
                                     g.kernel_width),
          what);
    check(cudnnSetConvolution2dDescriptor(p.convolution, g.padding, g.padding, g.stride, g.stride, 1, 1,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          what);
    // The default rounds floats to TF32, the second multiplies bfloat16 on tensor cores; sums are floats in any case.
    const cudnnMathType_t math = number == CUDNN_DATA_BFLOAT16 ? CUDNN_TENSOR_OP_MATH
                                 : tensor_float32_             ? CUDNN_DEFAULT_MATH
                                                               : CUDNN_FMA_MATH;
    check(cudnnSetConvolutionMathType(p.convolution, math), what);

    const char* const choosing = "choosing a convolution's algorithm";
    constexpr int most = 16;
    int count = 0;
    if (pass == Conv2dPass::result) {
      cudnnConvolutionFwdAlgoPerf_t found[most];
      check(cudnnGetConvolutionForwardAlgorithm_v7(handle_, p.input, p.weight, p.convolution, p.result, most, &count,
                                                   found),
            choosing);
      choose_first_that_fits(found, count, math, p);
    } else if (pass == Conv2dPass::input_gradient) {
      cudnnConvolutionBwdDataAlgoPerf_t found[most];
      check(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle_, p.weight, p.result, p.convolution, p.input, most,
                                                        &count, found),
            choosing);
      choose_first_that_fits(found, count, math, p);
    } else {
      cudnnConvolutionBwdFilterAlgoPerf_t found[most];
      check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle_, p.input, p.result, p.convolution, p.weight, most,
                                                          &count, found),
            choosing);
      choose_first_that_fits(found, count, math, p);
    }
    if (p.algorithm < 0)
      fail("Cuda", "no algorithm for a convolution", "one of cuDNN's that needs at most 64 MiB",
           std::to_string(g.channels) + " x " + std::to_string(g.height) + " x " + std::to_string(g.width) + " by " +
               std::to_string(g.out_channels) + " kernels of " + std::to_string(g.kernel_height) + " x " +
               std::to_string(g.kernel_width));
  }

  /// An algorithm is for one way of multiplying, which has to be asked for with it.
  template <class Found>
  static void choose_first_that_fits(const Found* found, int count, cudnnMathType_t math, Plan& p) {
    for (const Found* each = found; each != found + count; ++each) {
      if (each->status != CUDNN_STATUS_SUCCESS || each->determinism != CUDNN_DETERMINISTIC ||
          each->memory > static_cast<std::size_t>(Stream::workspace_bytes))
        continue;
      p.algorithm = static_cast<int>(each->algo);
      if (math != CUDNN_FMA_MATH)
        check(cudnnSetConvolutionMathType(p.convolution, each->mathType), "choosing a convolution's algorithm");
      return;
    }
  }

  bool tensor_float32_;
  cudnnHandle_t handle_ = nullptr;
  Plans<Key, Plan> plans_;
};

template <class Number>
void run_convolution(Stream& stream, Conv2dPass pass, const Conv2dGeometry& g, int batch,
                     const Conv2dOperands<Number>& at, Number* to) {
  stream.library<Convolutions>().run(stream, pass, g, batch, at, to);
}

namespace detail {

/// One number of what a pass computes, by its definition: what stands for the library where there is no GPU.
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

}  // namespace detail

template <class Executor, class Number>
void run_convolution(Executor& executor, Conv2dPass pass, const Conv2dGeometry& g, int batch,
                     const Conv2dOperands<Number>& at, Number* to) {
  using enum Conv2dPass;
  if (pass == result)
    for_each(executor, batch * g.result_size(), detail::ConvolutionElement<result, Number>{g, batch, at, to});
  else if (pass == input_gradient)
    for_each(executor, batch * g.input_size(), detail::ConvolutionElement<input_gradient, Number>{g, batch, at, to});
  else
    for_each(executor, g.weight_size(), detail::ConvolutionElement<weight_gradient, Number>{g, batch, at, to});
}

template <class Executor, class Number>
bool run_fused_convolution(Executor& executor, const Conv2dGeometry& g, int batch, const Number* input,
                           const Number* weight, const RegionEpilogue& region) {
  for_each(executor, batch * g.result_size(),
           detail::FusedConvolutionElement<Number>{
               {g, batch, {input, weight, nullptr}, nullptr}, *region.form, *region.arguments});
  return true;
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
template <class Executor, class Number>
void run_conv2d(Executor& executor, ChannelsLast, const Conv2dGeometry& g, int batch, const Number* input,
                const Number* weight, Number* result, Epilogue epilogue = {}) {
  const RegionEpilogue* const region = RegionEpilogue::of(epilogue);
  if (region != nullptr && region->form != nullptr && *region->form &&
      run_fused_convolution(executor, g, batch, input, weight, *region))
    return;
  run_convolution(executor, Conv2dPass::result, g, batch, Conv2dOperands<Number>{input, weight, nullptr}, result);
  epilogue(0, batch * g.result_size());
}

/// The gradient of `run_conv2d` by its input.
template <class Executor, class Number>
void run_conv2d_input_gradient(Executor& executor, ChannelsLast, const Conv2dGeometry& g, int batch,
                               const Number* gradient_of_result, const Number* weight, Number* input_gradient,
                               Epilogue epilogue = {}) {
  run_convolution(executor, Conv2dPass::input_gradient, g, batch,
                  Conv2dOperands<Number>{nullptr, weight, gradient_of_result}, input_gradient);
  epilogue(0, batch * g.input_size());
}

/// The gradient of `run_conv2d` by its weight, summed over the batch.
template <class Executor, class Number>
void run_conv2d_weight_gradient(Executor& executor, ChannelsLast, const Conv2dGeometry& g, int batch,
                                const Number* input, const Number* gradient_of_result, Number* weight_gradient) {
  run_convolution(executor, Conv2dPass::weight_gradient, g, batch,
                  Conv2dOperands<Number>{input, nullptr, gradient_of_result}, weight_gradient);
}

}  // namespace tenet::gpu
