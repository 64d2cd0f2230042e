#include "tenet/device/cpu/winograd_transform.hpp"

#include "../agreement.hpp"

using namespace tenet;
using namespace tenet::cpu::detail;

TEST_CASE("panels are as equal as whole vectors allow", "[cpu][winograd]") {
  for (long columns = 1; columns < 20 * vector_width; columns += 5) {
    const WinogradPanels panels(columns);
    long next = 0;
    for (long panel = 0; panel < panels.count; ++panel) {
      CHECK(panels.first(panel) == next);
      CHECK(panels.width(panel) <= wide_columns);
      CHECK(panels.width(panel) + vector_width >= panels.width(0));
      next += panels.width(panel);
    }
    CHECK(next == round_up(columns, vector_width));
  }
}

TEST_CASE("blocks of tiles cover a batch once", "[cpu][winograd]") {
  for (const Conv2dGeometry& g : {Conv2dGeometry{16, 30, 45, 16, 3, 3, 1, 1}, {16, 7, 7, 16, 3, 3, 1, 0}}) {
    for (long most : {1, 10, 40, 200}) {
      for (long batch : {1, 5, 12}) {
        const WinogradCut cut(g, batch, most);
        std::vector<int> seen(static_cast<std::size_t>(batch * cut.tiles_y));
        for (long block = 0; block < cut.blocks; ++block) {
          long tiles = 0;
          const long parts = 2;
          for (long index = 0; index < samples_of(cut, block, batch) * parts; ++index) {
            const WinogradUnit unit = unit_of(cut, block, parts, index);
            CHECK(unit.tile == tiles);
            tiles += unit.rows * cut.tiles_x;
            for (long i = 0; i < unit.rows; ++i) {
              ++seen[static_cast<std::size_t>(unit.sample * cut.tiles_y + unit.row + i)];
            }
          }
          CHECK(tiles == tiles_of(cut, block, batch));
          CHECK(tiles <= cut.most_tiles());
        }
        for (int count : seen) CHECK(count == 1);
      }
    }
  }
}
