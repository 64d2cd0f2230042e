#include "agreement.hpp"
#include "tenet/cuda.hpp"
#include "tenet/device/cuda/conv2d.hpp"
#include "tenet/device/cuda_on_host.hpp"
#include "tenet/device/reference/conv2d.hpp"
#include "tenet/tenet.hpp"

namespace {

using image_order::channels_last;

struct Numbers {
  std::vector<float> first, last;  ///< with channels first and last

  Numbers(std::vector<float> numbers, long channels, long positions)
      : first(std::move(numbers)), last(channels_last(first, channels, positions)) {}
};

/// One pass agrees with the reference's, in floats and in bfloat16: run(executor, order…, x, w, to), where `order` is
/// empty for the reference, whose channels come first.
template <class Run>
void check_pass(const Numbers& a, const Numbers& b, long size, long channels, long positions, double tolerance,
                Run run) {
  const auto by = [&](auto& place, const auto* x, const auto* y, auto* to) {
    if constexpr (std::remove_reference_t<decltype(place)>::is_reference) {
      std::vector<float> result(static_cast<std::size_t>(size));
      run(place.executor, x, y, result.data());
      result = channels_last(result, channels, positions);
      std::copy(result.begin(), result.end(), to);
    } else {
      run(place.executor, x, y, to, tenet::ChannelsLast{});
    }
  };
  const auto of = [](auto& place, const Numbers& numbers) -> const std::vector<float>& {
    return std::remove_reference_t<decltype(place)>::is_reference ? numbers.first : numbers.last;
  };
  check_agreement(size, tolerance,
                  [&](auto& place, float* to) { by(place, place.in(of(place, a)), place.in(of(place, b)), to); });
  constexpr double rounding = 1.01 / 256;  // of results with 8 binary digits
  check_agreement(size, rounding, [&](auto& place, float* to) {
    place.widen(size, to,
                [&](auto* result) { by(place, place.rounded(of(place, a)), place.rounded(of(place, b)), result); });
  });
}

/// What a pass gives, in floats, and what it leaves behind that, where all tensors lie at `offset` floats behind a
/// multiple of 16 bytes.
template <class Executor>
std::vector<float> result_of(Executor& executor, tenet::gpu::Conv2dPass pass, const tenet::Conv2dGeometry& g, int batch,
                             int offset) {
  using enum tenet::gpu::Conv2dPass;
  Place<Executor> place(executor);
  const long written = pass == result           ? batch * g.result_size()
                       : pass == input_gradient ? batch * g.input_size()
                                                : g.weight_size();
  const auto keep = [&](std::vector<float> numbers) {
    numbers.insert(numbers.begin(), static_cast<std::size_t>(offset), 0.0f);
    return place.keep(std::move(numbers)) + offset;
  };
  const tenet::gpu::Conv2dOperands<float> at{keep(random_floats(batch * g.input_size(), 1)),
                                             keep(random_floats(g.weight_size(), 2)),
                                             keep(random_floats(batch * g.result_size(), 3))};
  std::vector<float> results(static_cast<std::size_t>(written + 64), unwritten);
  float* const to = const_cast<float*>(keep(results));
  run_convolution(executor, pass, g, batch, at, to);
  executor.copy_out(results.data(), to, static_cast<long>(results.size()) * 4);
  executor.synchronize();
  return results;
}

}  // namespace

TEST_CASE("convolutions and their gradients agree with the reference", "[cuda][conv2d]") {
  for (const tenet::Conv2dGeometry& g : {tenet::Conv2dGeometry{1, 28, 28, 6, 5, 5, 1, 2},
                                         {3, 9, 7, 4, 3, 3, 1, 1},
                                         {5, 8, 8, 33, 3, 3, 2, 1},
                                         {7, 10, 6, 4, 1, 1, 2, 0},
                                         {4, 5, 5, 2, 5, 5, 1, 0},
                                         {2, 7, 9, 3, 3, 2, 3, 2},
                                         {8, 6, 7, 16, 3, 3, 1, 1},
                                         {16, 6, 6, 8, 1, 1, 2, 0}})
    for (const int batch : {1, 5}) {
      CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.stride, g.padding, batch);
      const long inputs = long{1} * g.height * g.width, taps = long{1} * g.kernel_height * g.kernel_width;
      const Numbers input(random_floats(batch * g.input_size(), 1), g.channels, inputs),
          weight(random_floats(g.weight_size(), 2), g.channels, taps),
          gradient(random_floats(batch * g.result_size(), 3), g.out_channels, g.positions());
      check_pass(input, weight, batch * g.result_size(), g.out_channels, g.positions(), 1e-5,
                 [&](auto& executor, const auto* x, const auto* w, auto* y, auto... order) {
                   run_conv2d(executor, order..., g, batch, x, w, y);
                 });
      check_pass(gradient, weight, batch * g.input_size(), g.channels, inputs, 1e-5,
                 [&](auto& executor, const auto* dy, const auto* w, auto* dx, auto... order) {
                   run_conv2d_input_gradient(executor, order..., g, batch, dy, w, dx);
                 });
      check_pass(input, gradient, g.weight_size(), g.channels, taps, 2e-5,
                 [&](auto& executor, const auto* x, const auto* dy, auto* dw, auto... order) {
                   run_conv2d_weight_gradient(executor, order..., g, batch, x, dy, dw);
                 });
    }
}

TEST_CASE("a policy has a GPU's convolutions measured", "[cuda][conv2d]") {
  using namespace tenet;
  using Input = Image<3, 8, 8>;
  using Measured = Policies<Input, Cuda<>, CudnnBenchmark, BFloat16>::Kernels;
  using Fused = Policies<Input, Cuda<>, FusedConvolution, CudnnBenchmark, TensorFloat32>::Kernels;
  static_assert(!Policies<Input, Cuda<>, TensorFloat32>::Kernels::measures_convolutions);
  static_assert(Measured::measures_convolutions && !Measured::uses_tensor_float32 && !Measured::fuses_convolutions);
  static_assert(Fused::measures_convolutions && Fused::uses_tensor_float32 && Fused::fuses_convolutions);
  static_assert(Policies<Input, CudaOnHost<>, CudnnBenchmark>::Kernels::measures_convolutions);
  static_assert(std::is_same_v<Policies<Input, CudnnBenchmark>::Kernels, CpuKernels>);
  static_assert(std::is_same_v<Policies<Input, FusedConvolution, CudnnBenchmark>::Kernels, CpuKernels>);
  CHECK(make_executor<CudaOnHost<>, Policies<Input, CudaOnHost<>, CudnnBenchmark>::Kernels>() != nullptr);
  if (gpu::device_count() == 0) return;
  const auto executor = make_executor<Cuda<>, Measured>();
  CHECK(executor->measures_convolutions());
  CHECK(executor->lane(1).measures_convolutions());
  CHECK(!make_executor<Cuda<>>()->measures_convolutions());
}

TEST_CASE("convolutions that are measured, and those of numbers anywhere, give what others do", "[cuda][conv2d]") {
  using enum tenet::gpu::Conv2dPass;
  constexpr tenet::Conv2dGeometry wide{16, 9, 8, 24, 3, 3, 2, 1}, odd{3, 9, 7, 5, 3, 2, 1, 1};
  tenet::gpu::SerialHost host;
  const auto check = [&](auto& executor) {
    for (const tenet::Conv2dGeometry& g : {wide, odd})
      for (const auto pass : {result, input_gradient, weight_gradient})
        for (const int offset : {0, 1, 2}) {
          CAPTURE(g.channels, static_cast<int>(pass), offset);
          std::vector<float> expected = result_of(host, pass, g, 4, 0);
          expected.resize(expected.size() - 64);
          check_results(expected, result_of(executor, pass, g, 4, offset), result_of(executor, pass, g, 4, offset),
                        2e-5);
        }
  };
  check(the<tenet::gpu::ParallelHost>());
  if (tenet::gpu::device_count() == 0) return;
  check(the<tenet::gpu::Stream>(0));
  tenet::gpu::Stream measuring(0, false, true);
  check(measuring);
}
