// Against values worked out by hand.
#include "tenet/device/reference/pool2d.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace {

using Floats = std::vector<float>;
tenet::reference::Serial serial;

}  // namespace

TEST_CASE("reference pooling", "[reference]") {
  const Floats x{1, 5, 2, 0, 5, 3, 1, 1, -1, -2, 4, 4, -3, -4, 4, 0};  // [4, 4]
  const tenet::Pool2dGeometry g{1, 4, 4, 2, 2, 0};
  Floats y(4), dx(16);
  run_max_pool2d(serial, g, 1, x.data(), y.data());
  CHECK(y == Floats{5, 2, -1, 4});
  const Floats dy{10, 20, 30, 40};
  run_max_pool2d_gradient(serial, g, 1, x.data(), y.data(), dy.data(), dx.data());
  CHECK(dx == Floats{0, 10, 20, 0, 0, 0, 0, 0, 30, 0, 40, 0, 0, 0, 0, 0});  // the first of equal elements
  run_avg_pool2d(serial, g, 1, x.data(), y.data());
  CHECK(y == Floats{3.5f, 1, -2.5f, 3});
  run_avg_pool2d_gradient(serial, g, 1, dy.data(), dx.data());
  CHECK(dx == Floats{2.5f, 2.5f, 5, 5, 2.5f, 2.5f, 5, 5, 7.5f, 7.5f, 10, 10, 7.5f, 7.5f, 10, 10});
  // Padding: zeros for the mean, nothing for the maximum.
  const Floats negative{-4, -8, -8, -4};
  const tenet::Pool2dGeometry padded{1, 2, 2, 2, 2, 1};
  run_max_pool2d(serial, padded, 1, negative.data(), y.data());
  CHECK(y == negative);
  run_avg_pool2d(serial, padded, 1, negative.data(), y.data());
  CHECK(y == Floats{-1, -2, -2, -1});
  const Floats with_nan{1, NAN, 2, 3};
  run_max_pool2d(serial, {1, 2, 2, 2, 1, 0}, 1, with_nan.data(), y.data());
  CHECK(std::isnan(y[0]));
}

TEST_CASE("reference gradients of a mean pooling are its adjoint", "[reference]") {
  // <dy, pool(x)> = <gradient, x>: exact for small whole numbers and windows of four.
  for (const auto& g : {tenet::Pool2dGeometry{2, 5, 6, 2, 1, 0}, {1, 5, 4, 4, 2, 1}, {3, 4, 4, 2, 2, 1}}) {
    const int batch = 2;
    Floats x(static_cast<std::size_t>(batch * g.input_size())), dy(static_cast<std::size_t>(batch * g.result_size()));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 11) - 5;
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(i * i % 13) - 6;
    Floats y(dy.size()), dx(x.size());
    run_avg_pool2d(serial, g, batch, x.data(), y.data());
    run_avg_pool2d_gradient(serial, g, batch, dy.data(), dx.data());
    double left = 0, right = 0;
    for (std::size_t i = 0; i < y.size(); ++i) left += double{dy[i]} * y[i];
    for (std::size_t i = 0; i < x.size(); ++i) right += double{dx[i]} * x[i];
    CHECK(left != 0);
    CHECK(left == right);
  }
}

TEST_CASE("reference gradients of a maximum pooling pass each upstream on once, NaN to NaN", "[reference]") {
  const Floats x{NAN, 1, 2, NAN, 3, 0}, dy{10, 20};  // [2, 3], windows of 2 with stride 1
  Floats y(2), dx(6);
  const tenet::Pool2dGeometry g{1, 2, 3, 2, 1, 0};
  run_max_pool2d(serial, g, 1, x.data(), y.data());
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == 3);
  run_max_pool2d_gradient(serial, g, 1, x.data(), y.data(), dy.data(), dx.data());
  CHECK(dx == Floats{10, 0, 0, 0, 20, 0});
}
