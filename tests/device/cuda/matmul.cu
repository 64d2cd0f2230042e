#include "agreement.hpp"
#include "tenet/device/cuda/matmul.hpp"
#include "tenet/device/reference/matmul.hpp"

TEST_CASE("products of matrices agree with the reference", "[cuda][matmul]") {
  for (const auto& [rows, columns, inner] : {std::array{1L, 1L, 3L}, {5L, 7L, 33L}, {64L, 65L, 130L}, {257L, 31L, 64L}})
    for (const bool transpose_lhs : {false, true})
      for (const bool transpose_rhs : {false, true})
        for (const long count : {1L, 3L})
          for (const bool accumulate : {false, true}) {
            const tenet::MatmulGeometry g{
                count,         rows,          columns,      inner,
                transpose_lhs, transpose_rhs, rows * inner, count == 3 && rows == 5 ? 0 : inner * columns,
                accumulate};
            CAPTURE(rows, columns, inner, transpose_lhs, transpose_rhs, count, accumulate);
            const auto lhs = random_floats(count * rows * inner, 1), rhs = random_floats(count * inner * columns, 2);
            check_agreement(g.result_size(), 1e-5, [&](auto& place, float* to) {
              run_matmul(place.executor, g, place.in(lhs), place.in(rhs), to);
            });
            check_agreement(g.result_size(), 1e-5, [&](auto& place, float* to) {
              run_matmul(place.executor, g, place.rounded(lhs), place.rounded(rhs), to);
            });
          }
}
