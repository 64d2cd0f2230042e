#pragma once

#include <tenet/core/geometry.hpp>
#include <tenet/ops/instance.hpp>
#include <tenet/ops/reduce.hpp>

/// Pooling over square windows.
namespace tenet {
namespace ops {

template <int Kernel, int Stride, int Padding>
constexpr Pool2dGeometry pool2d_geometry(const TensorInfo& input) {
  return {input.extents[0], input.extents[1], input.extents[2], Kernel, Stride, Padding};
}

/// Base of the poolings and their gradients: images have their channels or samples last where the device has kernels
/// for that.
struct PoolingOperation : KernelOperation {
  static constexpr bool carries_epilogue = true;
  template <class Executor, Pool2dGeometry g, class Order>
  static constexpr bool pools = requires(Executor& executor, const float* x, float* y) {
    run_max_pool2d(executor, Order{}, Known<g>{}, 1, x, y);
  };
  template <class Executor, class Arguments, Pool2dGeometry g>
  static constexpr KernelNumbers numbers_for() {
    KernelNumbers numbers;
    if constexpr (may_turn<Arguments>) {
      if constexpr (pools<Executor, g, ChannelsLast>)
        numbers.turned = Turned::images_and_weights;
      else if constexpr (pools<Executor, g, ImagesChannelsLast>)
        numbers.turned = Turned::images;
      else if constexpr (!in_mixed_precision<Arguments> && pools<Executor, g, SamplesLast>)
        numbers.turned = Turned::samples;
    }
    return numbers;
  }
};

/// Base of the poolings: their result and their cost.
template <int Kernel, int Stride, int Padding>
struct Pool2d : PoolingOperation {
  template <class Input>
  static constexpr auto geometry = pool2d_geometry<Kernel, Stride, Padding>(Input::info);
  template <class Input>
  static constexpr auto result(Input) {
    constexpr auto g = geometry<Input>;
    return Batched<g.channels, g.out_height(), g.out_width()>{};
  }
  template <class Executor, class Arguments, class Input>
  static constexpr KernelNumbers numbers(Input) {
    return PoolingOperation::numbers_for<Executor, Arguments, geometry<Input>>();
  }
  template <class Result>
  static constexpr Cost flops(Result, auto) {
    return {Result::size * Kernel * Kernel, 0};
  }
};

/// The upstream goes to the place of the maximum, the first one in row-major order where several are equal.
template <int Kernel, int Stride, int Padding>
struct MaxPool2dGradient : PoolingOperation {
  static constexpr const char* name = "max_pool2d_gradient";
  template <class Executor, class Arguments, class Input>
  static constexpr KernelNumbers numbers(Input, auto, auto) {
    return numbers_for<Executor, Arguments, pool2d_geometry<Kernel, Stride, Padding>(Input::info)>();
  }
  template <class Input>
  static constexpr Input result(Input, auto, auto) {
    return {};
  }
  template <class Input, class Executor, class Arguments>
  static void run(Executor& executor, const Arguments& arguments, Input, auto, auto) {
    constexpr auto geometry = pool2d_geometry<Kernel, Stride, Padding>(Input::info);
    in_order<PoolingOperation::numbers_for<Executor, Arguments, geometry>().turned>([&](auto... order) {
      run_max_pool2d_gradient(executor, order..., Known<geometry>{}, arguments.batch,
                              arguments.template operand<float>(0), arguments.template operand<float>(1),
                              arguments.template operand<float>(2), arguments.template result<float>(),
                              arguments.epilogue);
    });
  }
};

template <int Kernel, int Stride, int Padding>
struct MaxPool2d : Pool2d<Kernel, Stride, Padding> {
  static constexpr const char* name = "max_pool2d";
  template <class Input, class Executor, class Arguments>
  static void run(Executor& executor, const Arguments& arguments, Input) {
    constexpr auto geometry = pool2d_geometry<Kernel, Stride, Padding>(Input::info);
    in_order<PoolingOperation::numbers_for<Executor, Arguments, geometry>().turned>([&](auto... order) {
      run_max_pool2d(executor, order..., Known<geometry>{}, arguments.batch, arguments.template operand<float>(0),
                     arguments.template result<float>(), arguments.epilogue);
    });
  }
  static constexpr auto gradient(auto y, auto upstream, auto x) {
    return gradients([=] { return apply<MaxPool2dGradient<Kernel, Stride, Padding>>(x, y, upstream); });
  }
};

template <class Input, int Kernel, int Stride, int Padding>
struct AvgPool2dGradient : PoolingOperation {
  static constexpr const char* name = "avg_pool2d_gradient";
  template <class Executor, class Arguments>
  static constexpr KernelNumbers numbers(auto) {
    return PoolingOperation::numbers_for<Executor, Arguments, pool2d_geometry<Kernel, Stride, Padding>(Input::info)>();
  }
  static constexpr Input result(auto) { return {}; }
  template <class Executor, class Arguments>
  static void run(Executor& executor, const Arguments& arguments, auto) {
    constexpr auto geometry = pool2d_geometry<Kernel, Stride, Padding>(Input::info);
    in_order<PoolingOperation::numbers_for<Executor, Arguments, geometry>().turned>([&](auto... order) {
      run_avg_pool2d_gradient(executor, order..., Known<geometry>{}, arguments.batch,
                              arguments.template operand<float>(0), arguments.template result<float>(),
                              arguments.epilogue);
    });
  }
};

/// Padding counts as zeros in the mean, as PyTorch does by default.
template <int Kernel, int Stride, int Padding>
struct AvgPool2d : Pool2d<Kernel, Stride, Padding> {
  static constexpr const char* name = "avg_pool2d";
  template <class Input, class Executor, class Arguments>
  static void run(Executor& executor, const Arguments& arguments, Input) {
    constexpr auto geometry = pool2d_geometry<Kernel, Stride, Padding>(Input::info);
    in_order<PoolingOperation::numbers_for<Executor, Arguments, geometry>().turned>([&](auto... order) {
      run_avg_pool2d(executor, order..., Known<geometry>{}, arguments.batch, arguments.template operand<float>(0),
                     arguments.template result<float>(), arguments.epilogue);
    });
  }
  template <class Input>
  static constexpr auto gradient(auto, auto upstream, Input) {
    return gradients([=] { return apply<AvgPool2dGradient<typename Input::Type, Kernel, Stride, Padding>>(upstream); });
  }
};

}  // namespace ops

/// The maximum of every window: (batch, channels, h, w) -> (batch, channels, (h + 2·Padding - Kernel) / Stride + 1, …).
template <int Kernel, int Stride = Kernel, int Padding = 0, class Context, class Input>
constexpr auto max_pool2d(Symbol<Context, Input> x) {
  static_assert(Input::rank == 3 && Input::batched, "max_pool2d: the input is (batch, channels, height, width)");
  return apply<ops::MaxPool2d<Kernel, Stride, Padding>>(x);
}

/// The mean of every window; shapes as `max_pool2d`.
template <int Kernel, int Stride = Kernel, int Padding = 0, class Context, class Input>
constexpr auto avg_pool2d(Symbol<Context, Input> x) {
  static_assert(Input::rank == 3 && Input::batched, "avg_pool2d: the input is (batch, channels, height, width)");
  return apply<ops::AvgPool2d<Kernel, Stride, Padding>>(x);
}

/// The mean of every channel: (batch, channels, height, width) -> (batch, channels).
template <class Context, class Input>
constexpr auto global_avg_pool2d(Symbol<Context, Input> x) {
  static_assert(Input::rank == 3 && Input::batched, "global_avg_pool2d: the input is (batch, channels, height, width)");
  return mean<2, 3>(x);
}

}  // namespace tenet
