#include "tenet/device/cpu/channels_last_tile.hpp"

#include "../agreement.hpp"

using namespace tenet::cpu::detail;
using tenet::vector_width;

TEST_CASE("tiles of rows by pointers add up runs of terms", "[cpu][channels_last_tile]") {
  constexpr long row = 40;
  const auto left = random_floats(20 * row, 1), panel = random_floats(60 * wide_columns, 2);
  for (const int high : {0, 1}) {
    for (int vectors = 1; vectors <= wide_vectors; ++vectors) {
      const int rows = high == 1 ? wide_rows : low_rows;
      const long width = vectors * vector_width;
      RowRun runs[2] = {{{}, 3, 17}, {{}, 30, 8}};
      float* to[wide_rows];
      std::vector<float> result(static_cast<std::size_t>(wide_rows * 2 * width), 2);
      for (int i = 0; i < rows; ++i) {
        runs[0].rows[i] = left.data() + (7 * i % 5) * row;
        runs[1].rows[i] = left.data() + (19 - i) * row;
        to[i] = result.data() + (rows - 1 - i) * 2 * width;
      }
      const bool accumulate = vectors % 2 == 0;
      run_tiles<float>[high][vectors - 1](runs, runs + 2, panel.data(), to, accumulate);
      double worst = 0;
      for (int i = 0; i < rows; ++i) {
        for (long j = 0; j < width; ++j) {
          double sum = accumulate ? 2 : 0;
          for (const RowRun& run : runs) {
            for (long k = 0; k < run.count; ++k)
              sum += double{run.rows[i][k]} * panel[static_cast<std::size_t>((run.right + k) * width + j)];
          }
          worst = std::fmax(worst, std::fabs(sum - to[i][j]));
        }
        CHECK(to[i][width] == 2);
      }
      CHECK(worst < 1e-5);
    }
  }
}

TEST_CASE("tiles of channels add up positions", "[cpu][channels_last_tile]") {
  const auto left = random_floats(500, 1), panel = random_floats(50 * wide_columns, 2);
  std::vector<PositionTerm> terms;
  for (long k = 0; k < 29; ++k) terms.push_back({left.data() + (k * 17) % 400, (k * 11) % 37});
  for (const int high : {0, 1}) {
    for (int vectors = 1; vectors <= wide_vectors; ++vectors) {
      const long rows = high == 1 ? wide_rows : low_rows, width = vectors * vector_width, row = width + 3;
      std::vector<float> result(static_cast<std::size_t>(rows * row), 2);
      const bool accumulate = vectors % 2 == 0;
      position_tiles<float>[high][vectors - 1](terms.data(), terms.data() + terms.size(), 5, panel.data(), width,
                                               result.data(), row, accumulate);
      double worst = 0;
      for (long i = 0; i < rows; ++i) {
        for (long j = 0; j < width; ++j) {
          double sum = accumulate ? 2 : 0;
          for (const PositionTerm& term : terms)
            sum += double{term.left[5 + i]} * panel[static_cast<std::size_t>(term.right * width + j)];
          worst = std::fmax(worst, std::fabs(sum - result[static_cast<std::size_t>(i * row + j)]));
        }
        CHECK(result[static_cast<std::size_t>(i * row + width)] == 2);
      }
      CHECK(worst < 1e-5);
    }
  }
}

TEST_CASE("the rows of tiles leave at most three to fill up", "[cpu][channels_last_tile]") {
  for (long rows = 1; rows < 40; ++rows) {
    long left = rows;
    while (left > 0) left -= rows_of_tile(left);
    CHECK(left > -low_rows);
  }
}
