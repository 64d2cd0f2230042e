#include "tenet/device/cpu/winograd_samples_last_weight_gradient.hpp"

#include "../../support/lane_passes.hpp"

using tenet::Conv2dGeometry;
using tenet::cpu::detail::WinogradLaneWeightPass;

TEST_CASE("gradients by the weight along the lines agree with the reference",
          "[cpu][winograd_samples_last_weight_gradient]") {
  convolutions::for_each(lane_passes::by_lines, {1, 3, 17, 33, 150}, [](const Conv2dGeometry& g, int batch) {
    if (g.kernel_height == 5)
      lane_passes::check_weight_pass(WinogradLaneWeightPass<5>{g}, batch);
    else
      lane_passes::check_weight_pass(WinogradLaneWeightPass<3>{g}, batch);
  });
}

TEST_CASE("gradients by the weight along the lines go over images in bands that stay in cache",
          "[cpu][winograd_samples_last_weight_gradient]") {
  constexpr WinogradLaneWeightPass<5> small{{6, 14, 14, 16, 5, 5, 1, 0}};
  CHECK(small.band() == 10);  // all lines
  for (const Conv2dGeometry& g : {Conv2dGeometry{8, 28, 28, 16, 3, 3, 1, 1}, {32, 20, 20, 32, 3, 3, 1, 1}}) {
    const WinogradLaneWeightPass<3> pass{g};
    CHECK(pass.band() < g.out_height());
    CHECK((pass.band() == 4 || pass.own_size() < 60000));
  }
}

TEST_CASE("gradients by the weight along the lines are the same bits in any blocks of channels",
          "[cpu][winograd_samples_last_weight_gradient]") {
  const WinogradLaneWeightPass<3> pass{{4, 13, 11, 9, 3, 3, 1, 1}};
  const auto x = random_floats(16 * pass.g.input_size(), 1), dy = random_floats(16 * pass.g.result_size(), 2);
  auto sums = [&](long blocks) {
    const long row = 16 * pass.sums();
    std::vector<float> result(static_cast<std::size_t>((9 + 4) * row)), own(static_cast<std::size_t>(pass.own_size()));
    for (long i = 0; i < blocks; ++i)
      pass.add(x.data(), dy.data(), 9 * i / blocks, 9 * (i + 1) / blocks, result.data() + 9 * i / blocks * row,
               own.data());
    return result;
  };
  CHECK(sums(1) == sums(2));
  CHECK(sums(1) == sums(3));
}
