#include "tenet/device/cpu/conv2d.hpp"

#include "../agreement.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using tenet::Conv2dGeometry;

constexpr Conv2dGeometry geometries[] = {
    {1, 1, 1, 1, 1, 1, 1, 0},     {1, 28, 28, 6, 5, 5, 1, 0}, {6, 12, 12, 16, 5, 5, 1, 0},   {3, 8, 8, 4, 1, 1, 1, 0},
    {17, 9, 7, 35, 3, 3, 1, 1},   {5, 9, 7, 13, 3, 2, 3, 2},  {8, 13, 11, 20, 3, 3, 2, 1},   {16, 8, 8, 33, 1, 1, 2, 0},
    {20, 4, 4, 40, 3, 3, 1, 1},   {2, 21, 22, 3, 7, 7, 2, 3}, {1, 5, 6, 2, 4, 1, 1, 3},      {130, 3, 3, 9, 3, 3, 1, 1},
    {3, 23, 40, 130, 1, 1, 1, 0}, {2, 5, 5, 3, 2, 2, 3, 0},   {1, 3, 50, 1, 3, 3, 1, 1},     {4, 6, 6, 5, 1, 1, 1, 2},
    {2, 40, 60, 10, 3, 3, 1, 1},  {40, 6, 5, 24, 3, 3, 2, 1}, {20, 14, 14, 140, 3, 3, 2, 1}, {18, 7, 7, 30, 3, 3, 2, 1},
    {17, 28, 30, 20, 1, 1, 2, 0}, {20, 5, 6, 20, 1, 1, 1, 1}, {19, 26, 44, 21, 3, 3, 2, 1},  {64, 2, 2, 80, 3, 3, 2, 1},
};

}  // namespace

TEST_CASE("convolutions agree with the reference", "[cpu][conv2d]") {
  for (const Conv2dGeometry& g : geometries) {
    for (int batch : {1, 3, 17}) {
      CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.kernel_width, g.stride, g.padding,
              batch);
      // Exactly as long as they are, so that reading beyond them can be detected.
      const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
      check_agreement(batch * g.result_size(), 2e-5, [&](auto& executor, float* to) {
        run_conv2d(executor, g, batch, input.data(), weight.data(), to);
      });
    }
  }
}

TEST_CASE("gradients of convolutions by their input agree with the reference", "[cpu][conv2d]") {
  for (const Conv2dGeometry& g : geometries) {
    for (int batch : {1, 3, 17}) {
      CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.kernel_width, g.stride, g.padding,
              batch);
      const auto upstream = random_floats(batch * g.result_size(), 1), weight = random_floats(g.weight_size(), 2);
      check_agreement(batch * g.input_size(), 2e-5, [&](auto& executor, float* to) {
        run_conv2d_input_gradient(executor, g, batch, upstream.data(), weight.data(), to);
      });
    }
  }
}

TEST_CASE("gradients of convolutions by their weight agree with the reference", "[cpu][conv2d]") {
  for (const Conv2dGeometry& g : geometries) {
    for (int batch : {1, 3, 17, 33}) {
      CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.kernel_width, g.stride, g.padding,
              batch);
      const auto input = random_floats(batch * g.input_size(), 1), upstream = random_floats(batch * g.result_size(), 2);
      const double tolerance = 2e-6 * std::sqrt(static_cast<double>(batch * g.positions()));
      check_agreement(g.weight_size(), tolerance, [&](auto& executor, float* to) {
        run_conv2d_weight_gradient(executor, g, batch, input.data(), upstream.data(), to);
      });
    }
  }
}

TEST_CASE("epilogues of convolutions cover the result once", "[cpu][conv2d]") {
  for (const Conv2dGeometry& g : geometries) {
    CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.stride);
    const int batch = 5;
    const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
    const auto upstream = random_floats(batch * g.result_size(), 3);
    const auto check = [](long size, const auto& run) {
      std::vector<float> plain(static_cast<std::size_t>(size)), doubled(plain.size());
      run(pool(1), plain.data(), tenet::Epilogue{});
      float* const data = doubled.data();
      run(pool(3), data,
          tenet::Epilogue{[](const void* state, long first, long last) {
                            float* const values = *static_cast<float* const*>(state);
                            for (long i = first; i < last; ++i) values[i] *= 2;
                          },
                          &data});
      long wrong = 0;
      for (std::size_t i = 0; i < plain.size(); ++i) wrong += doubled[i] != 2 * plain[i];
      CHECK(wrong == 0);
    };
    check(batch * g.result_size(), [&](auto& workers, float* to, tenet::Epilogue epilogue) {
      run_conv2d(workers, g, batch, input.data(), weight.data(), to, epilogue);
    });
    check(batch * g.input_size(), [&](auto& workers, float* to, tenet::Epilogue epilogue) {
      run_conv2d_input_gradient(workers, g, batch, upstream.data(), weight.data(), to, epilogue);
    });
  }
}
