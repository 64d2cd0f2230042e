#include "tenet/device/cpu/lane_pass.hpp"

#include <catch2/catch.hpp>

using tenet::cpu::detail::lane_band;
using tenet::cpu::detail::lane_bands;

namespace {

/// A result of some extents.
struct Result {
  int r, h, w;
  constexpr int rows() const { return r; }
  constexpr int height() const { return h; }
  constexpr int width() const { return w; }
};

}  // namespace

TEST_CASE("bands of lines cover a result once", "[cpu][lane_pass]") {
  for (const long height : {1, 5, 13, 28}) {
    for (const long count : {1, 2, 3, 7}) {
      long next = 0;
      for (long i = 0; i < count; ++i) {
        const auto band = lane_band(height, i, count);
        CHECK(band.first == next);
        next = band.last;
      }
      CHECK(next == height);
    }
  }
}

TEST_CASE("bands of lines stay in the first-level cache, but for long lines", "[cpu][lane_pass]") {
  CHECK(lane_bands(Result{6, 28, 28}) == 7);
  CHECK(lane_bands(Result{1, 8, 8}) == 1);
  CHECK(lane_bands(Result{100, 40, 40}) == 10);  // of four lines
}
