#include "tenet/device/cpu/winograd.hpp"

#include "../agreement.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using tenet::Conv2dGeometry;
using tenet::Epilogue;
using tenet::cpu::Workers;

constexpr Conv2dGeometry geometries[] = {
    {16, 4, 4, 16, 3, 3, 1, 1},   {17, 9, 7, 35, 3, 3, 1, 1},   {20, 3, 5, 40, 3, 3, 1, 2},
    {33, 6, 6, 19, 3, 3, 1, 0},   {16, 23, 41, 21, 3, 3, 1, 1}, {130, 7, 7, 65, 3, 3, 1, 1},
    {64, 14, 13, 16, 3, 3, 1, 2}, {3, 12, 5, 1, 3, 3, 1, 0},    {60, 13, 9, 128, 3, 3, 1, 1},
};

/// The largest difference to a convolution in the reference, relative to the largest value; also checks that the result
/// has the same bits for any number of threads.
template <class Expected, class Run>
double relative_error(long size, Expected expected_of, Run run) {
  std::vector<float> expected(static_cast<std::size_t>(size)), first;
  tenet::reference::Serial serial;
  expected_of(serial, expected.data());
  double worst = 0, largest = 0;
  for (int threads = 1; threads <= 3; ++threads) {
    constexpr float untouched = 12345.25f;
    std::vector<float> result(expected.size() + 64, untouched);
    run(pool(threads), result.data());
    for (std::size_t i = expected.size(); i < result.size(); ++i) REQUIRE(result[i] == untouched);
    result.resize(expected.size());
    if (threads == 1) {
      first = result;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double difference = std::fabs(double{expected[i]} - result[i]);
        worst = difference <= worst ? worst : difference;  // NaN counts
        largest = std::fmax(largest, std::fabs(double{expected[i]}));
      }
    }
    CHECK(std::memcmp(first.data(), result.data(), 4 * first.size()) == 0);
  }
  CHECK(largest > 0);
  return worst / largest;
}

std::vector<float> transformed_weights(Workers& workers, const Conv2dGeometry& g, const float* weight, bool exchange) {
  std::vector<float> result(static_cast<std::size_t>(tenet::cpu::workspace_winograd_weights(g)));
  tenet::cpu::run_winograd_weights(workers, g, weight, result.data(), exchange);
  return result;
}

}  // namespace

TEST_CASE("Winograd convolutions agree with the reference", "[cpu][winograd]") {
  for (const Conv2dGeometry& g : geometries) {
    for (int batch : {1, 3, 17, 33}) {
      CAPTURE(g.channels, g.height, g.width, g.out_channels, g.padding, batch);
      const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
      const double error = relative_error(
          batch * g.result_size(),
          [&](auto& executor, float* to) { run_conv2d(executor, g, batch, input.data(), weight.data(), to); },
          [&](Workers& workers, float* to) {
            const auto transformed = transformed_weights(workers, g, weight.data(), false);
            run_winograd_conv2d(workers, g, batch, input.data(), transformed.data(), to);
          });
      CHECK(error < 1e-5);
      std::vector<float> two_steps(static_cast<std::size_t>(batch * g.result_size())), at_once(two_steps.size());
      const auto transformed = transformed_weights(pool(1), g, weight.data(), false);
      run_winograd_conv2d(pool(1), g, batch, input.data(), transformed.data(), two_steps.data());
      for (int threads = 1; threads <= 3; ++threads) {
        run_winograd_conv2d_at_once(pool(threads), g, batch, input.data(), weight.data(), at_once.data());
        for (std::size_t i = 0; i < at_once.size(); ++i) REQUIRE(std::fabs(at_once[i] - two_steps[i]) < 1e-3f);
      }
    }
  }
}

TEST_CASE("Winograd gradients by the input agree with the reference", "[cpu][winograd]") {
  for (const Conv2dGeometry& g : geometries) {
    for (int batch : {1, 3, 17}) {
      CAPTURE(g.channels, g.height, g.width, g.out_channels, g.padding, batch);
      const auto upstream = random_floats(batch * g.result_size(), 1), weight = random_floats(g.weight_size(), 2);
      const double error = relative_error(
          batch * g.input_size(),
          [&](auto& executor, float* to) {
            run_conv2d_input_gradient(executor, g, batch, upstream.data(), weight.data(), to);
          },
          [&](Workers& workers, float* to) {
            const Conv2dGeometry exchanged = tenet::cpu::exchanged(g);
            if (batch == 3) {
              run_winograd_conv2d_at_once(workers, exchanged, batch, upstream.data(), weight.data(), to, true);
              return;
            }
            const auto transformed = transformed_weights(workers, exchanged, weight.data(), true);
            run_winograd_conv2d(workers, exchanged, batch, upstream.data(), transformed.data(), to);
          });
      CHECK(error < 1e-5);
    }
  }
}

TEST_CASE("Winograd gradients by the weight agree with the reference", "[cpu][winograd]") {
  for (const Conv2dGeometry& g : geometries) {
    for (int batch : {0, 1, 3, 17, 33}) {
      CAPTURE(g.channels, g.height, g.width, g.out_channels, g.padding, batch);
      const auto input = random_floats(batch * g.input_size(), 1), upstream = random_floats(batch * g.result_size(), 2);
      auto run = [&](Workers& workers, float* to) {
        std::vector<float> workspace(static_cast<std::size_t>(tenet::cpu::workspace_winograd_weight_gradient(g)),
                                     1e30f);
        run_winograd_weight_gradient(workers, g, batch, input.data(), upstream.data(), to, workspace.data());
      };
      if (batch == 0) {
        std::vector<float> result(static_cast<std::size_t>(g.weight_size()), 1);
        run(pool(2), result.data());
        for (float value : result) REQUIRE(value == 0);
        continue;
      }
      const double error = relative_error(
          g.weight_size(),
          [&](auto& executor, float* to) {
            run_conv2d_weight_gradient(executor, g, batch, input.data(), upstream.data(), to);
          },
          run);
      CHECK(error < 1e-5);
    }
  }
}

TEST_CASE("Winograd epilogues cover the result once", "[cpu][winograd]") {
  for (const Conv2dGeometry& g : geometries) {
    const int batch = 9;
    const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
    const auto transformed = transformed_weights(pool(1), g, weight.data(), false);
    std::vector<float> plain(static_cast<std::size_t>(batch * g.result_size())), doubled(plain.size());
    run_winograd_conv2d(pool(1), g, batch, input.data(), transformed.data(), plain.data());
    float* const data = doubled.data();
    const Epilogue twice{[](const void* state, long first, long last) {
                           float* const values = *static_cast<float* const*>(state);
                           for (long i = first; i < last; ++i) values[i] *= 2;
                         },
                         &data};
    run_winograd_conv2d(pool(3), g, batch, input.data(), transformed.data(), data, twice);
    for (std::size_t i = 0; i < plain.size(); ++i) REQUIRE(doubled[i] == 2 * plain[i]);
  }
}
