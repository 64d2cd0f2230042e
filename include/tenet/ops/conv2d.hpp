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

/// dx of a convolution with input type Input: the upstream spread back through the weights.
template <class Input, int Stride, int Padding>
struct Conv2dInputGradient : KernelOperation {
  static constexpr const char* name = "conv2d_input_gradient";
  static constexpr bool carries_epilogue = true;
  static constexpr Input result(auto, auto) { return {}; }
  template <class Weight>
  static constexpr auto geometry = conv2d_geometry<Stride, Padding>(Input::info, Weight::info);
  template <class Weight>
  static constexpr Cost flops(auto, auto, Weight) {
    return conv2d_flops(geometry<Weight>);
  }
  template <class Weight>
  static constexpr long scratch(const auto* executor, auto, Weight) {
    return scratch_conv2d_input_gradient(executor, Known<geometry<Weight>>{});
  }
  template <class Weight>
  static void run(auto& executor, const auto& arguments, auto, Weight) {
    run_conv2d_input_gradient(executor, Known<geometry<Weight>>{}, arguments.batch,
                              arguments.template operand<float>(0), arguments.template operand<float>(1),
                              arguments.template result<float>(), arguments.epilogue);
  }
};

/// dw of a convolution with weight type Weight, summed over the batch.
template <class Weight, int Stride, int Padding>
struct Conv2dWeightGradient : KernelOperation {
  static constexpr const char* name = "conv2d_weight_gradient";
  static constexpr Weight result(auto, auto) { return {}; }
  template <class Input>
  static constexpr auto geometry = conv2d_geometry<Stride, Padding>(Input::info, Weight::info);
  template <class Input>
  static constexpr Cost flops(auto, Input, auto) {
    return conv2d_flops(geometry<Input>);
  }
  template <class Input>
  static constexpr long scratch(const auto* executor, Input, auto) {
    return scratch_conv2d_weight_gradient(executor, Known<geometry<Input>>{});
  }
  template <class Input>
  static void run(auto& executor, const auto& arguments, Input, auto) {
    run_conv2d_weight_gradient(executor, Known<geometry<Input>>{}, arguments.batch,
                               arguments.template operand<float>(0), arguments.template operand<float>(1),
                               arguments.template result<float>());
  }
};

template <int Stride, int Padding>
struct Conv2d : KernelOperation {
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
  template <class Input, class Weight>
  static constexpr long scratch(const auto* executor, Input, Weight) {
    return scratch_conv2d(executor, Known<geometry<Input, Weight>>{});
  }
  template <class Input, class Weight>
  static void run(auto& executor, const auto& arguments, Input, Weight) {
    run_conv2d(executor, Known<geometry<Input, Weight>>{}, arguments.batch, arguments.template operand<float>(0),
               arguments.template operand<float>(1), arguments.template result<float>(), arguments.epilogue);
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
  return apply<ops::Conv2d<Stride, Padding>>(input, weight);
}

}  // namespace tenet
