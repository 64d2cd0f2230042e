#include "tenet/device/cpu/one_sample.hpp"

#include <algorithm>

#include "../agreement.hpp"
#include "tenet/device/reference/matmul.hpp"

namespace {

using namespace tenet;

/// A product with known extents against the reference; what stands behind the result is not written.
template <MatmulGeometry g>
void check_known() {
  CAPTURE(g.rows, g.columns, g.inner, g.transpose_lhs, g.transpose_rhs);
  const auto lhs = random_floats(g.count * g.rows * g.inner, 1), rhs = random_floats(g.count * g.inner * g.columns, 2);
  std::vector<float> expected(g.result_size()), found(g.result_size() + 16, 7.0f);
  reference::Serial serial;
  run_matmul(serial, g, lhs.data(), rhs.data(), expected.data());
  cpu::Workers workers(1);
  run_matmul(workers, Known<g>{}, lhs.data(), rhs.data(), found.data());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(2e-5));
  for (std::size_t i = expected.size(); i < found.size(); ++i) CHECK(found[i] == 7.0f);
}

/// A row times the transpose of a prepared matrix, the memory of which held something else before. Numbers are `above`
/// times what they are rounded to.
template <int columns, int inner, class Number = float>
void check_prepared(float above = 1) {
  auto row = random_floats(inner, 1), matrix = random_floats(columns * inner, 2);
  for (auto* numbers : {&row, &matrix})
    for (float& value : *numbers) value = static_cast<float>(Number(value));
  std::vector<float> expected(columns), found(columns + 16, 7.0f);
  reference::Serial serial;
  run_matmul(serial, {1, 1, columns, inner, false, true, 0, 0}, row.data(), matrix.data(), expected.data());
  cpu::Workers workers(1);
  for (auto* numbers : {&row, &matrix})
    for (float& value : *numbers) value *= above;
  std::vector<float> prepared(static_cast<std::size_t>(cpu::prepared_factor_floats<Number>(columns, inner)), 9.0f);
  cpu::run_prepare_factor(workers, Number{}, columns, inner, matrix.data(), prepared.data());
  cpu::run_prepared_matmul(workers, Number{}, Known<columns>{}, Known<inner>{}, row.data(), prepared.data(),
                           found.data());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(2e-5));
  for (std::size_t i = expected.size(); i < found.size(); ++i) CHECK(found[i] == 7.0f);
}

template <long columns, long inner>
void check_row() {
  check_known<MatmulGeometry{1, 1, columns, inner, false, false, 0, 0}>();
  check_known<MatmulGeometry{1, 1, columns, inner, false, true, 0, 0}>();
}

}  // namespace

TEST_CASE("products of one row agree with the reference at odd extents", "[cpu][one_sample]") {
  check_row<1, 1>();
  check_row<3, 5>();
  check_row<10, 64>();
  check_row<16, 7>();
  check_row<37, 3>();
  check_row<64, 32>();
  check_row<70, 21>();
  check_row<130, 49>();
  check_known<MatmulGeometry{1, 3, 18, 5, false, true, 0, 0}>();
  check_known<MatmulGeometry{4, 1, 18, 5, false, false, 5, 90}>();
}

TEST_CASE("prepared factors are filled up to whole vectors with zeros", "[cpu][one_sample]") {
  constexpr int columns = 2 * vector_width + 3, inner = 5;
  std::vector<float> matrix(columns * inner, 1.0f);
  matrix.resize(3 * vector_width * inner, 9.0f);  // what lies behind is not read
  std::vector<float> prepared(static_cast<std::size_t>(cpu::prepared_factor_floats(columns, inner)), 9.0f);
  cpu::run_prepare_factor(pool(1), 0.0f, columns, inner, matrix.data(), prepared.data());
  CHECK(std::count(prepared.begin(), prepared.end(), 1.0f) == columns * inner);
  CHECK(std::count(prepared.begin(), prepared.end(), 0.0f) == (vector_width - 3) * inner);
}

TEST_CASE("prepared factors of bfloat16 agree with the reference, rounded", "[cpu][one_sample]") {
  static_assert(cpu::prepared_factor_floats<bfloat16>(3 * vector_width, 784) == 3 * vector_width * 392);
  check_prepared<16, 7, bfloat16>();
  check_prepared<37, 3, bfloat16>(1.001f);
  check_prepared<64, 32, bfloat16>(1.001f);
  check_prepared<120, 41, bfloat16>(0.9995f);
  check_prepared<130, 49, bfloat16>(1.001f);
}

TEST_CASE("prepared factors agree with the reference at odd extents", "[cpu][one_sample]") {
  static_assert(cpu::prepared_factor_floats(3, 5) == 0);
  check_prepared<16, 7>();
  check_prepared<37, 3>();
  check_prepared<64, 32>();
  check_prepared<120, 41>();
  check_prepared<130, 49>();
}
