#include "tenet/device/cpu/channels_last_ahead.hpp"

#include "../../support/channels_last.hpp"

using tenet::Conv2dGeometry;
using namespace tenet::cpu::detail;

TEST_CASE("what is fetched ahead lies in the images, each run once", "[cpu][channels_last_ahead]") {
  for (const Conv2dGeometry& g : channels_last::shapes) {
    const auto input = random_floats(5 * g.input_size(), 1), gradient = random_floats(5 * g.result_size(), 1);
    std::vector<const void*> room(static_cast<std::size_t>(3 * FactorsAhead::most_runs(g, g.out_height())));
    FactorsAhead ahead(g, {2, 5, 0, g.out_height()}, input.data(), g.channels, gradient.data(), g.out_channels, 7,
                       room.data());
    CHECK(ahead.positions.end - room.data() <= static_cast<long>(room.size()));
    CHECK(ahead.positions.end - ahead.positions.next == 3 * g.positions());
    for (const RunsAhead& runs : {ahead.pixels, ahead.positions}) {
      const auto& image = &runs.next[0] == room.data() ? input : gradient;
      for (const void** run = runs.next; run < runs.end; ++run) {
        CHECK((run == runs.next || run[0] > run[-1]));
        CHECK(*run >= image.data());
        CHECK(static_cast<const float*>(*run) < image.data() + image.size());
      }
    }
    for (int i = 0; i < 7; ++i) ahead.fetch();
    CHECK(ahead.pixels.next == ahead.pixels.end);
    CHECK(ahead.positions.next == ahead.positions.end);
  }
}
