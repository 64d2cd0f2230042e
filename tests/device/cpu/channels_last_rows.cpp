#include "tenet/device/cpu/channels_last_rows.hpp"

#include "../agreement.hpp"

using namespace tenet::cpu::detail;

TEST_CASE("the taps of an axis that lie in the image are one range", "[cpu][channels_last_rows]") {
  for (const int direction : {1, -1}) {
    for (const int origin : {-5, -1, 0, 2, 7}) {
      const AxisTaps axis{6, 2, origin, direction, 4, 0, 1};
      for (int g = 0; g < 6; ++g) {
        for (int u = 0; u < axis.taps; ++u) {
          CHECK(axis.within(g, u) == (u >= axis.begin_of(g) && u < axis.end_of(g)));
        }
      }
    }
  }
}

TEST_CASE("the tiles of a part of a grid hold each position once", "[cpu][channels_last_rows]") {
  GridProduct product{};
  product.grid_width = 5;
  for (const long samples : {1, 2, 4, 5, 6, 7, 8, 11, 16}) {
    const GridPart part{3, samples, 2, 6};
    std::vector<int> seen(static_cast<std::size_t>(part.rows(product)));
    for (long row = 0; row < part.rows(product);) {
      const TileRows tile = part.tile(product, row);
      REQUIRE(tile.count >= 1);
      for (int i = 0; i < tile.count; ++i) {
        CHECK((!tile.together || (tile.y[i] == tile.y[0] && tile.x[i] == tile.x[0])));
        ++seen[static_cast<std::size_t>(((tile.y[i] - 2) * 5 + tile.x[i]) * samples + tile.n[i] - 3)];
      }
      for (int i = tile.count; i < tile.height; ++i) CHECK(tile.n[i] == tile.n[0]);
      row += tile.count;
    }
    for (const int count : seen) CHECK(count == 1);
  }
}

TEST_CASE("the tasks of a grid cover batch, lines and panels once", "[cpu][channels_last_rows]") {
  for (const long batch : {1, 5, 16, 33}) {
    for (const long lines : {1, 4, 28}) {
      for (const long panels : {1, 3, 8}) {
        const GridCut cut(batch, lines, 2 * lines, panels);
        std::vector<int> seen(static_cast<std::size_t>(batch * lines * panels));
        for (long index = 0; index < cut.tasks(); ++index) {
          const GridTask task(cut, index, batch, lines, panels);
          for (long n = task.sample0; n < task.sample0 + task.samples; ++n) {
            for (long y = task.line0; y < task.line1; ++y) {
              for (long p = task.panel0; p < task.panel1; ++p)
                ++seen[static_cast<std::size_t>((n * lines + y) * panels + p)];
            }
          }
        }
        for (const int count : seen) CHECK(count == 1);
      }
    }
  }
}
