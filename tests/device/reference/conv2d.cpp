// Against values worked out by hand.
#include "tenet/device/reference/conv2d.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace {

using Floats = std::vector<float>;
tenet::reference::Serial serial;

double dot(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

/// Small whole numbers, so that sums of products are exact.
Floats numbers(long size, int seed) {
  Floats result(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<float>((i * i * 7 + i * 3 + seed) % 11) - 5;
  return result;
}

}  // namespace

TEST_CASE("reference convolution", "[reference]") {
  const Floats x{1, 2, 3, 4, 5, 6, 7, 8, 9}, w{1, 0, 0, -1};
  Floats y(4);
  run_conv2d(serial, {1, 3, 3, 1, 2, 2, 1, 0}, 1, x.data(), w.data(), y.data());
  CHECK(y == Floats{-4, -4, -4, -4});
  Floats padded(4);  // windows begin at -1 and 1
  run_conv2d(serial, {1, 3, 3, 1, 2, 2, 2, 1}, 1, x.data(), w.data(), padded.data());
  CHECK(padded == Floats{-1, -3, -7, -4});
}

TEST_CASE("reference gradients of a convolution are its adjoints", "[reference]") {
  // y is linear in x and in w, so <dy, conv(x, w)> = <x, input gradient> = <w, weight gradient>, exactly for integers.
  for (const auto& g :
       {tenet::Conv2dGeometry{2, 5, 6, 3, 3, 2, 1, 1}, {3, 7, 5, 2, 2, 3, 2, 0}, {1, 4, 4, 2, 1, 1, 3, 2}}) {
    const int batch = 2;
    const Floats x = numbers(batch * g.input_size(), 1), w = numbers(g.weight_size(), 2);
    const Floats dy = numbers(batch * g.result_size(), 3);
    Floats y(dy.size()), dx(x.size()), dw(w.size());
    run_conv2d(serial, g, batch, x.data(), w.data(), y.data());
    run_conv2d_input_gradient(serial, g, batch, dy.data(), w.data(), dx.data());
    run_conv2d_weight_gradient(serial, g, batch, x.data(), dy.data(), dw.data());
    CHECK(dot(dy, y) != 0);
    CHECK(dot(dx, x) == dot(dy, y));
    CHECK(dot(dw, w) == dot(dy, y));
  }
}
