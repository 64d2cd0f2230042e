#include "tenet/device/cpu/conv2d_samples_last.hpp"

#include <algorithm>
#include <type_traits>

#include "../agreement.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using tenet::Conv2dGeometry;
using tenet::Epilogue;
using tenet::Layout;

constexpr tenet::In<Layout::samples_last> samples_last;
constexpr int batches[] = {1, 3, 17, 33};

constexpr Conv2dGeometry geometries[] = {
    {1, 1, 1, 1, 1, 1, 1, 0},  {1, 28, 28, 6, 5, 5, 1, 2}, {6, 14, 14, 16, 5, 5, 1, 0}, {3, 8, 8, 4, 1, 1, 1, 0},
    {7, 9, 7, 11, 3, 3, 1, 1}, {5, 9, 7, 13, 3, 2, 3, 2},  {4, 13, 11, 9, 3, 3, 2, 1},  {6, 8, 8, 17, 1, 1, 2, 0},
    {2, 4, 4, 40, 3, 3, 1, 1}, {2, 21, 22, 3, 7, 7, 2, 3}, {1, 5, 6, 2, 4, 1, 1, 3},    {30, 3, 3, 9, 3, 3, 1, 1},
    {2, 5, 5, 3, 2, 2, 3, 0},  {1, 3, 50, 1, 3, 3, 1, 1},  {4, 6, 6, 5, 1, 1, 1, 2},    {5, 2, 3, 7, 5, 5, 1, 4},
};

/// A value of `batch` samples in samples last, with `fill` in the lanes beyond the batch, or copies of the last sample.
std::vector<float> in_lanes(const std::vector<float>& standard, long size, int batch, bool poison) {
  std::vector<float> result(static_cast<std::size_t>(tenet::cpu::samples_last_size(size, batch)));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const long at = static_cast<long>(i), n = at / (16 * size) * 16 + at % 16, p = at % (16 * size) / 16;
    result[i] = poison && n >= batch ? std::nanf("")
                                     : standard[static_cast<std::size_t>(std::min<long>(n, batch - 1) * size + p)];
  }
  return result;
}

std::vector<float> out_of_lanes(const std::vector<float>& lanes, long size, int batch) {
  std::vector<float> result(static_cast<std::size_t>(size * batch));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const long n = static_cast<long>(i) / size, p = static_cast<long>(i) % size;
    result[i] = lanes[static_cast<std::size_t>((n / 16 * size + p) * 16 + n % 16)];
  }
  return result;
}

/// An epilogue that adds 1 to a result and counts how often each element was met.
struct AddOne {
  float* result;
  Epilogue epilogue() const {
    return {[](const void* state, long first, long last) {
              for (long i = first; i < last; ++i) static_cast<const AddOne*>(state)->result[i] += 1;
            },
            this};
  }
};

/// Checks run(executor, source, result, epilogue) of the reference against the form in samples last and the one that
/// re-lays: all with an epilogue.
template <class Reference, class Lanes, class Relaying>
void check_pass(long source_size, long result_size, int batch, Reference reference, Lanes lanes, Relaying relaying) {
  const auto source = random_floats(batch * source_size, 1);
  const auto source_lanes = in_lanes(source, source_size, batch, false);
  const auto run = [&](auto& executor, float* to, bool direct) {
    const AddOne add{to};
    if constexpr (std::is_same_v<std::decay_t<decltype(executor)>, tenet::reference::Serial>) {
      reference(executor, source.data(), to, add.epilogue());
    } else if (direct) {
      std::vector<float> result(static_cast<std::size_t>(tenet::cpu::samples_last_size(result_size, batch)) + 16, 5);
      const AddOne add_lanes{result.data()};
      lanes(executor, source_lanes.data(), result.data(), add_lanes.epilogue());
      for (std::size_t i = result.size() - 16; i < result.size(); ++i) CHECK(result[i] == 5);
      const auto standard = out_of_lanes(result, result_size, batch);
      std::copy(standard.begin(), standard.end(), to);
    } else {
      relaying(executor, source.data(), to, add.epilogue());
    }
  };
  for (const bool direct : {true, false}) {
    CAPTURE(direct);
    check_agreement(batch * result_size, 2e-5, [&](auto& executor, float* to) { run(executor, to, direct); });
  }
}

}  // namespace

TEST_CASE("convolutions with samples in the lanes agree with the reference", "[cpu][conv2d_samples_last]") {
  for (const Conv2dGeometry& g : geometries) {
    const auto weight = random_floats(g.weight_size(), 2);
    for (const int batch : batches) {
      CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.kernel_width, g.stride, g.padding,
              batch);
      check_pass(
          g.input_size(), g.result_size(), batch,
          [&](auto& executor, const float* x, float* y, Epilogue e) {
            run_conv2d(executor, g, batch, x, weight.data(), y, e);
          },
          [&](auto& executor, const float* x, float* y, Epilogue e) {
            run_conv2d(executor, samples_last, g, batch, x, weight.data(), y, e);
          },
          [&](auto& executor, const float* x, float* y, Epilogue e) {
            run_conv2d_few_channels(executor, g, batch, x, weight.data(), y, e);
          });
    }
  }
}

TEST_CASE("gradients by the input with samples in the lanes agree with the reference", "[cpu][conv2d_samples_last]") {
  for (const Conv2dGeometry& g : geometries) {
    const auto weight = random_floats(g.weight_size(), 2);
    for (const int batch : batches) {
      CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.kernel_width, g.stride, g.padding,
              batch);
      check_pass(
          g.result_size(), g.input_size(), batch,
          [&](auto& executor, const float* dy, float* dx, Epilogue e) {
            run_conv2d_input_gradient(executor, g, batch, dy, weight.data(), dx, e);
          },
          [&](auto& executor, const float* dy, float* dx, Epilogue e) {
            run_conv2d_input_gradient(executor, samples_last, g, batch, dy, weight.data(), dx, e);
          },
          [&](auto& executor, const float* dy, float* dx, Epilogue e) {
            run_conv2d_input_gradient_few_channels(executor, g, batch, dy, weight.data(), dx, e);
          });
    }
  }
}

TEST_CASE("gradients by the weight with samples in the lanes agree with the reference", "[cpu][conv2d_samples_last]") {
  for (const Conv2dGeometry& g : geometries) {
    for (const int batch : {1, 3, 16, 17, 33, 150}) {
      CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.kernel_width, g.stride, g.padding,
              batch);
      const auto x = random_floats(batch * g.input_size(), 1), dy = random_floats(batch * g.result_size(), 2);
      // Lanes beyond the batch must not count, whatever they hold.
      const auto x_lanes = in_lanes(x, g.input_size(), batch, true);
      const auto dy_lanes = in_lanes(dy, g.result_size(), batch, true);
      const double tolerance = 2e-6 * std::sqrt(static_cast<double>(batch * g.positions()));
      for (const bool direct : {true, false}) {
        CAPTURE(direct);
        check_agreement(g.weight_size(), tolerance, [&](auto& executor, float* to) {
          if constexpr (std::is_same_v<std::decay_t<decltype(executor)>, tenet::reference::Serial>) {
            run_conv2d_weight_gradient(executor, g, batch, x.data(), dy.data(), to);
          } else if (direct) {
            run_conv2d_weight_gradient(executor, samples_last, g, batch, x_lanes.data(), dy_lanes.data(), to);
          } else {
            run_conv2d_weight_gradient_few_channels(executor, g, batch, x.data(), dy.data(), to);
          }
        });
      }
    }
  }
}

TEST_CASE("convolutions with samples in the lanes need the scratch memory they say", "[cpu][conv2d_samples_last]") {
  constexpr Conv2dGeometry g{1, 28, 28, 6, 5, 5, 1, 2};
  constexpr const tenet::cpu::Workers* none = nullptr;
  static_assert(scratch_conv2d(none, samples_last, g) < 512);
  static_assert(scratch_conv2d_input_gradient(none, samples_last, g) < 1024);
  static_assert(scratch_conv2d_weight_gradient(none, samples_last, g) < 16 * 1024);
  static_assert(tenet::cpu::scratch_conv2d_few_channels(none, g) > 16 * (g.input_size() + g.result_size()));
  CHECK(tenet::cpu::few_channels_fits(g));
  CHECK_FALSE(tenet::cpu::few_channels_fits({64, 28, 28, 64, 3, 3, 1, 1}));
}
