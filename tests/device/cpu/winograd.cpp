#include "tenet/device/cpu/winograd.hpp"

#include "../../support/convolutions.hpp"
#include "../../support/image_order.hpp"
#include "tenet/device/cpu/prepared_patches.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using tenet::Conv2dGeometry;
using tenet::cpu::Workers;

std::vector<float> transformed_weights(Workers& workers, const Conv2dGeometry& g, const float* weight, bool exchange) {
  std::vector<float> result(static_cast<std::size_t>(tenet::cpu::workspace_winograd_weights(g)));
  tenet::cpu::run_winograd_weights(workers, g, weight, result.data(), exchange);
  return result;
}

}  // namespace

TEST_CASE("Winograd convolutions agree with the reference", "[cpu][winograd]") {
  convolutions::for_each(convolutions::by_winograd, {1, 3, 17, 33}, [](const Conv2dGeometry& g, int batch) {
    const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
    const double error = convolutions::relative_error(
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
      long differing = 0;
      for (std::size_t i = 0; i < at_once.size(); ++i) differing += !(std::fabs(at_once[i] - two_steps[i]) < 1e-3f);
      CHECK(differing == 0);
    }
  });
}

TEST_CASE("Winograd convolutions transform packed weights where they use them", "[cpu][winograd]") {
  auto check = [](const Conv2dGeometry& g, int batch) {
    const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
    std::vector<float> packed(static_cast<std::size_t>(tenet::cpu::packed_weights(g)));
    tenet::cpu::run_pack_weights(pool(1), g, weight.data(), packed.data());
    const double error = convolutions::relative_error(
        batch * g.result_size(),
        [&](auto& executor, float* to) { run_conv2d(executor, g, batch, input.data(), weight.data(), to); },
        [&](Workers& workers, float* to) {
          run_winograd_conv2d_packed(workers, g, batch, input.data(), packed.data(), to);
        });
    CHECK(error < 1e-5);
    if (batch < 3)
      convolutions::check_epilogue(batch * g.result_size(), [&](Workers& workers, float* to, tenet::Epilogue epilogue) {
        run_winograd_conv2d_packed(workers, g, batch, input.data(), packed.data(), to, epilogue);
      });
  };
  convolutions::for_each(convolutions::by_winograd, {1, 2, 3, 33}, check);
  // Weights in the workspace, blocks of two rows of tiles; weights where they are used, the last part of 2 channels.
  for (const int batch : {1, 3}) check({64, 28, 28, 64, 3, 3, 1, 1}, batch);
  for (const int batch : {1, 2, 13}) check({130, 9, 9, 144, 3, 3, 1, 1}, batch);
}

TEST_CASE("Winograd gradients by the input agree with the reference", "[cpu][winograd]") {
  const auto check = [](const Conv2dGeometry& g, int batch, bool at_once) {
    const auto upstream = random_floats(batch * g.result_size(), 1), weight = random_floats(g.weight_size(), 2);
    const double error = convolutions::relative_error(
        batch * g.input_size(),
        [&](auto& executor, float* to) {
          run_conv2d_input_gradient(executor, g, batch, upstream.data(), weight.data(), to);
        },
        [&](Workers& workers, float* to) {
          const Conv2dGeometry exchanged = tenet::cpu::exchanged(g);
          if (at_once) {
            run_winograd_conv2d_at_once(workers, exchanged, batch, upstream.data(), weight.data(), to, true);
            return;
          }
          const auto transformed = transformed_weights(workers, exchanged, weight.data(), true);
          run_winograd_conv2d(workers, exchanged, batch, upstream.data(), transformed.data(), to);
        });
    CHECK(error < 1e-5);
  };
  convolutions::for_each(convolutions::by_winograd, {1, 3, 17},
                         [&](const Conv2dGeometry& g, int batch) { check(g, batch, batch == 3); });
  constexpr Conv2dGeometry shapes[] = {{130, 4, 4, 144, 3, 3, 1, 1}, {33, 5, 6, 70, 3, 3, 1, 1}};  // panels, a rest
  convolutions::for_each(shapes, {1, 7, 25}, [&](const Conv2dGeometry& g, int batch) { check(g, batch, true); });
}

TEST_CASE("Winograd epilogues cover the result once", "[cpu][winograd]") {
  convolutions::for_each(convolutions::by_winograd, {9}, [](const Conv2dGeometry& g, int batch) {
    const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
    const auto transformed = transformed_weights(pool(1), g, weight.data(), false);
    convolutions::check_epilogue(batch * g.result_size(), [&](Workers& workers, float* to, tenet::Epilogue epilogue) {
      run_winograd_conv2d(workers, g, batch, input.data(), transformed.data(), to, epilogue);
    });
  });
}

TEST_CASE("Winograd convolutions of images with channels last give the same bits", "[cpu][winograd]") {
  constexpr Conv2dGeometry shapes[] = {{16, 4, 4, 16, 3, 3, 1, 1},  {64, 28, 28, 64, 3, 3, 1, 1},
                                       {32, 9, 7, 48, 3, 3, 1, 0},  {48, 6, 13, 32, 3, 3, 1, 2},
                                       {64, 5, 5, 256, 3, 3, 1, 1}, {144, 7, 7, 128, 3, 3, 1, 1}};
  convolutions::for_each(shapes, {1, 3, 33}, [](const Conv2dGeometry& g, int batch) {
    REQUIRE(tenet::cpu::winograd_takes_channels_last(g));
    const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
    const auto turned_input = image_order::channels_last(input, g.channels, long{1} * g.height * g.width);
    std::vector<float> packed(static_cast<std::size_t>(tenet::cpu::packed_weights(g)));
    tenet::cpu::run_pack_weights(pool(1), g, weight.data(), packed.data());
    const auto transformed = transformed_weights(pool(1), g, weight.data(), false);
    const auto check = [&](auto run) {  // (workers, input, to, epilogue, channels_last)
      std::vector<float> expected(static_cast<std::size_t>(batch * g.result_size())), found(expected.size());
      run(pool(2), input.data(), expected.data(), tenet::Epilogue{}, false);
      run(pool(3), turned_input.data(), found.data(), tenet::Epilogue{}, true);
      CHECK(image_order::channels_first(found.data(), batch, g.out_channels, g.positions()) == expected);
      convolutions::check_epilogue(batch * g.result_size(), [&](Workers& workers, float* to, tenet::Epilogue epilogue) {
        run(workers, turned_input.data(), to, epilogue, true);
      });
    };
    check([&](Workers& workers, const float* from, float* to, tenet::Epilogue epilogue, bool channels_last) {
      run_winograd_conv2d(workers, g, batch, from, transformed.data(), to, epilogue, channels_last);
    });
    check([&](Workers& workers, const float* from, float* to, tenet::Epilogue epilogue, bool channels_last) {
      run_winograd_conv2d_at_once(workers, g, batch, from, weight.data(), to, false, epilogue, channels_last);
    });
    check([&](Workers& workers, const float* from, float* to, tenet::Epilogue epilogue, bool channels_last) {
      run_winograd_conv2d_packed(workers, g, batch, from, packed.data(), to, epilogue, channels_last);
    });
  });
}
