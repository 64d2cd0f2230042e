#include "tenet/device/cpu/lane_pass.hpp"

#include "../agreement.hpp"

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
  for (const Result& result : {Result{6, 28, 28}, {16, 10, 10}, {1, 1, 1}, {5, 13, 200}}) {
    for (const long unit : {1, 2, 4}) {
      for (const long count : {1L, 2L, 3L, tenet::cpu::detail::lane_bands(result, unit)}) {
        long next = 0;
        for (long i = 0; i < count; ++i) {
          const auto band = tenet::cpu::detail::lane_band(result, i, count, unit);
          CHECK(band.first_row == 0);
          CHECK(band.last_row == result.rows());
          CHECK(band.y0 == next);
          CHECK(((band.y1 - band.y0) % unit == 0 || band.y1 == result.height()));
          next = band.y1;
        }
        CHECK(next == result.height());
      }
    }
  }
}

TEST_CASE("bands of lines stay in the first-level cache, but for long lines", "[cpu][lane_pass]") {
  CHECK(tenet::cpu::detail::lane_bands(Result{6, 28, 28}, 1) == 7);
  CHECK(tenet::cpu::detail::lane_bands(Result{1, 8, 8}, 1) == 1);
  CHECK(tenet::cpu::detail::lane_bands(Result{100, 40, 40}, 1) == 10);  // of four lines
}
