#include "tenet/device/cpu/tile.hpp"

#include "../agreement.hpp"

using namespace tenet::cpu::detail;

TEST_CASE("a tile is the product of its operands, for every height, width and layout", "[cpu][tile]") {
  constexpr float untouched = 12345.25f;
  for (int rows = 1; rows <= 2 * tile_rows; ++rows)
    for (int vectors = 1; vectors <= wide_vectors; ++vectors)
      for (long inner : {0L, 1L, 2L, 13L, 40L})
        for (const bool accumulate : {false, true})
          for (const bool transposed : {false, true}) {
            CAPTURE(rows, vectors, inner, accumulate, transposed);
            const long columns = vectors * tenet::vector_width;
            // Rows of the left operand lie along the sum or across it; all rows are longer than they need be.
            const long a_row = transposed ? 1 : inner + 3, a_step = transposed ? rows + 2 : 1;
            const long b_step = columns + 5, c_row = columns + 7;
            std::vector<float> a, b, c(static_cast<std::size_t>(rows * c_row), untouched);
            for (int value : random_integers((rows + 2) * (inner + 3), -4, 5, 1))
              a.push_back(static_cast<float>(value));
            for (int value : random_integers((inner + 1) * b_step, -4, 5, 2)) b.push_back(static_cast<float>(value));
            std::vector<float> expected = c;
            for (long i = 0; i < rows; ++i)
              for (long j = 0; j < columns; ++j) {
                float sum = accumulate ? untouched : 0;
                for (long k = 0; k < inner; ++k)
                  sum +=
                      a[static_cast<std::size_t>(i * a_row + k * a_step)] * b[static_cast<std::size_t>(k * b_step + j)];
                expected[static_cast<std::size_t>(i * c_row + j)] = sum;
              }
            tiles(rows, vectors, inner, a.data(), a_row, a_step, b.data(), b_step, c.data(), c_row, accumulate);
            CHECK(c == expected);
          }
}

TEST_CASE("a packing tile multiplies and keeps the rows that it read", "[cpu][tile]") {
  for (long inner : {0L, 1L, 5L, 70L}) {
    CAPTURE(inner);
    const long b_step = wide_columns + 3, a_row = inner + 2, c_row = wide_columns + 1;
    std::vector<float> a, b;
    for (int value : random_integers(wide_rows * a_row, -4, 5, 1)) a.push_back(static_cast<float>(value));
    for (int value : random_integers((inner + 1) * b_step, -4, 5, 2)) b.push_back(static_cast<float>(value));
    std::vector<float> expected(static_cast<std::size_t>(wide_rows * c_row), 3), result = expected;
    std::vector<float> packed(static_cast<std::size_t>(inner * wide_columns) + 1, -7);
    tiles(wide_rows, wide_vectors, inner, a.data(), a_row, 1, b.data(), b_step, expected.data(), c_row, true);
    packing_tile<float>(inner, a.data(), a_row, b.data(), b_step, result.data(), c_row, true, packed.data());
    CHECK(result == expected);
    for (long k = 0; k < inner; ++k)
      for (long j = 0; j < wide_columns; ++j)
        CHECK(packed[static_cast<std::size_t>(k * wide_columns + j)] == b[static_cast<std::size_t>(k * b_step + j)]);
    CHECK(packed.back() == -7);
  }
}

TEST_CASE("tiles that fetch ahead give the same bits", "[cpu][tile]") {
  const std::vector<float> next(3000, 1);
  for (long rows = 1; rows <= 4 * wide_rows; ++rows)
    for (int vectors = 1; vectors <= wide_vectors; ++vectors)
      for (long inner : {0L, 1L, 40L})
        for (const long count : {0L, 1L, 3000L}) {
          CAPTURE(rows, vectors, inner, count);
          const long columns = vectors * tenet::vector_width, a_row = inner + 3, c_row = columns + 7;
          const auto a = random_floats(rows * a_row, 1), b = random_floats((inner + 1) * columns, 2);
          std::vector<float> expected(static_cast<std::size_t>(rows * c_row), 3), found = expected;
          tiles(rows, vectors, inner, a.data(), a_row, 1, b.data(), columns, expected.data(), c_row, true);
          tiles_fetching(rows, vectors, inner, a.data(), a_row, b.data(), columns, found.data(), c_row, true,
                         {next.data(), count});
          CHECK(found == expected);
        }
}

TEST_CASE("the sums of a tile fit into the vector registers", "[cpu][tile]") {
  // Sums, a row of the right operand and one number of the left: 28 of 32 registers, or all of 16.
  constexpr int registers = tile_rows * tile_vectors + tile_vectors + 1;
  CHECK(registers <= tenet::vector_registers);
  CHECK(wide_rows * wide_vectors + wide_vectors + 1 <= tenet::vector_registers);
  CHECK(tile_columns == tile_vectors * tenet::vector_width);
  CHECK(wide_columns == wide_vectors * tenet::vector_width);
  CHECK(wide_columns >= tile_columns);
}
