#pragma once

#include <type_traits>
#include <vector>

#include "convolutions.hpp"
#include "tenet/device/cpu/lane_pass.hpp"
#include "tenet/device/cpu/lane_weight_pass.hpp"
#include "tenet/device/reference/conv2d.hpp"

/// The laws of passes of convolutions whose samples lie in the vector lanes, direct or by Winograd's algorithm.
namespace lane_passes {

using tenet::Conv2dGeometry;
using tenet::Epilogue;

inline std::vector<float> out_of_lanes(const std::vector<float>& lanes, long size, int batch) {
  std::vector<float> result(static_cast<std::size_t>(size * batch));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const long n = static_cast<long>(i) / size, p = static_cast<long>(i) % size;
    result[i] = lanes[static_cast<std::size_t>((n / 16 * size + p) * 16 + n % 16)];
  }
  return result;
}

/// An epilogue that adds 1 to a result: an element that it met twice, or not at all, is wrong.
struct AddOne {
  float* result;
  Epilogue epilogue() const {
    return {[](const void* state, long first, long last) {
              for (long i = first; i < last; ++i) static_cast<const AddOne*>(state)->result[i] += 1;
            },
            this};
  }
};

/// The pass agrees with the reference, on values in lanes and on values that are re-laid, within `tolerance` of the
/// largest number; it calls its epilogue once for each element, and writes nothing behind its result.
template <class Pass>
void check_pass(const Pass& pass, bool gradient, int batch, double tolerance) {
  const Conv2dGeometry& g = pass.g;
  const auto weight = random_floats(g.weight_size(), 2), source = random_floats(batch * pass.source_size(), 1);
  const auto in_lanes = convolutions::in_lanes(source, pass.source_size(), batch, false);
  const long size = pass.result_size();
  auto expected = [&](auto& serial, float* to) {
    const AddOne add{to};
    if (gradient)
      run_conv2d_input_gradient(serial, g, batch, source.data(), weight.data(), to, add.epilogue());
    else
      run_conv2d(serial, g, batch, source.data(), weight.data(), to, add.epilogue());
  };
  auto lying_so = [&](tenet::cpu::Workers& workers, float* to) {
    std::vector<float> lanes(static_cast<std::size_t>(tenet::cpu::samples_last_size(size, batch)) + 16, 5);
    const AddOne add{lanes.data()};
    tenet::cpu::detail::run_lane_pass(workers, pass, tenet::Layout::samples_last, batch, in_lanes.data(), weight.data(),
                                      lanes.data(), add.epilogue());
    for (std::size_t i = lanes.size() - 16; i < lanes.size(); ++i) CHECK(lanes[i] == 5);
    const auto standard = out_of_lanes(lanes, size, batch);
    std::copy(standard.begin(), standard.end(), to);
  };
  auto relaid = [&](tenet::cpu::Workers& workers, float* to) {
    const AddOne add{to};
    tenet::cpu::detail::run_lane_pass(workers, pass, tenet::Layout::standard, batch, source.data(), weight.data(), to,
                                      add.epilogue());
  };
  CHECK(convolutions::relative_error(batch * size, expected, lying_so) <= tolerance);
  CHECK(convolutions::relative_error(batch * size, expected, relaid) <= tolerance);
}

/// No bit of a group's result depends on how many bands it is cut into, and they cover it.
template <class Pass>
void check_bands(const Pass& pass) {
  const auto weight = random_floats(pass.g.weight_size(), 2), source = random_floats(16 * pass.source_size(), 1);
  std::vector<float> packed(static_cast<std::size_t>(pass.packed_size())),
      own(static_cast<std::size_t>(pass.own_size()));
  pass.pack(weight.data(), packed.data());
  auto run = [&](long bands) {
    std::vector<float> result(static_cast<std::size_t>(16 * pass.result_size()), 5);
    for (long i = 0; i < bands; ++i)
      pass.run(packed.data(), source.data(), result.data(), tenet::cpu::detail::lane_band(pass.height(), i, bands),
               own.data());
    return result;
  };
  const auto whole = run(1);
  for (const long bands : {2, 3, pass.height()}) CHECK(run(bands) == whole);
}

/// The pass agrees with the reference, whatever lanes beyond the batch hold, within the tolerance of sums over a batch.
template <class Pass>
void check_weight_pass(const Pass& pass, int batch) {
  const Conv2dGeometry& g = pass.g;
  const auto x = random_floats(batch * g.input_size(), 1), dy = random_floats(batch * g.result_size(), 2);
  const auto x_lanes = convolutions::in_lanes(x, g.input_size(), batch, true);
  const auto dy_lanes = convolutions::in_lanes(dy, g.result_size(), batch, true);
  for (const bool relaid : {false, true}) {
    CAPTURE(relaid);
    check_agreement(g.weight_size(), convolutions::weight_tolerance(g, batch), [&](auto& executor, float* to) {
      if constexpr (std::is_same_v<std::decay_t<decltype(executor)>, tenet::reference::Serial>)
        run_conv2d_weight_gradient(executor, g, batch, x.data(), dy.data(), to);
      else if (relaid)
        tenet::cpu::detail::run_lane_weight_pass(executor, pass, tenet::Layout::standard, batch, x.data(), dy.data(),
                                                 to);
      else
        tenet::cpu::detail::run_lane_weight_pass(executor, pass, tenet::Layout::samples_last, batch, x_lanes.data(),
                                                 dy_lanes.data(), to);
    });
  }
}

/// What Winograd's algorithm along the lines is made for, and what it has to do right: borders on all sides, images
/// smaller than the kernel, tiles and blocks of channels that are not full.
inline constexpr Conv2dGeometry by_lines[] = {
    {6, 14, 14, 16, 5, 5, 1, 0}, {5, 9, 7, 13, 5, 5, 1, 2},  {4, 13, 11, 9, 3, 3, 1, 1}, {8, 28, 28, 16, 3, 3, 1, 1},
    {1, 6, 6, 1, 3, 3, 1, 0},    {5, 2, 3, 7, 5, 5, 1, 4},   {7, 2, 2, 4, 3, 3, 1, 2},   {3, 5, 26, 6, 5, 5, 1, 1},
    {30, 8, 9, 32, 3, 3, 1, 0},  {32, 7, 31, 5, 5, 5, 1, 3},
};

}  // namespace lane_passes
