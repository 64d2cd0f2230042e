#include "agreement.hpp"
#include "tenet/device/cuda/few_channels_conv2d.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using image_order::channels_last;
using tenet::Conv2dGeometry;
using Pass = tenet::gpu::Conv2dPass;

/// Images or weights of so many channels.
struct Operand {
  std::vector<float> first, last;  ///< with channels first and last

  Operand(long count, int seed, long channels, long positions)
      : first(random_floats(count, seed)), last(channels_last(first, channels, positions)) {}
};

/// One pass by the reference, whose channels come first.
void run_reference(tenet::reference::Serial& serial, Pass pass, const Conv2dGeometry& g, int batch, const float* a,
                   const float* b, float* to) {
  if (pass == Pass::result)
    run_conv2d(serial, g, batch, a, b, to);
  else if (pass == Pass::input_gradient)
    run_conv2d_input_gradient(serial, g, batch, a, b, to);
  else
    run_conv2d_weight_gradient(serial, g, batch, a, b, to);
}

template <class Executor, class Number>
void run_few_channels_of(Executor& executor, Pass pass, const Conv2dGeometry& g, int batch,
                         const tenet::gpu::Conv2dOperands<Number>& at, Number* to) {
  if (pass == Pass::result)
    tenet::gpu::run_few_channels<Pass::result>(executor, g, batch, at, to);
  else if (pass == Pass::input_gradient)
    tenet::gpu::run_few_channels<Pass::input_gradient>(executor, g, batch, at, to);
  else
    tenet::gpu::run_few_channels<Pass::weight_gradient>(executor, g, batch, at, to);
}

template <class Number>
tenet::gpu::Conv2dOperands<Number> operands(Pass pass, const Number* a, const Number* b) {
  if (pass == Pass::result) return {a, b, nullptr};
  if (pass == Pass::input_gradient) return {nullptr, b, a};
  return {a, nullptr, b};
}

/// A pass on operands `a` and `b` of all three agrees with the reference's, in floats and in bfloat16. `shift`: how
/// many numbers behind an aligned place the first operand begins.
void check_pass(Pass pass, const Conv2dGeometry& g, int batch, const Operand& a, const Operand& b, int shift = 0) {
  const long size = pass == Pass::result           ? batch * g.result_size()
                    : pass == Pass::input_gradient ? batch * g.input_size()
                                                   : g.weight_size();
  const long channels = pass == Pass::result ? g.out_channels : g.channels;
  const long positions = pass == Pass::result           ? g.positions()
                         : pass == Pass::input_gradient ? long{1} * g.height * g.width
                                                        : long{1} * g.kernel_height * g.kernel_width;
  const auto of = [&](auto& place, const Operand& numbers, int behind) {
    std::vector<float> result(static_cast<std::size_t>(behind));
    const auto& from = std::remove_reference_t<decltype(place)>::is_reference ? numbers.first : numbers.last;
    result.insert(result.end(), from.begin(), from.end());
    return result;
  };
  const auto run = [&](auto& place, const auto* x, const auto* y, auto* to) {
    if constexpr (std::remove_reference_t<decltype(place)>::is_reference) {
      std::vector<float> result(static_cast<std::size_t>(size));
      run_reference(place.executor, pass, g, batch, x + shift, y, result.data());
      result = channels_last(result, channels, positions);
      std::copy(result.begin(), result.end(), to);
    } else {
      run_few_channels_of(place.executor, pass, g, batch, operands(pass, x + shift, y), to);
    }
  };
  check_agreement(size, 5e-5, [&](auto& place, float* to) {
    run(place, place.keep(of(place, a, shift)), place.keep(of(place, b, 0)), to);
  });
  constexpr double rounding = 1.01 / 256;  // of results with 8 binary digits
  check_agreement(size, rounding, [&](auto& place, float* to) {
    place.widen(size, to, [&](auto* result) {
      run(place, place.rounded(of(place, a, shift)), place.rounded(of(place, b, 0)), result);
    });
  });
}

void check_passes(const Conv2dGeometry& g, int batch, int shift = 0) {
  CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.kernel_width, g.stride, g.padding, batch);
  const long inputs = long{1} * g.height * g.width, taps = long{1} * g.kernel_height * g.kernel_width;
  const Operand input(batch * g.input_size(), 1, g.channels, inputs), weight(g.weight_size(), 2, g.channels, taps),
      gradient(batch * g.result_size(), 3, g.out_channels, g.positions());
  check_pass(Pass::result, g, batch, input, weight, shift);
  check_pass(Pass::input_gradient, g, batch, gradient, weight, shift);
  check_pass(Pass::weight_gradient, g, batch, input, gradient, shift);
}

constexpr Conv2dGeometry lenet_first{1, 28, 28, 6, 5, 5, 1, 2}, lenet_second{6, 14, 14, 16, 5, 5, 1, 0},
    stem{1, 28, 28, 64, 3, 3, 1, 1};

}  // namespace

TEST_CASE("convolutions of few channels agree with the reference", "[cuda][conv2d]") {
  for (const Conv2dGeometry& g : {lenet_first,
                                  lenet_second,
                                  stem,
                                  {3, 9, 7, 4, 3, 3, 1, 1},
                                  {5, 8, 8, 33, 3, 3, 2, 1},
                                  {33, 5, 6, 3, 3, 3, 1, 1},
                                  {16, 6, 5, 2, 1, 1, 1, 0},
                                  {7, 10, 6, 4, 1, 1, 2, 0},
                                  {4, 5, 5, 2, 5, 5, 1, 0},
                                  {6, 7, 9, 12, 3, 2, 3, 2},
                                  {2, 7, 11, 5, 1, 4, 2, 3}})
    for (const int batch : {1, 5}) check_passes(g, batch);
}

TEST_CASE("convolutions of few channels read what is not aligned", "[cuda][conv2d]") {
  for (const Conv2dGeometry& g : {Conv2dGeometry{6, 5, 5, 16, 3, 3, 1, 1}, {2, 6, 4, 8, 3, 3, 2, 1}})
    check_passes(g, 2, 1);
}

TEST_CASE("convolutions of no samples have no result, and gradients of zero", "[cuda][conv2d]") {
  tenet::gpu::SerialHost host;
  ::Place<tenet::gpu::SerialHost> place(host);
  std::vector<float> result(static_cast<std::size_t>(stem.weight_size()), unwritten);
  auto* const to = const_cast<float*>(place.in(result));
  for (const Pass pass : {Pass::result, Pass::input_gradient, Pass::weight_gradient})
    run_few_channels_of(host, pass, stem, 0, tenet::gpu::Conv2dOperands<float>{to, to, to}, to);
  host.copy_out(result.data(), to, 4 * stem.weight_size());
  CHECK(result == std::vector<float>(result.size(), 0.0f));
}

TEST_CASE("kernels for few channels serve where tensor cores would be no use", "[cuda][conv2d]") {
  using tenet::gpu::few_channels;
  static_assert(tenet::gpu::may_have_few_channels<Pass::result, Conv2dGeometry>);
  static_assert(tenet::gpu::may_have_few_channels<Pass::result, tenet::Known<stem>>);
  static_assert(!tenet::gpu::may_have_few_channels<Pass::input_gradient, tenet::Known<stem>>);
  for (const Pass pass : {Pass::result, Pass::input_gradient, Pass::weight_gradient}) {
    CHECK(few_channels(lenet_first, pass));
    CHECK(few_channels(lenet_second, pass));
    CHECK_FALSE(few_channels({64, 28, 28, 64, 3, 3, 1, 1}, pass));
    CHECK_FALSE(few_channels({8, 4, 4, 8, 1, 1, 1, 0}, pass));
    CHECK_FALSE(few_channels({3, 224, 224, 64, 7, 7, 2, 3}, pass));
    CHECK_FALSE(few_channels({100, 28, 28, 100, 3, 3, 1, 1}, pass));
  }
  CHECK(few_channels(stem, Pass::result));
  CHECK(few_channels(stem, Pass::weight_gradient));
  CHECK_FALSE(few_channels(stem, Pass::input_gradient));
  CHECK(few_channels({3, 32, 32, 64, 3, 3, 1, 1}, Pass::result));
  CHECK_FALSE(few_channels({2, 5, 5, 40000, 1, 1, 1, 0}, Pass::result));  // so many weights' parts have no room
}
