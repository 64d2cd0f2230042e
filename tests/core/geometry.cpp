#include "tenet/core/geometry.hpp"

#include <catch2/catch.hpp>

namespace {

constexpr tenet::Conv2dGeometry conv{3, 28, 20, 8, 5, 3, 2, 1};
static_assert(conv.out_height() == 13 && conv.out_width() == 10);
static_assert(conv.positions() == 130 && conv.taps() == 45 && conv.weight_size() == 360);
static_assert(conv.input_size() == 3 * 28 * 20 && conv.result_size() == 8 * 130);
static_assert(conv.flops() == 2.0 * 8 * 130 * 45);

constexpr int height_of(const tenet::Conv2dGeometry& g) { return g.height; }
static_assert(height_of(tenet::Known<conv>{}) == 28 && tenet::Known<conv>::value.width == 20);

constexpr tenet::Pool2dGeometry pool{4, 9, 8, 2, 2, 0};
static_assert(pool.out_height() == 4 && pool.out_width() == 4 && pool.input_size() == 288 && pool.result_size() == 64);

constexpr tenet::MatmulGeometry matmul{5, 2, 3, 4, false, false, 8, 12};
static_assert(matmul.result_size() == 30 && matmul.flops() == 2.0 * 5 * 2 * 3 * 4);
static_assert(tenet::MatmulGeometry{5, 2, 3, 4, false, false, 8, 12, true}.result_size() == 6);

constexpr tenet::StridedCopyGeometry copy{2, {2, 3}, {3, 1}, {1, 2}, 0, 0, true};
static_assert(copy.size(7) == 42);

}  // namespace

TEST_CASE("output extents count the windows that fit", "[geometry]") {
  for (int size = 1; size < 12; ++size) {
    for (int kernel = 1; kernel <= size; ++kernel) {
      for (int stride = 1; stride < 4; ++stride) {
        for (int padding = 0; padding < 3; ++padding) {
          int windows = 0;
          for (int start = -padding; start + kernel <= size + padding; start += stride) ++windows;
          CHECK(tenet::Conv2dGeometry{1, size, 3, 1, kernel, 1, stride, padding}.out_height() == windows);
          CHECK(tenet::Pool2dGeometry{1, 12, size, kernel, stride, padding}.out_width() == windows);
        }
      }
    }
  }
}
