#include "tenet/device/reference/layer_norm.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "../agreement.hpp"

namespace {
tenet::reference::Serial serial;
}  // namespace

TEST_CASE("rows are normalised by their mean and biased variance", "[reference][layer_norm]") {
  const float x[] = {1, 2, 3, 6, 0, 0, 0, 0}, weight[] = {1, 1, 2, 1}, bias[] = {0, 0, 0, 5};
  float y[8];
  run_layer_norm(serial, 2, 4, 0.5f, x, weight, bias, y);
  CHECK(y[0] == Approx(-1));  // variance 3.5, plus epsilon 4
  CHECK(y[1] == Approx(-0.5));
  CHECK(y[2] == Approx(0).margin(1e-7));
  CHECK(y[3] == Approx(6.5));
  CHECK(y[4] == 0);
  CHECK(y[7] == 5);
}

TEST_CASE("gradients of layer norm are those of finite differences", "[reference][layer_norm]") {
  constexpr int rows = 2, columns = 5;
  auto x = random_floats(rows * columns, 1), parameters = random_floats(2 * columns, 2);
  const auto upstream = random_floats(rows * columns, 3);
  const auto loss = [&] {
    float y[rows * columns];
    run_layer_norm(serial, rows, columns, 0.1f, x.data(), parameters.data(), parameters.data() + columns, y);
    double sum = 0;
    for (std::size_t i = 0; i < rows * columns; ++i) sum += double{y[i]} * upstream[i];
    return sum;
  };
  const auto difference = [&](float& number) {
    const float middle = number;
    number = middle + 0.01f;
    const double above = loss();
    number = middle - 0.01f;
    const double below = loss();
    number = middle;
    return (above - below) / 0.02;
  };
  float dx[rows * columns], dparameters[2 * columns];
  run_layer_norm_gradient(serial, rows, columns, 0.1f, x.data(), parameters.data(), upstream.data(), dx);
  run_layer_norm_parameters(serial, rows, columns, 0.1f, x.data(), upstream.data(), dparameters);
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(difference(x[i]) == Approx(dx[i]).epsilon(2e-3).margin(1e-4));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    CHECK(difference(parameters[i]) == Approx(dparameters[i]).epsilon(1e-3).margin(1e-4));
}
