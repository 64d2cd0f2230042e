#include "agreement.hpp"
#include "tenet/device/cuda/layer_norm.hpp"
#include "tenet/device/reference/layer_norm.hpp"

TEST_CASE("layer norm agrees with the reference", "[cuda][layer_norm]") {
  for (const long rows : {1L, 3L, 33L, 256L, 1000L})
    for (const int columns : {1, 2, 31, 32, 33, 128, 300, 1024, 1100}) {
      if (rows > 33 && columns > 128) continue;
      CAPTURE(rows, columns);
      const long size = rows * columns;
      auto x = random_floats(size, 1);
      for (float& number : x) number += 3;
      const auto weight = random_floats(columns, 2), bias = random_floats(columns, 3),
                 upstream = random_floats(size, 4);
      check_agreement(size, 1e-5, [&](auto& place, float* to) {
        run_layer_norm(place.executor, rows, columns, 1e-5f, place.in(x), place.in(weight), place.in(bias), to);
      });
      check_agreement(2 * columns, 1e-4, [&](auto& place, float* to) {
        run_layer_norm_parameters(place.executor, rows, columns, 1e-5f, place.in(x), place.in(upstream), to);
      });
      if (columns == 1) continue;  // its gradient is zero
      check_agreement(size, 5e-5, [&](auto& place, float* to) {
        run_layer_norm_gradient(place.executor, rows, columns, 1e-2f, place.in(x), place.in(weight), place.in(upstream),
                                to);
      });
    }
}

TEST_CASE("layer norm keeps what is no number to its row", "[cuda][layer_norm]") {
  constexpr long rows = 40;
  constexpr int columns = 70;
  auto x = random_floats(rows * columns, 1);
  x[3 * columns + 69] = __builtin_nanf(""), x[39 * columns] = __builtin_inff();
  const auto weight = random_floats(columns, 2), bias = random_floats(columns, 3),
             upstream = random_floats(rows * columns, 4);
  check_agreement(rows * columns, 1e-5, [&](auto& place, float* to) {
    run_layer_norm(place.executor, rows, columns, 1e-5f, place.in(x), place.in(weight), place.in(bias), to);
  });
  check_agreement(rows * columns, 5e-5, [&](auto& place, float* to) {
    run_layer_norm_gradient(place.executor, rows, columns, 1e-2f, place.in(x), place.in(weight), place.in(upstream),
                            to);
  });
}

TEST_CASE("gradients of a layer norm's parameters are summed in turns where rows are many", "[cuda][layer_norm]") {
  constexpr long rows = 150'000;  // more than a turn takes
  constexpr int columns = 2;
  std::vector<float> x(rows * columns), upstream(rows * columns);
  for (long r = 0; r < rows; ++r) {  // a row of 1 and 3 is normal as -1 and 1: all sums are exact
    const auto i = static_cast<std::size_t>(2 * r);
    x[i] = 1, x[i + 1] = 3;
    upstream[i] = r % 5 == 4 ? -4.0f : 1.0f;
    upstream[i + 1] = r % 1000 == 0 ? 1.0f : 0.0f;
  }
  upstream[2 * 140'000] += 8;
  check_agreement(2 * columns, 0, [&](auto& place, float* to) {
    run_layer_norm_parameters(place.executor, rows, columns, 0, place.in(x), place.in(upstream), to);
  });
}

TEST_CASE("layer norm calls its epilogue behind its kernel", "[cuda][layer_norm]") {
  const auto x = random_floats(5 * 40, 1), weight = random_floats(40, 2);
  check_epilogue(5 * 40, [&](auto& place, float* to, tenet::Epilogue epilogue) {
    run_layer_norm(place.executor, 5, 40, 1e-5f, place.in(x), place.in(weight), place.in(weight), to, epilogue);
  });
  check_epilogue(5 * 40, [&](auto& place, float* to, tenet::Epilogue epilogue) {
    run_layer_norm_gradient(place.executor, 5, 40, 1e-5f, place.in(x), place.in(weight), place.in(x), to, epilogue);
  });
}
