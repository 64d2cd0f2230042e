#include "tenet/device/cpu/lane_tile.hpp"

#include <algorithm>
#include <type_traits>

#include "../agreement.hpp"

using namespace tenet;
using namespace tenet::cpu::detail;

namespace {

/// A tile of each width, of each number of its rows, against loops over single numbers; nothing else is written.
template <class Left, int Rows>
void check_tiles() {
  constexpr bool number = std::is_same_v<Left, float>;
  const LaneSum s{{2, 3, 4}, {97, 29, 7}, {53, 17, 5}};
  const long left_row = number ? 1 : 150, right_column = 11, result_column = vector_width + 3, result_row = 160;
  const auto left = random_floats(150 * Rows + 200, 1), right = random_floats(250, 2);
  const auto before = random_floats(result_row * Rows, 3);
  const auto at = [](const std::vector<float>& values, long i) { return double{values[static_cast<std::size_t>(i)]}; };
  const auto sum = [&](long i, long j, long lane) {
    double result = 0;
    for (long a = 0; a < s.trips[0]; ++a) {
      for (long b = 0; b < s.trips[1]; ++b) {
        for (long c = 0; c < s.trips[2]; ++c) {
          result +=
              at(left,
                 a * s.left_steps[0] + b * s.left_steps[1] + c * s.left_steps[2] + i * left_row + (number ? 0 : lane)) *
              at(right, a * s.right_steps[0] + b * s.right_steps[1] + c * s.right_steps[2] + j * right_column + lane);
        }
      }
    }
    return result;
  };
  const LaneTiles& tiles = lane_tiles<Left, Rows>;
  for (long columns = 1; columns <= tiles.most_columns; ++columns) {
    for (int rows = 1; rows <= Rows; ++rows) {
      for (const bool accumulate : {false, true}) {
        CAPTURE(Rows, columns, rows, accumulate);
        std::vector<float> result = before;
        tiles.tile[columns - 1](s, left.data(), left_row, right.data(), right_column, result.data(), result_row,
                                result_column, rows, accumulate);
        std::vector<double> expected(before.begin(), before.end());
        for (long i = 0; i < rows; ++i) {
          for (long j = 0; j < columns; ++j) {
            for (long lane = 0; lane < vector_width; ++lane) {
              const long place = i * result_row + j * result_column + lane;
              expected[static_cast<std::size_t>(place)] = sum(i, j, lane) + (accumulate ? at(before, place) : 0);
            }
          }
        }
        double worst = 0;
        for (std::size_t i = 0; i < result.size(); ++i) worst = std::fmax(worst, std::fabs(result[i] - expected[i]));
        CHECK(worst < 1e-5);
      }
    }
  }
}

}  // namespace

TEST_CASE("tiles of lanes are the sums of products of single numbers", "[cpu][lane_tile]") {
  check_tiles<float, 4>();
  check_tiles<float, 6>();
  check_tiles<Vector, 3>();
  check_tiles<Vector, 4>();
}

TEST_CASE("positions are cut into tiles that are as equal as possible", "[cpu][lane_tile]") {
  const LaneTiles& tiles = lane_tiles<float, 4>;
  for (long count = 1; count < 40; ++count) {
    long least = count, most = 0;
    for (long left = count; left > 0; left -= tiles.next(left)) {
      least = std::min(least, tiles.next(left));
      most = std::max(most, tiles.next(left));
    }
    CHECK(least > 0);
    CHECK(most <= tiles.most_columns);
    CHECK(most - least <= 1);
  }
}
