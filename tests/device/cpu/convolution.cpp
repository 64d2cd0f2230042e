#include "tenet/device/cpu/convolution.hpp"

#include <algorithm>

#include "../../support/convolutions.hpp"
#include "../agreement.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using tenet::Conv2dGeometry;
using tenet::Known;
using tenet::cpu::convolution_kernel;
using tenet::cpu::ConvolutionKernel;

static_assert(convolution_kernel({64, 28, 28, 64, 3, 3, 1, 1}) == ConvolutionKernel::winograd);
static_assert(convolution_kernel({64, 28, 28, 128, 3, 3, 2, 1}) == ConvolutionKernel::patches);  // stride
static_assert(convolution_kernel({1, 28, 28, 64, 3, 3, 1, 1}) == ConvolutionKernel::patches);    // one channel
static_assert(convolution_kernel({6, 14, 14, 16, 5, 5, 1, 0}) == ConvolutionKernel::few_channels);

using tenet::cpu::DirectWorkers;
static_assert(convolution_kernel<DirectWorkers>({64, 28, 28, 64, 3, 3, 1, 1}) == ConvolutionKernel::patches);
static_assert(convolution_kernel<DirectWorkers>({6, 14, 14, 16, 5, 5, 1, 0}) == ConvolutionKernel::few_channels);

// Few channels go along the lines by Winograd's algorithm where that pays, but for direct workers.
constexpr Conv2dGeometry second_of_lenet{6, 14, 14, 16, 5, 5, 1, 0}, first_of_lenet{1, 28, 28, 6, 5, 5, 1, 2};
template <class Executor, Conv2dGeometry g>
constexpr bool direct_passes =
    std::is_same_v<decltype(tenet::cpu::lane_pass<Executor, g, false>()), tenet::cpu::detail::LanePass> &&
    std::is_same_v<decltype(tenet::cpu::lane_pass<Executor, g, true>()), tenet::cpu::detail::LanePass> &&
    std::is_same_v<decltype(tenet::cpu::lane_weight_pass<Executor, g>()), tenet::cpu::detail::LaneWeightPass>;
static_assert(direct_passes<DirectWorkers, second_of_lenet> && direct_passes<tenet::cpu::Workers, first_of_lenet>);
static_assert(direct_passes<tenet::cpu::Workers, second_of_lenet> == (tenet::vector_width != tenet::sample_lanes));

using tenet::cpu::batch_pays;
constexpr Conv2dGeometry small{512, 4, 4, 512, 3, 3, 1, 1};
static_assert(!batch_pays(small, 1) && batch_pays(small, 2));

/// Calls check(size, tolerance, run) for all three passes by the kernels that are chosen for a shape.
template <Conv2dGeometry g, class Check>
void for_each_pass(int batch, Check check) {
  const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
  const auto upstream = random_floats(batch * g.result_size(), 3);
  const double tolerance = 1e-6 * std::sqrt(static_cast<double>(g.taps())) + 1e-5;
  check(batch * g.result_size(), tolerance,
        [&](auto& executor, float* to) { run_conv2d(executor, Known<g>{}, batch, input.data(), weight.data(), to); });
  check(batch * g.input_size(), tolerance, [&](auto& executor, float* to) {
    run_conv2d_input_gradient(executor, Known<g>{}, batch, upstream.data(), weight.data(), to);
  });
  check(g.weight_size(), 1e-5 + 2e-6 * std::sqrt(static_cast<double>(batch * g.positions())),
        [&](auto& executor, float* to) {
          run_conv2d_weight_gradient(executor, Known<g>{}, batch, input.data(), upstream.data(), to);
        });
}
template <Conv2dGeometry g>
void check_passes(int batch) {
  for_each_pass<g>(batch, [](long size, double tolerance, auto run) { check_agreement(size, tolerance, run); });
}
/// By the bound of Winograd's algorithm, which is relative to the largest number.
template <Conv2dGeometry g>
void check_winograd_passes(int batch) {
  for_each_pass<g>(batch,
                   [](long size, double, auto run) { CHECK(convolutions::relative_error(size, run, run) < 1e-5); });
}

/// All three passes work in what they say that they need, and write nothing behind it; gives the largest.
template <Conv2dGeometry g>
long check_workspaces(int batch) {
  CAPTURE(g.channels, g.height, g.out_channels, g.stride, batch);
  constexpr const tenet::cpu::Workers* nobody = nullptr;
  const long floats[]{workspace_conv2d(nobody, Known<g>{}, batch),
                      workspace_conv2d_input_gradient(nobody, Known<g>{}, batch),
                      workspace_conv2d_weight_gradient(nobody, Known<g>{}, batch)};
  int pass = 0;
  for_each_pass<g>(batch, [&](long size, double, auto run) {
    std::vector<float> result(static_cast<std::size_t>(size));
    check_workspace(floats[pass++], [&](auto& workers) { run(workers, result.data()); });
  });
  return std::max({floats[0], floats[1], floats[2]});
}

}  // namespace

TEST_CASE("convolutions need the workspace that they say", "[cpu][convolution]") {
  for (const int batch : {1, 2, 3, 8, 18, 33}) {
    CHECK(check_workspaces<Conv2dGeometry{19, 4, 4, 35, 3, 3, 1, 1}>(batch) > 0);
    CHECK(check_workspaces<Conv2dGeometry{19, 9, 10, 35, 3, 3, 1, 1}>(batch) > 0);
    CHECK(check_workspaces<Conv2dGeometry{33, 9, 9, 70, 3, 3, 2, 1}>(batch) > 0);
    CHECK(check_workspaces<Conv2dGeometry{70, 9, 9, 131, 1, 1, 2, 0}>(batch) > 0);
    CHECK(check_workspaces<Conv2dGeometry{260, 4, 4, 256, 3, 3, 1, 1}>(batch) > 0);
    CHECK(check_workspaces<Conv2dGeometry{3, 11, 12, 6, 5, 5, 1, 2}>(batch) >=
          0);  // few channels: of batches of 4 none
  }
}

TEST_CASE("the kernel chosen for a convolution agrees with the reference", "[cpu][convolution]") {
  for (int batch : {1, 2, 5, 7, 18}) {  // some too small for the kernel
    check_winograd_passes<Conv2dGeometry{19, 4, 4, 35, 3, 3, 1, 1}>(batch);
    check_passes<Conv2dGeometry{19, 9, 10, 35, 3, 3, 1, 1}>(batch);
    check_passes<Conv2dGeometry{33, 9, 9, 16, 3, 3, 2, 1}>(batch);
    check_passes<Conv2dGeometry{3, 11, 12, 6, 5, 5, 1, 2}>(batch);
  }
}

TEST_CASE("convolutions of many channels agree with the reference for every batch", "[cpu][convolution]") {
  constexpr Conv2dGeometry g{260, 4, 4, 256, 3, 3, 1, 1};
  using tenet::cpu::winograd_weights_at_once;
  static_assert(winograd_weights_at_once(g, 50) && !winograd_weights_at_once(g, 51));
  for (int batch : {1, 7, 51})  // by patches, with weights transformed where used, and before
    if (convolutions::is_run(g, batch)) check_winograd_passes<g>(batch);
}

TEST_CASE("direct workers never use Winograd's algorithm", "[cpu][convolution]") {
  constexpr Conv2dGeometry g{19, 9, 10, 35, 3, 3, 1, 1};
  constexpr int batch = 5;
  static_assert(tenet::cpu::winograd_fits(g));
  const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
  const auto upstream = random_floats(batch * g.result_size(), 3);
  DirectWorkers workers(2);
  const auto check = [](long size, bool by_winograd, auto chosen, auto direct) {
    std::vector<float> found(static_cast<std::size_t>(size)), expected(found);
    chosen(found.data());
    direct(expected.data());
    CHECK((found == expected) != by_winograd);
  };
  const auto compare = [&](auto& executor, bool by_winograd) {
    check(
        batch * g.result_size(), by_winograd,
        [&](float* to) { run_conv2d(executor, Known<g>{}, batch, input.data(), weight.data(), to); },
        [&](float* to) { run_conv2d(workers, g, batch, input.data(), weight.data(), to); });
    check(
        batch * g.input_size(), by_winograd,
        [&](float* to) { run_conv2d_input_gradient(executor, Known<g>{}, batch, upstream.data(), weight.data(), to); },
        [&](float* to) { run_conv2d_input_gradient(workers, g, batch, upstream.data(), weight.data(), to); });
    check(
        g.weight_size(), by_winograd,
        [&](float* to) { run_conv2d_weight_gradient(executor, Known<g>{}, batch, input.data(), upstream.data(), to); },
        [&](float* to) { run_conv2d_weight_gradient(workers, g, batch, input.data(), upstream.data(), to); });
  };
  compare(workers, false);
  tenet::cpu::Workers others(2);
  compare(others, true);
}
