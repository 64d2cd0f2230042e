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

namespace {
int calls_of_region = 0;
void count_calls(const tenet::ElementArguments&, long, long, long, long, float*) { ++calls_of_region; }
/// Input 1 is added to each row of the result, input 0.
tenet::PointwiseForm added_to_rows(bool relu) {
  tenet::PointwiseForm form;
  form.operations = relu ? 2 : 1;
  form.result = 0;
  form.rows = 1 << 1;
  form.kinds[0] = tenet::Pointwise::add;
  form.source[0][1] = 1;
  form.kinds[1] = tenet::Pointwise::relu;
  form.source[1][0] = -1;
  return form;
}

}  // namespace

TEST_CASE("products add a bias to each row, and take the positive part, as they write", "[cuda][matmul]") {
  calls_of_region = 0;
  for (const auto& [rows, columns, inner] : {std::array{1L, 4L, 3L}, {5L, 8L, 33L}, {64L, 68L, 130L}, {257L, 31L, 64L}})
    for (const bool relu : {false, true})
      for (const bool transpose_rhs : {false, true}) {
        const tenet::MatmulGeometry g{1, rows, columns, inner, false, transpose_rhs, 0, 0};
        CAPTURE(rows, columns, inner, relu, transpose_rhs);
        const auto lhs = random_floats(rows * inner, 1), rhs = random_floats(inner * columns, 2),
                   bias = random_floats(columns, 3);
        const auto check = [&](const auto& factors) {
          check_agreement(g.result_size(), 1e-5, [&](auto& place, float* to) {
            if constexpr (std::remove_reference_t<decltype(place)>::is_reference) {
              run_matmul(place.executor, g, factors(place, lhs), factors(place, rhs), to);
              for (long i = 0; i < rows * columns; ++i) {
                to[i] += bias[static_cast<std::size_t>(i % columns)];
                if (relu && to[i] < 0) to[i] = 0;
              }
            } else {
              tenet::ElementArguments arguments{};
              arguments.inputs[1] = {place.in(bias), 1, columns};
              arguments.outputs[0] = to;
              const tenet::PointwiseForm form = added_to_rows(relu);
              const tenet::RegionEpilogue region{count_calls, &arguments, &form};
              float* const nowhere = nullptr;
              run_matmul(place.executor, g, factors(place, lhs), factors(place, rhs), nowhere, region.epilogue());
            }
          });
        };
        check([](auto& place, const std::vector<float>& numbers) { return place.in(numbers); });
        check([](auto& place, const std::vector<float>& numbers) { return place.rounded(numbers); });
      }
  CHECK(calls_of_region == 0);
}

TEST_CASE("behind several products, or sums of them, a bias is a region of its own", "[cuda][matmul]") {
  const auto numbers = random_floats(3 * 4 * 5, 1), bias = random_floats(4, 2);
  for (const bool accumulate : {false, true}) {
    calls_of_region = 0;
    const tenet::MatmulGeometry g{accumulate ? 1L : 3L, 5, 4, 4, false, false, 20, 0, accumulate};
    tenet::gpu::SerialHost host;
    Place<tenet::gpu::SerialHost> place(host);
    std::vector<float> result(static_cast<std::size_t>(g.result_size()), 7.0f);
    float* const to = const_cast<float*>(place.in(result));
    tenet::ElementArguments arguments{};
    arguments.inputs[1] = {place.in(bias), 1, 4};
    arguments.outputs[0] = nullptr;
    const tenet::PointwiseForm form = added_to_rows(false);
    const tenet::RegionEpilogue region{count_calls, &arguments, &form};
    run_matmul(host, g, place.in(numbers), place.in(numbers), to, region.epilogue());
    host.copy_out(result.data(), to, g.result_size() * 4);
    host.synchronize();
    CHECK(calls_of_region == 1);
    CHECK(result[0] != 7.0f);
  }
}
