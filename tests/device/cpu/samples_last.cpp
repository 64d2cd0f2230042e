#include "tenet/device/cpu/samples_last.hpp"

#include "../agreement.hpp"

using tenet::Layout;
using tenet::cpu::run_relayout;
using tenet::cpu::samples_last_size;

TEST_CASE("values are re-laid between the standard layout and samples last", "[cpu][samples_last]") {
  for (const long size : {1, 3, 4, 15, 16, 17, 35, 784, 1030, 2051}) {
    for (const int batch : {1, 2, 3, 7, 15, 16, 17, 30, 33, 64}) {
      CAPTURE(size, batch);
      const auto standard = random_floats(size * batch, 1);
      const long there = samples_last_size(size, batch);
      CHECK(there == (batch + 15) / 16 * 16 * size);
      for (int threads = 1; threads <= 3; ++threads) {
        std::vector<float> lanes(static_cast<std::size_t>(there) + 64, 7), back(standard.size() + 64, 7);
        run_relayout(pool(threads), Layout::standard, Layout::samples_last, size, batch, standard.data(), lanes.data());
        long differing = 0;
        for (long i = 0; i < there; ++i) {
          const long n = i / (16 * size) * 16 + i % 16, sample = n < batch ? n : batch - 1;
          differing += lanes[static_cast<std::size_t>(i)] !=
                       standard[static_cast<std::size_t>(sample * size + i % (16 * size) / 16)];
        }
        for (std::size_t i = 0; i < 64; ++i) differing += lanes[static_cast<std::size_t>(there) + i] != 7;
        CHECK(differing == 0);
        run_relayout(pool(threads), Layout::samples_last, Layout::standard, size, batch, lanes.data(), back.data());
        CHECK(std::equal(standard.begin(), standard.end(), back.begin()));
        for (std::size_t i = standard.size(); i < back.size(); ++i) CHECK(back[i] == 7);
      }
    }
  }
}
