#pragma once

#include <tenet/core/geometry.hpp>
#include <tenet/ops/instance.hpp>

/// Two-dimensional convolution (cross-correlation, as the field has it) without bias: the bias is a broadcasted sum.
namespace tenet {
namespace ops {

template <int Stride, int Padding>
constexpr Conv2dGeometry conv2d_geometry(const TensorInfo& input, const TensorInfo& weight) {
  return {input.extents[0],  input.extents[1],  input.extents[2], weight.extents[0],
          weight.extents[2], weight.extents[3], Stride,           Padding};
}

constexpr Cost conv2d_flops(const Conv2dGeometry& g) { return {2 * g.result_size() * g.taps(), 0}; }

/// Whether a device convolves such numbers to such, in the order of types or in another (Order).
template <class Number, class Result, class Executor, Conv2dGeometry g, class... Order>
inline constexpr bool convolves = requires(Executor& executor, const Number* factor, Result* result) {
  run_conv2d(executor, Order{}..., Known<g>{}, 1, factor, factor, result);
};

/// Base of convolutions and their gradients: in mixed precision they read, and perhaps write, bfloat16, and channels
/// come last, where the device has kernels for that.
struct ConvolutionOperation : KernelOperation {
  template <class Executor, class Arguments, Conv2dGeometry g, class Number, class Result>
  static constexpr bool find(KernelNumbers& numbers) {
    numbers = {dtype_in_memory<Number>, dtype_in_memory<Result>, Turned::nothing};
    if constexpr (may_turn<Arguments>) {
      if constexpr (convolves<Number, Result, Executor, g, ChannelsLast>)
        numbers.turned = Turned::images_and_weights;
      else if constexpr (convolves<Number, Result, Executor, g, ImagesChannelsLast>)
        numbers.turned = Turned::images;
      else if constexpr (!in_mixed_precision<Arguments> && convolves<Number, Result, Executor, g, SamplesLast>)
        numbers.turned = Turned::samples;
    }
    return numbers.turned != Turned::nothing || convolves<Number, Result, Executor, g>;
  }
  template <class Executor, class Arguments, Conv2dGeometry g>
  static constexpr KernelNumbers numbers_for() {
    KernelNumbers numbers;
    if constexpr (in_mixed_precision<Arguments>)
      if (find<Executor, Arguments, g, bfloat16, bfloat16>(numbers) ||
          find<Executor, Arguments, g, bfloat16, float>(numbers))
        return numbers;
    find<Executor, Arguments, g, float, float>(numbers);
    return numbers;
  }
  /// How much memory the device's kernel for such numbers asks for: of(shape), or of(order, shape, number).
  template <class Executor, class Arguments, Conv2dGeometry g, class Of>
  static constexpr long floats_of_kernel(const Of& of) {
    constexpr KernelNumbers numbers = numbers_for<Executor, Arguments, g>();
    if constexpr (numbers.turned == Turned::images || numbers.turned == Turned::samples)
      return in_order<numbers.turned>([&](auto order) { return of(order, Known<g>{}, NumberOf<numbers.operands>{}); });
    else
      return of(Known<g>{});
  }
};

/// dx of a convolution with input type Input: the upstream spread back through the weights.
template <class Input, int Stride, int Padding>
struct Conv2dInputGradient : ConvolutionOperation {
  static constexpr const char* name = "conv2d_input_gradient";
  static constexpr bool carries_epilogue = true;
  static constexpr Input result(auto, auto) { return {}; }
  template <class Weight>
  static constexpr auto geometry = conv2d_geometry<Stride, Padding>(Input::info, Weight::info);
  template <class Weight>
  static constexpr Cost flops(auto, auto, Weight) {
    return conv2d_flops(geometry<Weight>);
  }
  template <class Executor, class Arguments, class Weight>
  static constexpr KernelNumbers numbers(auto, Weight) {
    return numbers_for<Executor, Arguments, geometry<Weight>>();
  }
  template <class Arguments, class Executor, class Weight>
  static constexpr long scratch(const Executor* executor, auto, Weight) {
    return floats_of_kernel<Executor, Arguments, geometry<Weight>>(
        [&](auto... shape) { return scratch_conv2d_input_gradient(executor, shape...); });
  }
  template <class Arguments, class Executor, class Weight>
  static long workspace(const Executor* executor, long batch, auto, Weight) {
    return floats_of_kernel<Executor, Arguments, geometry<Weight>>(
        [&](auto... shape) { return workspace_conv2d_input_gradient(executor, shape..., batch); });
  }
  template <class Weight, class Executor, class Arguments>
  static void run(Executor& executor, const Arguments& arguments, auto, Weight) {
    constexpr Known<geometry<Weight>> g{};
    constexpr KernelNumbers numbers = numbers_for<Executor, Arguments, geometry<Weight>>();
    using Number = NumberOf<numbers.operands>;
    const Number* const upstream = arguments.template operand<Number>(0);
    const Number* const weight = arguments.template operand<Number>(1);
    auto* const result = arguments.template result<NumberOf<numbers.result>>();
    if constexpr (batch_is_known<Arguments>)
      run_conv2d_input_gradient_one_sample(executor, g, upstream, weight, result);
    else
      in_order<numbers.turned>([&](auto... order) {
        run_conv2d_input_gradient(executor, order..., g, arguments.batch, upstream, weight, result, arguments.epilogue);
      });
  }
};

/// dw of a convolution with weight type Weight, summed over the batch.
template <class Weight, int Stride, int Padding>
struct Conv2dWeightGradient : ConvolutionOperation {
  static constexpr const char* name = "conv2d_weight_gradient";
  static constexpr Weight result(auto, auto) { return {}; }
  template <class Input>
  static constexpr auto geometry = conv2d_geometry<Stride, Padding>(Input::info, Weight::info);
  template <class Input>
  static constexpr Cost flops(auto, Input, auto) {
    return conv2d_flops(geometry<Input>);
  }
  template <class Executor, class Arguments, class Input>
  static constexpr KernelNumbers numbers(Input, auto) {
    return numbers_for<Executor, Arguments, geometry<Input>>();
  }
  template <class Arguments, class Executor, class Input>
  static constexpr long scratch(const Executor* executor, Input, auto) {
    return floats_of_kernel<Executor, Arguments, geometry<Input>>(
        [&](auto... shape) { return scratch_conv2d_weight_gradient(executor, shape...); });
  }
  template <class Arguments, class Executor, class Input>
  static long workspace(const Executor* executor, long batch, Input, auto) {
    return floats_of_kernel<Executor, Arguments, geometry<Input>>(
        [&](auto... shape) { return workspace_conv2d_weight_gradient(executor, shape..., batch); });
  }
  template <class Input, class Executor, class Arguments>
  static void run(Executor& executor, const Arguments& arguments, Input, auto) {
    constexpr Known<geometry<Input>> g{};
    constexpr KernelNumbers numbers = numbers_for<Executor, Arguments, geometry<Input>>();
    using Number = NumberOf<numbers.operands>;
    const Number* const input = arguments.template operand<Number>(0);
    const Number* const upstream = arguments.template operand<Number>(1);
    auto* const result = arguments.template result<NumberOf<numbers.result>>();
    if constexpr (batch_is_known<Arguments>)
      run_conv2d_weight_gradient_one_sample(executor, g, input, upstream, result);
    else
      in_order<numbers.turned>([&](auto... order) {
        run_conv2d_weight_gradient(executor, order..., g, arguments.batch, input, upstream, result);
      });
  }
};

/// Whether a device prepares the weights of a convolution that is run again and again as bfloat16: in mixed precision,
/// where it multiplies such, of images in the order that it wants.
template <class Device, Conv2dGeometry g>
inline constexpr bool prepares_bfloat16 =
    in_mixed_precision<typename Device::Arguments> && may_turn<typename Device::Arguments> &&
    requires(const typename Device::Executor* executor) { prepared_conv2d_weight(executor, Known<g>{}, bfloat16{}); };
template <class Device, Conv2dGeometry g>
using PreparedNumber = std::conditional_t<prepares_bfloat16<Device, g>, bfloat16, float>;

/// Floats of the form in which it wants them; 0: as they are.
template <class Context, Conv2dGeometry g>
constexpr long prepared_weight_floats() {
  if constexpr (!Context::differentiable && !Context::holds_values) {
    using Executor = typename Context::Device::Executor;
    if constexpr (requires(const Executor* executor) { prepared_conv2d_weight(executor, Known<g>{}, 0.0f); })
      return prepared_conv2d_weight(static_cast<const Executor*>(nullptr), Known<g>{},
                                    PreparedNumber<typename Context::Device, g>{});
  }
  return 0;
}

/// The weights in the device's form: a step that a program for inference runs once.
template <Conv2dGeometry g, class Number, int Floats>
struct PrepareConv2dWeight : KernelOperation {
  static constexpr const char* name = "prepare_conv2d_weight";
  static constexpr auto result(auto) { return Fixed<Floats>{}; }
  static void run(auto& executor, const auto& arguments, auto) {
    run_prepare_conv2d_weight(executor, Known<g>{}, Number{}, arguments.template operand<float>(0),
                              arguments.template result<float>());
  }
};

/// Of input, weight, and the latter prepared as numbers of type Number.
template <Conv2dGeometry g, class Number>
struct PreparedConv2d : KernelOperation {
  static constexpr const char* name = "conv2d";
  static constexpr bool carries_epilogue = true;
  static constexpr auto result(auto, auto, auto) { return Batched<g.out_channels, g.out_height(), g.out_width()>{}; }
  static constexpr Cost flops(auto, auto, auto, auto) { return conv2d_flops(g); }
  static constexpr long scratch(const auto* executor, auto, auto, auto) {
    return scratch_prepared_conv2d(executor, Known<g>{}, Number{});
  }
  template <class Executor, class Arguments>
  static constexpr KernelNumbers numbers(auto...) {
    if constexpr (!may_turn<Arguments>)
      return {};
    else if constexpr (serves<Executor, Number>)
      return {dtype_in_memory<Number>, DType::float32, Turned::images, 1};  // of the operands the image
    else
      return {DType::float32, DType::float32, serves<Executor, float> ? Turned::images : Turned::nothing};
  }
  template <class Arguments, class Executor>
  static long workspace(const Executor* executor, long batch, auto, auto, auto) {
    return in_order<numbers<Executor, Arguments>().turned>(
        [&](auto... order) { return workspace_prepared_conv2d(executor, order..., Known<g>{}, Number{}, batch); });
  }
  template <class Executor, class Arguments>
  static void run(Executor& executor, const Arguments& arguments, auto, auto, auto) {
    constexpr KernelNumbers numbers = PreparedConv2d::numbers<Executor, Arguments>();
    in_order<numbers.turned>([&](auto... order) {
      run_prepared_conv2d(executor, order..., Known<g>{}, Number{}, arguments.batch,
                          arguments.template operand<NumberOf<numbers.operands>>(0),
                          arguments.template operand<float>(2), arguments.template result<float>(), arguments.epilogue);
    });
  }

 private:
  /// Whether images with their channels last may be such numbers.
  template <class Executor, class Image>
  static constexpr bool serves =
      requires(Executor& executor, const Image* image, const float* prepared, float* result) {
        run_prepared_conv2d(executor, ImagesChannelsLast{}, Known<g>{}, Number{}, 1, image, prepared, result);
      };
};

template <int Stride, int Padding>
struct Conv2d : ConvolutionOperation {
  static constexpr const char* name = "conv2d";
  static constexpr bool carries_epilogue = true;
  template <class Input, class Weight>
  static constexpr auto geometry = conv2d_geometry<Stride, Padding>(Input::info, Weight::info);
  template <class Input, class Weight>
  static constexpr auto result(Input, Weight) {
    constexpr auto g = geometry<Input, Weight>;
    return Batched<g.out_channels, g.out_height(), g.out_width()>{};
  }
  template <class Input, class Weight>
  static constexpr Cost flops(auto, Input, Weight) {
    return conv2d_flops(geometry<Input, Weight>);
  }
  template <class Executor, class Arguments, class Input, class Weight>
  static constexpr KernelNumbers numbers(Input, Weight) {
    return numbers_for<Executor, Arguments, geometry<Input, Weight>>();
  }
  template <class Arguments, class Executor, class Input, class Weight>
  static constexpr long scratch(const Executor* executor, Input, Weight) {
    constexpr Known<geometry<Input, Weight>> g{};
    const long any =
        floats_of_kernel<Executor, Arguments, g>([&](auto... shape) { return scratch_conv2d(executor, shape...); });
    if constexpr (requires { scratch_conv2d_one_sample(executor, g); }) {
      const long one = scratch_conv2d_one_sample(executor, g);
      return one > any ? one : any;
    }
    return any;
  }
  template <class Arguments, class Executor, class Input, class Weight>
  static long workspace(const Executor* executor, long batch, Input, Weight) {
    return floats_of_kernel<Executor, Arguments, geometry<Input, Weight>>(
        [&](auto... shape) { return workspace_conv2d(executor, shape..., batch); });
  }
  template <class Input, class Weight, class Executor, class Arguments>
  static void run(Executor& executor, const Arguments& arguments, Input, Weight) {
    constexpr Known<geometry<Input, Weight>> g{};
    constexpr KernelNumbers numbers = numbers_for<Executor, Arguments, geometry<Input, Weight>>();
    using Number = NumberOf<numbers.operands>;
    const Number* const input = arguments.template operand<Number>(0);
    const Number* const weight = arguments.template operand<Number>(1);
    auto* const result = arguments.template result<NumberOf<numbers.result>>();
    if constexpr (batch_is_known<Arguments>)
      run_conv2d_one_sample(executor, g, input, weight, result);
    else
      in_order<numbers.turned>([&](auto... order) {
        run_conv2d(executor, order..., g, arguments.batch, input, weight, result, arguments.epilogue);
      });
  }
  template <class Input, class Weight>
  static constexpr auto gradient(auto, auto upstream, Input input, Weight weight) {
    return gradients(
        [=] { return apply<Conv2dInputGradient<typename Input::Type, Stride, Padding>>(upstream, weight); },
        [=] { return apply<Conv2dWeightGradient<typename Weight::Type, Stride, Padding>>(input, upstream); });
  }
};

}  // namespace ops

/// (batch, channels, height, width), weight (out, channels, kernel, kernel) -> (batch, out, out height, out width) with
/// out height = (height + 2·Padding - kernel) / Stride + 1.
template <int Stride = 1, int Padding = 0, class Context, class Input, class Weight>
constexpr auto conv2d(Symbol<Context, Input> input, Symbol<Context, Weight> weight) {
  static_assert(Input::rank == 3 && Input::batched, "conv2d: the input is (batch, channels, height, width)");
  static_assert(Weight::rank == 4 && !Weight::batched, "conv2d: the weight is (out, channels, kernel, kernel)");
  static_assert(Input::info.extents[0] == Weight::info.extents[1], "conv2d: input and weight differ in channels");
  constexpr Conv2dGeometry g = ops::conv2d_geometry<Stride, Padding>(Input::info, Weight::info);
  constexpr long prepared = ops::prepared_weight_floats<Context, g>();
  using Number = ops::PreparedNumber<typename Context::Device, g>;
  if constexpr (prepared > 0)
    return apply<ops::PreparedConv2d<g, Number>>(
        input, weight, apply<ops::PrepareConv2dWeight<g, Number, static_cast<int>(prepared)>>(weight));
  else
    return apply<ops::Conv2d<Stride, Padding>>(input, weight);
}

}  // namespace tenet
