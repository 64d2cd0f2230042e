#include "tenet/device/cpu/samples_last.hpp"

#include "../agreement.hpp"

using tenet::Layout;
using tenet::Planes;
using tenet::cpu::run_relayout_in_lanes;
using tenet::cpu::samples_last_size;

TEST_CASE("values are re-laid between other layouts and samples last", "[cpu][samples_last]") {
  // One channel of so many elements is the standard layout; more have their channels last.
  for (const Planes planes : {Planes{1, 1},
                              {1, 3},
                              {1, 4},
                              {15, 1},
                              {16, 1},
                              {17, 1},
                              {1, 35},
                              {784, 1},
                              {1030, 1},
                              {2051, 1},
                              {3, 5},
                              {16, 9},
                              {7, 49},
                              {32, 100},
                              {1500, 2}}) {
    for (const int batch : {1, 2, 3, 7, 15, 16, 17, 30, 33, 64}) {
      const long size = planes.channels * planes.positions;
      const Layout other = planes.positions > 1 ? Layout::channels_last : Layout::standard;
      CAPTURE(planes.channels, planes.positions, batch);
      const auto values = random_floats(size * batch, 1);
      const long there = samples_last_size(size, batch);
      CHECK(there == (batch + 15) / 16 * 16 * size);
      for (int threads = 1; threads <= 3; ++threads) {
        std::vector<float> lanes(static_cast<std::size_t>(there) + 64, 7), back(values.size() + 64, 7);
        run_relayout_in_lanes(pool(threads), {other, Layout::samples_last, planes}, batch, values.data(), lanes.data());
        long differing = 0;
        for (long i = 0; i < there; ++i) {
          const long n = i / (16 * size) * 16 + i % 16, sample = n < batch ? n : batch - 1;
          const long element = i % (16 * size) / 16;  // by channels, each with its positions
          const long at = element % planes.positions * planes.channels + element / planes.positions;
          differing += lanes[static_cast<std::size_t>(i)] != values[static_cast<std::size_t>(sample * size + at)];
        }
        for (std::size_t i = 0; i < 64; ++i) differing += lanes[static_cast<std::size_t>(there) + i] != 7;
        CHECK(differing == 0);
        run_relayout_in_lanes(pool(threads), {Layout::samples_last, other, planes}, batch, lanes.data(), back.data());
        CHECK(std::equal(values.begin(), values.end(), back.begin()));
        for (std::size_t i = values.size(); i < back.size(); ++i) CHECK(back[i] == 7);
      }
    }
  }
}

TEST_CASE("a batch that is too small for lanes has the order of its type in their place", "[cpu][samples_last]") {
  for (const Planes planes : {Planes{35, 1}, {1, 35}, {3, 5}, {16, 9}, {7, 49}}) {
    for (const int batch : {1, 3}) {
      const long size = planes.channels * planes.positions;
      const Layout other = planes.positions > 1 ? Layout::channels_last : Layout::standard;
      CAPTURE(planes.channels, planes.positions, batch);
      const auto values = random_floats(size * batch, 1);
      std::vector<float> there(values.size() + 16, 7), back(there);
      tenet::cpu::run_relayout(pool(2), {other, Layout::samples_last, planes}, batch, values.data(), there.data());
      long differing = 0;
      for (long i = 0; i < size * batch; ++i) {
        const long element = i % size, channel = element / planes.positions, position = element % planes.positions;
        differing += there[static_cast<std::size_t>(i)] !=
                     values[static_cast<std::size_t>(i - element + position * planes.channels + channel)];
      }
      CHECK(differing == 0);
      tenet::cpu::run_relayout(pool(2), {Layout::samples_last, other, planes}, batch, there.data(), back.data());
      CHECK(std::equal(values.begin(), values.end(), back.begin()));
      for (std::size_t i = values.size(); i < back.size(); ++i) CHECK((back[i] == 7 && there[i] == 7));
    }
  }
}
