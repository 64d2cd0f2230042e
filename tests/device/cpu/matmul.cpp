#include "tenet/device/cpu/matmul.hpp"

#include <algorithm>

#include "../agreement.hpp"
#include "tenet/device/reference/matmul.hpp"

namespace {

using tenet::MatmulGeometry;

void check_product(const MatmulGeometry& g) {
  CAPTURE(g.count, g.rows, g.columns, g.inner, g.transpose_lhs, g.transpose_rhs, g.lhs_step, g.rhs_step,
          g.accumulate_over_count);
  const auto lhs = random_floats(g.rows * g.inner + g.lhs_step * (g.count - 1), 1);
  const auto rhs = random_floats(g.inner * g.columns + g.rhs_step * (g.count - 1), 2);
  check_agreement(g.result_size(), 2e-6 * std::sqrt(static_cast<double>(g.inner * g.count)),
                  [&](auto& executor, float* to) { run_matmul(executor, g, lhs.data(), rhs.data(), to); });
  std::vector<float> result(static_cast<std::size_t>(g.result_size()));
  check_workspace(tenet::cpu::workspace_matmul(nullptr, g, 0.0f),
                  [&](auto& workers) { run_matmul(workers, g, lhs.data(), rhs.data(), result.data()); });
}

/// The same of bfloat16 numbers, whose products are exact as floats: no other error than that of the sums.
void check_bfloat16_product(const MatmulGeometry& g) {
  CAPTURE(g.count, g.rows, g.columns, g.inner, g.transpose_lhs, g.transpose_rhs, g.lhs_step, g.rhs_step,
          g.accumulate_over_count);
  const auto drawn = [](long count, unsigned seed) {
    std::vector<tenet::bfloat16> numbers;
    for (const float x : random_floats(count, seed)) numbers.emplace_back(x);
    return numbers;
  };
  const auto lhs = drawn(g.rows * g.inner + g.lhs_step * (g.count - 1), 1);
  const auto rhs = drawn(g.inner * g.columns + g.rhs_step * (g.count - 1), 2);
  const std::vector<float> whole_lhs(lhs.begin(), lhs.end()), whole_rhs(rhs.begin(), rhs.end());
  check_agreement(g.result_size(), 2e-6 * std::sqrt(static_cast<double>(g.inner * g.count)),
                  [&](auto& executor, float* to) {
                    if constexpr (requires { executor.size(); })
                      tenet::cpu::run_bfloat16_matmul(executor, g, lhs.data(), rhs.data(), to);
                    else
                      run_matmul(executor, g, whole_lhs.data(), whole_rhs.data(), to);
                  });
  std::vector<float> result(static_cast<std::size_t>(g.result_size()));
  check_workspace(tenet::cpu::workspace_matmul(nullptr, g, tenet::bfloat16{}), [&](auto& workers) {
    tenet::cpu::run_bfloat16_matmul(workers, g, lhs.data(), rhs.data(), result.data());
  });
}

}  // namespace

TEST_CASE("products agree with the reference for every transposition and odd sizes", "[cpu][matmul]") {
  const auto check = GENERATE(&check_product, &check_bfloat16_product);
  const long sizes[][3] = {{1, 1, 1},    {1, 7, 5},     {2, 33, 40},  {3, 130, 260}, {4, 3, 17},    {5, 16, 3},
                           {8, 48, 128}, {9, 49, 129},  {17, 1, 300}, {64, 1, 31},   {31, 64, 1},   {130, 50, 70},
                           {1, 500, 90}, {70, 401, 20}, {1, 64, 64},  {257, 10, 65}, {10, 300, 33}, {129, 193, 257}};
  for (const auto& size : sizes) {
    for (int transposed = 0; transposed < 4; ++transposed) {
      const long rows = size[0], columns = size[1], inner = size[2];
      check({1, rows, columns, inner, (transposed & 1) != 0, (transposed & 2) != 0, rows * inner, inner * columns});
    }
  }
}

TEST_CASE("large products agree with the reference however they are cut", "[cpu][matmul]") {
  const auto check = GENERATE(&check_product, &check_bfloat16_product);
  using tenet::cpu::detail::MatmulCut;
  const MatmulGeometry rows_and_columns{1, 257, 300, 129, false, false, 0, 0}, once{1, 2050, 70, 65, false, true, 0, 0},
      inner{1, 65, 97, 2100, true, false, 0, 0}, wide{1, 33, 1000, 520, true, true, 0, 0};
  CHECK(MatmulCut(rows_and_columns).tasks() > 1);
  CHECK(MatmulCut(once).lay_right);
  CHECK(MatmulCut(inner).inner_blocks > 1);
  for (const MatmulGeometry& g :
       {rows_and_columns, once, inner, wide, MatmulGeometry{1, 2500, 1, 1100, false, false, 0, 0},
        MatmulGeometry{1, 3, 1500, 1030, false, true, 0, 0}, MatmulGeometry{1, 65, 97, 4201, true, false, 0, 0}})
    check(g);
}

TEST_CASE("an epilogue comes once an element, behind the last of the sums that are added up", "[cpu][matmul]") {
  const MatmulGeometry g{1, 65, 97, 2100, true, false, 0, 0};
  REQUIRE(tenet::cpu::detail::MatmulCut(g).inner_blocks > 1);
  const auto lhs = random_floats(g.rows * g.inner, 1), rhs = random_floats(g.inner * g.columns, 2);
  std::vector<float> expected(static_cast<std::size_t>(g.result_size())), found(expected.size());
  const tenet::Epilogue doubled{[](const void* result, long first, long last) {
                                  float* const all = static_cast<float*>(const_cast<void*>(result));
                                  for (long i = first; i < last; ++i) all[i] *= 2;
                                },
                                found.data()};
  run_matmul(pool(2), g, lhs.data(), rhs.data(), expected.data());
  run_matmul(pool(2), g, lhs.data(), rhs.data(), found.data(), doubled);
  for (float& number : expected) number *= 2;
  CHECK(found == expected);
}

TEST_CASE("every cut covers the result once", "[cpu][matmul]") {
  using tenet::cpu::detail::MatmulCut;
  for (long rows : {1L, 24L, 100L, 2048L})
    for (long columns : {1L, 64L, 390L, 1000L})
      for (long inner : {1L, 128L, 2048L})
        for (int transposed = 0; transposed < 4; ++transposed) {
          CAPTURE(rows, columns, inner, transposed);
          const MatmulGeometry g{1, rows, columns, inner, (transposed & 1) != 0, (transposed & 2) != 0, 0, 0};
          const MatmulCut cut(g);
          CHECK(cut.first_row(g, 0) == 0);
          CHECK(cut.first_row(g, cut.row_blocks) == rows);
          CHECK(cut.first_panel(0) == 0);
          CHECK(cut.first_panel(cut.column_blocks) == cut.panels.count);
          CHECK(cut.first_term(g, cut.inner_blocks) == inner);
          CHECK(cut.tasks() >= 1);
          CHECK(cut.tasks() <= 8);
          for (long block = 0; block < cut.column_blocks; ++block)
            CHECK(cut.first_panel(block) < cut.first_panel(block + 1));
        }
}

TEST_CASE("products whose operands lie in one matrix are one product", "[cpu][matmul]") {
  using tenet::cpu::detail::merged;
  const MatmulGeometry summed = merged({3, 4, 5, 6, true, false, 24, 30, true}),
                       shared = merged({3, 4, 5, 6, false, true, 24, 0});
  CHECK(summed.count == 1);
  CHECK(summed.inner == 18);
  CHECK(shared.count == 1);
  CHECK(shared.rows == 12);
  CHECK(merged({3, 4, 5, 6, true, false, 24, 0}).count == 3);
  CHECK(merged({3, 4, 5, 6, true, false, 25, 30, true}).count == 3);
}

TEST_CASE("batches of products, with own, shared and summed operands", "[cpu][matmul]") {
  const auto check = GENERATE(&check_product, &check_bfloat16_product);
  for (long count : {2L, 7L, 65L}) {
    for (int transposed = 0; transposed < 4; ++transposed) {
      const bool left = (transposed & 1) != 0, right = (transposed & 2) != 0;
      check({count, 19, 35, 18, left, right, 19 * 18, 18 * 35});
      check({count, 19, 35, 18, left, right, 19 * 18, 0});
      check({count, 19, 35, 18, left, right, 0, 18 * 35});
      check({count, 19, 35, 18, left, right, 19 * 18, 18 * 35, true});
      check({count, 3, 35, 18, left, right, 3 * 18, 18 * 35, true});
      check({count, 19, 35, 17, left, right, 19 * 17, 17 * 35});
      check({count, 19, 35, 18, left, right, 19 * 18 + 1, 18 * 35 + 3});
      check({count, 40, 1, 18, left, right, 40 * 18, 18, true});
      check({count, 1, 40, 18, left, right, 18, 40 * 18, false});
    }
  }
}

TEST_CASE("a product with nothing to sum is zero", "[cpu][matmul]") {
  float result[6] = {1, 2, 3, 4, 5, 6};
  run_matmul(pool(2), MatmulGeometry{1, 2, 3, 0, false, false, 0, 0}, result, result, result);
  for (float value : result) CHECK(value == 0);
  std::fill(result, result + 6, 7.0f);  // a sum over no products
  run_matmul(pool(2), MatmulGeometry{0, 2, 3, 4, false, false, 8, 12, true}, result, result, result);
  for (float value : result) CHECK(value == 0);
  std::fill(result, result + 6, 7.0f);
  const tenet::bfloat16* const nothing = nullptr;
  tenet::cpu::run_bfloat16_matmul(pool(2), MatmulGeometry{1, 2, 3, 0, true, false, 0, 0}, nothing, nothing, result);
  for (float value : result) CHECK(value == 0);
}
