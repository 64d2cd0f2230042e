#include <catch2/catch.hpp>

#include "tenet/device/cuda/few_channels_weight.hpp"

using Parts = tenet::gpu::detail::FewChannelsWeightParts<float, true, 8>;

TEST_CASE("parts of a gradient by the weight cover all lines of a batch, and have room in a workspace",
          "[cuda][conv2d]") {
  for (const tenet::Conv2dGeometry& g : {tenet::Conv2dGeometry{1, 28, 28, 64, 3, 3, 1, 1},
                                         {1, 28, 28, 6, 5, 5, 1, 2},
                                         {6, 14, 14, 16, 5, 5, 1, 0},
                                         {31, 9, 9, 64, 5, 5, 1, 0}})
    for (const int batch : {0, 1, 256, 100000}) {
      CAPTURE(g.channels, g.out_channels, batch);
      const Parts parts(g, batch, nullptr, nullptr, nullptr);
      CHECK(parts.parts * parts.lines_of_part >= long{batch} * g.out_height());
      CHECK((parts.parts - 1) * parts.lines_of_part < std::max(long{batch} * g.out_height(), 1l));
      CHECK(parts.floats_of_part >= g.weight_size());
      CHECK(parts.floats_of_part % 4 == 0);
      CHECK(parts.parts * parts.floats_of_part * 4 <= 60l << 20);  // behind them are the sums of sums
    }
}
