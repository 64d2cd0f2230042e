#include "tenet/device/cpu/winograd_weight_gradient.hpp"

#include "../../support/convolutions.hpp"
#include "../../support/image_order.hpp"
#include "../../support/played_team.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using tenet::Conv2dGeometry;
using tenet::cpu::Workers;

void run(Workers& workers, const Conv2dGeometry& g, int batch, const float* input, const float* upstream, float* to,
         bool channels_last = false) {
  std::vector<float> workspace(static_cast<std::size_t>(tenet::cpu::workspace_winograd_weight_gradient(g, batch)),
                               1e30f);
  run_winograd_weight_gradient(workers, g, batch, input, upstream, to, workspace.data(), channels_last);
}

}  // namespace

TEST_CASE("Winograd gradients by the weight agree with the reference", "[cpu][winograd_weight_gradient]") {
  auto check = [](const Conv2dGeometry& g, int batch) {
    const auto input = random_floats(batch * g.input_size(), 1), upstream = random_floats(batch * g.result_size(), 2);
    const double error = convolutions::relative_error(
        g.weight_size(),
        [&](auto& executor, float* to) {
          run_conv2d_weight_gradient(executor, g, batch, input.data(), upstream.data(), to);
        },
        [&](Workers& workers, float* to) { run(workers, g, batch, input.data(), upstream.data(), to); });
    CHECK(error < 1e-5);
  };
  convolutions::for_each(convolutions::by_winograd, {1, 3, 7, 17, 33}, check);
  constexpr Conv2dGeometry many_channels[] = {{170, 6, 5, 180, 3, 3, 1, 1}};  // a task a panel, one block and more
  convolutions::for_each(many_channels, {1, 7, 25}, check);
}

TEST_CASE("Winograd gradients by the weight of no samples are zero", "[cpu][winograd_weight_gradient]") {
  convolutions::for_each(convolutions::by_winograd, {0}, [](const Conv2dGeometry& g, int batch) {
    std::vector<float> result(static_cast<std::size_t>(g.weight_size()), 1);
    run(pool(2), g, batch, nullptr, nullptr, result.data());
    for (float value : result) REQUIRE(value == 0);
  });
}

TEST_CASE("Winograd gradients by the weight of images with channels last have the same bits",
          "[cpu][winograd_weight_gradient]") {
  constexpr Conv2dGeometry shapes[] = {{16, 4, 4, 16, 3, 3, 1, 1},
                                       {64, 28, 28, 64, 3, 3, 1, 1},
                                       {32, 9, 7, 48, 3, 3, 1, 0},
                                       {48, 6, 13, 32, 3, 3, 1, 2},
                                       {256, 5, 5, 192, 3, 3, 1, 1}};
  convolutions::for_each(shapes, {1, 3, 33}, [](const Conv2dGeometry& g, int batch) {
    const auto input = random_floats(batch * g.input_size(), 1), upstream = random_floats(batch * g.result_size(), 2);
    const auto turned_input = image_order::channels_last(input, g.channels, long{1} * g.height * g.width),
               turned_upstream = image_order::channels_last(upstream, g.out_channels, g.positions());
    std::vector<float> expected(static_cast<std::size_t>(g.weight_size())), found(expected.size());
    run(pool(2), g, batch, input.data(), upstream.data(), expected.data());
    run(pool(3), g, batch, turned_input.data(), turned_upstream.data(), found.data(), true);
    CHECK(found == expected);
  });
}

TEST_CASE("devices that train together find the Winograd gradient of all their samples",
          "[cpu][winograd_weight_gradient]") {
  constexpr Conv2dGeometry shapes[] = {{256, 4, 4, 192, 3, 3, 1, 1}, {170, 6, 5, 180, 3, 3, 1, 1}};
  constexpr int batch = 3;
  for (const int size : {2, 3, 5}) {
    convolutions::for_each(shapes, {batch}, [&](const Conv2dGeometry& g, int) {
      const auto input = random_floats(size * batch * g.input_size(), 1),
                 upstream = random_floats(size * batch * g.result_size(), 2);
      const double error = convolutions::relative_error(
          g.weight_size(),
          [&](auto& executor, float* to) {
            run_conv2d_weight_gradient(executor, g, size * batch, input.data(), upstream.data(), to);
          },
          [&](Workers& workers, float* to) {
            PlayedTeam team(size);
            const auto sum = team.play(workers, [&](int rank) {
              run(workers, g, batch, input.data() + rank * batch * g.input_size(),
                  upstream.data() + rank * batch * g.result_size(), to);
            });
            REQUIRE(team.sums() == size);
            std::copy(sum.begin(), sum.end(), to);
          });
      CHECK(error < 1e-5);
    });
  }
}

TEST_CASE("devices have Winograd gradients of their own where many tiles share the weights",
          "[cpu][winograd_weight_gradient]") {
  constexpr Conv2dGeometry g{16, 4, 4, 16, 3, 3, 1, 1};
  const auto input = random_floats(3 * g.input_size(), 1), upstream = random_floats(3 * g.result_size(), 2);
  std::vector<float> alone(static_cast<std::size_t>(g.weight_size())), found(alone);
  run(pool(1), g, 3, input.data(), upstream.data(), alone.data());
  PlayedTeam team(2);
  team.play(pool(1), [&](int) { run(pool(1), g, 3, input.data(), upstream.data(), found.data()); });
  CHECK(team.sums() == 0);
  CHECK(found == alone);
}
