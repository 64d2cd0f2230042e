#include "tenet/device/cpu/product.hpp"

#include <algorithm>

#include "../agreement.hpp"

using namespace tenet::cpu::detail;
using tenet::vector_width;

namespace {

constexpr float untouched = 12345.25f;

/// Small whole numbers, exactly as many as asked for: their products are exact in any order.
std::vector<float> whole_numbers(long size, int seed) {
  std::vector<float> result;
  result.reserve(1);  // not null, where there are none
  for (const int value : random_integers(size, -4, 5, seed)) result.push_back(static_cast<float>(value));
  return result;
}

std::size_t at(long index) { return static_cast<std::size_t>(index); }

/// One product on this thread against its definition: operands row by row or column by column, the result within a
/// wider matrix whose other elements stay.
void check_product(long rows, long columns, long inner, bool left_transposed, bool right_transposed, bool accumulate) {
  CAPTURE(rows, columns, inner, left_transposed, right_transposed, accumulate);
  const auto left = whole_numbers(rows * inner, 1), right = whole_numbers(inner * columns, 2);
  const Matrix a{left.data(), left_transposed ? 1 : inner, left_transposed ? rows : 1};
  const Matrix b{right.data(), right_transposed ? 1 : columns, right_transposed ? inner : 1};
  const long c_row = columns + 3;
  std::vector<float> result(at(rows * c_row), untouched), expected = result;
  for (long i = 0; i < rows; ++i)
    for (long j = 0; j < columns; ++j) {
      float sum = accumulate ? untouched : 0;
      for (long k = 0; k < inner; ++k) sum += a.data[i * a.row + k * a.column] * b.data[k * b.row + j * b.column];
      expected[at(i * c_row + j)] = sum;
    }
  std::vector<float> scratch(at(product_scratch + 16), untouched);
  product(rows, columns, inner, a, b, result.data(), c_row, accumulate, scratch.data());
  CHECK(result == expected);
  for (std::size_t i = product_scratch; i < scratch.size(); ++i) CHECK(scratch[i] == untouched);
}

}  // namespace

TEST_CASE("products on one thread are exact for whole numbers", "[cpu][product]") {
  const long sizes[][3] = {{1, 1, 1},    {1, 5, 7},   {2, 3, 40},  {3, 50, 5},   {4, 17, 33},
                           {5, 16, 16},  {7, 49, 3},  {9, 97, 20}, {8, 48, 1},   {1, 100, 150},
                           {4, 130, 19}, {33, 2, 70}, {12, 31, 0}, {65, 10, 129}};
  for (const auto& [rows, columns, inner] : sizes)
    for (int kind = 0; kind < 8; ++kind) check_product(rows, columns, inner, kind & 1, kind & 2, kind & 4);
}

TEST_CASE("products on one thread that do not fit into one block are exact", "[cpu][product]") {
  for (int kind = 0; kind < 8; ++kind) {
    check_product(left_block_rows + 3, 5, left_block_terms + 1, kind & 1, kind & 2, kind & 4);
    check_product(5, 2 * wide_columns + 7, 2 * most_terms + 5, kind & 1, kind & 2, kind & 4);
    check_product(2 * wide_rows + 1, 2 * wide_columns, most_terms + 1, kind & 1, kind & 2, kind & 4);
  }
}

TEST_CASE("copies, sums and fills of any length touch nothing else", "[cpu][product]") {
  for (long count = 0; count <= 70; ++count) {
    CAPTURE(count);
    const auto from = whole_numbers(count, 3);
    std::vector<float> copied(at(count + 20), untouched), added = copied, filled = copied;
    std::vector<float> expected_copy = copied, expected_sum = copied, expected_fill = copied;
    for (long i = 0; i < count; ++i) {
      expected_copy[at(10 + i)] = from[at(i)];
      expected_sum[at(10 + i)] += from[at(i)];
      expected_fill[at(10 + i)] = -3;
    }
    copy_floats(copied.data() + 10, from.data(), count);
    add_floats(added.data() + 10, from.data(), count);
    fill_floats(filled.data() + 10, -3, count);
    CHECK(copied == expected_copy);
    CHECK(added == expected_sum);
    CHECK(filled == expected_fill);
  }
}

TEST_CASE("four dot products of any length", "[cpu][product]") {
  for (long inner = 0; inner <= 40; ++inner) {
    CAPTURE(inner);
    const long b_row = inner + 1;
    const auto a = whole_numbers(inner, 5), b = whole_numbers(3 * b_row + inner, 6);
    float sums[4];
    four_dots<float>(inner, a.data(), b.data(), b_row, sums);
    for (long j = 0; j < 4; ++j) {
      float expected = 0;
      for (long k = 0; k < inner; ++k) expected += a[at(k)] * b[at(j * b_row + k)];
      CHECK(sums[j] == expected);
    }
  }
}

TEST_CASE("operands that tiles read in place, and those that they cannot", "[cpu][product]") {
  alignas(64) static float memory[64 * 16 + 16];
  CHECK(reads_in_place({memory, 16, 1}, 16));
  CHECK(!reads_in_place({memory, 16, 1}, 15));
  CHECK(!reads_in_place({memory, 17, 1}, 16));
  CHECK(!reads_in_place({memory, 1024, 1}, 16));
  CHECK(!reads_in_place({memory, 1, 16}, 16));
  CHECK(!reads_in_place({memory + 1, 16, 1}, 16));
  for (long rows : {1L, 7L, 20L}) {  // from aligned memory, so that they are read in place
    CAPTURE(rows);
    const long columns = 5 * vector_width, inner = 64 * 16 / columns;
    const auto left = whole_numbers(rows * inner, 1), right = whole_numbers(inner * columns, 2);
    std::copy(right.begin(), right.end(), memory);
    std::vector<float> scratch(at(product_scratch)), result(at(rows * columns)), packed = result;
    product(rows, columns, inner, {left.data(), inner, 1}, {memory, columns, 1}, result.data(), columns, false,
            scratch.data());
    std::copy(right.begin(), right.end(), memory + 1);
    product(rows, columns, inner, {left.data(), inner, 1}, {memory + 1, columns, 1}, packed.data(), columns, false,
            scratch.data());
    CHECK(result == packed);
  }
}

TEST_CASE("panels share the columns", "[cpu][product]") {
  for (long columns = 1; columns <= 40 * wide_columns; columns += 7) {
    CAPTURE(columns);
    const PanelCut panels(columns);
    CHECK(panels.first(0) == 0);
    CHECK(panels.first(panels.count) == round_up(columns, vector_width));
    for (long panel = 0; panel < panels.count; ++panel) {
      CHECK(panels.width(panel) > 0);
      CHECK(panels.width(panel) <= wide_columns);
      CHECK(panels.first(panel) % vector_width == 0);
    }
  }
}

TEST_CASE("sizes of blocks", "[cpu][product]") {
  CHECK(blocks_of(0, 8) == 0);
  CHECK(blocks_of(1, 8) == 1);
  CHECK(blocks_of(8, 8) == 1);
  CHECK(blocks_of(9, 8) == 2);
  CHECK(round_up(9, 8) == 16);
  CHECK(smaller(2, 3) == 2);
  CHECK(smaller(3, 2) == 2);
  CHECK(block_rows % tile_rows == 0);
}
