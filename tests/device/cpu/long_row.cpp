#include "tenet/device/cpu/long_row.hpp"

#include "../../support/convolutions.hpp"
#include "../../support/lane_passes.hpp"
#include "tenet/device/reference/conv2d.hpp"

using tenet::Conv2dGeometry;
using tenet::cpu::detail::LongRow;

TEST_CASE("the convolution as a long row agrees with the reference", "[cpu][long_row]") {
  // Borders of every width, fewer channels than a tile and channels that fill none, one line, kernels as wide as it.
  constexpr Conv2dGeometry shapes[] = {
      {1, 28, 28, 6, 5, 5, 1, 2}, {6, 14, 14, 16, 5, 5, 1, 0},  {3, 9, 7, 13, 3, 3, 1, 1}, {2, 3, 3, 5, 3, 3, 1, 0},
      {5, 9, 7, 30, 3, 2, 1, 1},  {2, 9, 40, 3, 29, 29, 1, 14}, {4, 1, 50, 1, 1, 7, 1, 3}, {32, 4, 4, 32, 1, 1, 1, 0},
      {7, 5, 70, 2, 3, 3, 1, 2},  {3, 32, 32, 4, 3, 3, 1, 1},
  };
  convolutions::for_each(shapes, {1, 2, 5}, [](const Conv2dGeometry& g, int batch) {
    REQUIRE(tenet::cpu::long_row_fits(g));
    const auto input = random_floats(batch * g.input_size(), 1), weight = random_floats(g.weight_size(), 2);
    const long size = batch * g.result_size();
    const auto run = [&](auto& executor, float* to) {
      const lane_passes::AddOne add{to};
      if constexpr (std::is_same_v<std::decay_t<decltype(executor)>, tenet::reference::Serial>)
        run_conv2d(executor, g, batch, input.data(), weight.data(), to, add.epilogue());
      else
        run_conv2d_long_row(executor, g, batch, input.data(), weight.data(), to, add.epilogue());
    };
    check_agreement(size, 2e-6 * static_cast<double>(g.taps()), run);
  });
}

TEST_CASE("strides, and kernels wider than the image, are no long row", "[cpu][long_row]") {
  CHECK_FALSE(tenet::cpu::long_row_fits({2, 9, 9, 4, 3, 3, 2, 1}));
  CHECK_FALSE(tenet::cpu::long_row_fits({2, 3, 3, 5, 5, 5, 1, 2}));
}

TEST_CASE("a long row reads no further than its image", "[cpu][long_row]") {
  for (const Conv2dGeometry& g : {Conv2dGeometry{1, 28, 28, 6, 5, 5, 1, 2}, Conv2dGeometry{3, 9, 7, 13, 3, 3, 1, 1},
                                  Conv2dGeometry{1, 1, 1, 1, 1, 1, 1, 0}}) {
    const LongRow row{g};
    const long last_tap = (g.channels - 1) * row.plane() + (g.kernel_height - 1) * row.width() + g.kernel_width - 1;
    CHECK(last_tap + row.sums_row() <= row.image_floats());
    CHECK(row.positions() <= row.sums_row());
    CHECK(tenet::cpu::scratch_conv2d_long_row(g) == row.behind_image() + g.out_channels * row.sums_row());
  }
}
