#include "tenet/device/cpu/transpose.hpp"

#include "../agreement.hpp"

using namespace tenet;
using namespace tenet::cpu::detail;

TEST_CASE("matrices of any size are transposed", "[cpu][transpose]") {
  constexpr float untouched = 12345.25f;
  for (const auto function : {transpose, transpose_vectors}) {
    for (const long rows : {1, 3, 4, 7, 8, 15, 16, 17, 35, 48}) {
      for (const long columns : {1, 3, 4, 5, 16, 19, 49}) {
        for (const long from_row : {columns, columns + 3, 1024L}) {  // also rows that compete for the same cache lines
          CAPTURE(function == transpose, rows, columns, from_row);
          const auto from = random_floats((rows - 1) * from_row + columns, 1);  // no longer: nothing behind is read
          const long to_row = rows + 2;
          std::vector<float> to(static_cast<std::size_t>(columns * to_row + 16), untouched), expected = to;
          for (long j = 0; j < columns; ++j)
            for (long i = 0; i < rows; ++i)
              expected[static_cast<std::size_t>(j * to_row + i)] = from[static_cast<std::size_t>(i * from_row + j)];
          function(from.data(), from_row, rows, columns, to.data(), to_row);
          CHECK(to == expected);
        }
      }
    }
  }
}

TEST_CASE("lanes of two vectors are sorted and interleaved", "[cpu][transpose]") {
  const auto numbers = random_floats(2 * vector_width, 1);
  const Vector a = load(numbers.data()), b = load(numbers.data() + vector_width);
  float back[2 * vector_width], even[vector_width];
  store(even, even_lanes(a, b));
  store(back, interleave_low(a, b));
  store(back + vector_width, interleave_high(a, b));
  for (int i = 0; i < vector_width; ++i) {
    CHECK(even[i] == numbers[static_cast<std::size_t>(2 * i)]);
    CHECK(back[2 * i] == a[i]);
    CHECK(back[2 * i + 1] == b[i]);
  }
}
