// The reference kernels against values worked out by hand and against their definitions.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tenet/device/reference/conv2d.hpp"
#include "tenet/device/reference/copy.hpp"
#include "tenet/device/reference/cross_entropy.hpp"
#include "tenet/device/reference/embedding.hpp"
#include "tenet/device/reference/matmul.hpp"
#include "tenet/device/reference/pool2d.hpp"
#include "tenet/device/reference/random.hpp"
#include "tenet/device/reference/softmax.hpp"

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

TEST_CASE("reference products", "[reference]") {
  const Floats a{1, 2, 3, 4, 5, 6}, b{1, 0, 2, -1, 3, 1};  // [2, 3] and [3, 2]
  Floats c(4);
  run_matmul(serial, {1, 2, 2, 3, false, false, 0, 0}, a.data(), b.data(), c.data());
  CHECK(c == Floats{14, 1, 32, 1});
  const Floats a_transposed{1, 4, 2, 5, 3, 6}, b_transposed{1, 2, 3, 0, -1, 1};
  run_matmul(serial, {1, 2, 2, 3, true, true, 0, 0}, a_transposed.data(), b_transposed.data(), c.data());
  CHECK(c == Floats{14, 1, 32, 1});
  Floats two(2);  // a batch of two products [1, 3] * [3, 1] that share the right operand
  run_matmul(serial, {2, 1, 1, 3, false, false, 3, 0}, a.data(), a.data(), two.data());
  CHECK(two == Floats{14, 32});
  run_matmul(serial, {2, 1, 1, 3, false, false, 3, 0, true}, a.data(), a.data(), two.data());
  CHECK(two[0] == 46);
}

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

TEST_CASE("reference softmax", "[reference]") {
  const Floats x{1000, 1000 + std::log(3.0f), 0, 0, 5, 5};
  Floats y(6);
  run_softmax(serial, 3, 2, 0, x.data(), y.data());
  CHECK(y[0] == Approx(0.25).epsilon(1e-4));
  CHECK(y[1] == Approx(0.75).epsilon(1e-4));
  CHECK(y[4] == 0.5f);
  run_softmax(serial, 3, 2, 2, x.data(), y.data());  // rows see 1, 2 and 1 columns
  CHECK(y == Floats{1, 0, 0.5f, 0.5f, 1, 0});
  run_log_softmax(serial, 3, 2, x.data(), y.data());
  CHECK(y[0] == Approx(std::log(0.25)).epsilon(1e-4));
  CHECK(y[3] == Approx(-std::log(2.0)));
}

TEST_CASE("reference cross entropy", "[reference]") {
  const Floats logits{0, 0, 1, 1, 3, 2, 0, 7};  // [4, 2]
  const std::int32_t labels[] = {1, 0, 1, 2};
  Floats loss(4), correct(4), gradient(8);
  run_cross_entropy(serial, 4, 2, logits.data(), labels, loss.data());
  CHECK(loss[0] == Approx(std::log(2.0)));
  CHECK(loss[2] == Approx(1 + std::log(1 + std::exp(-1.0))));
  CHECK(std::isnan(loss[3]));
  run_correct(serial, 4, 2, logits.data(), labels, correct.data());
  CHECK(correct == Floats{0, 1, 0, 0});  // the first maximum wins
  const Floats upstream{2, 4, 1, 1};
  run_cross_entropy_gradient(serial, 4, 2, logits.data(), labels, upstream.data(), gradient.data());
  CHECK(gradient[0] == 1);
  CHECK(gradient[1] == -1);
  CHECK(gradient[2] == -2);
  CHECK(gradient[4] == Approx(1 / (1 + std::exp(-1.0))));
  CHECK(gradient[5] == Approx(-gradient[4]));
  CHECK(std::isnan(gradient[6]));
}

TEST_CASE("reference embedding", "[reference]") {
  const Floats table{1, 2, 3, 4, 5, 6};  // [3, 2]
  const std::int32_t tokens[] = {2, 0, 2, 3, -1};
  Floats y(10), gradient(6, 9.0f);
  run_embedding(serial, 5, 2, 3, tokens, table.data(), y.data());
  CHECK(Floats(y.begin(), y.begin() + 6) == Floats{5, 6, 1, 2, 5, 6});
  for (std::size_t i = 6; i < 10; ++i) CHECK(std::isnan(y[i]));
  const Floats upstream{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  run_embedding_gradient(serial, 5, 2, 3, tokens, upstream.data(), gradient.data());
  CHECK(gradient == Floats{3, 4, 0, 0, 6, 8});
}

TEST_CASE("reference copies and sums", "[reference]") {
  const Floats x{1, 2, 3, 4, 5, 6};
  Floats y(6);
  run_strided_copy(serial, {2, {3, 2}, {1, 3}, {2, 1}, 0, 0, false}, 1, x.data(), y.data());  // transposed
  CHECK(y == Floats{1, 4, 2, 5, 3, 6});
  run_strided_copy(serial, {1, {1}, {2}, {1}, 1, 3, true}, 3, x.data(), y.data());  // three samples
  CHECK(y == Floats{1, 4, 2, 2, 4, 6});
  Floats sums(3, 100.0f);
  run_strided_sum(serial, {2, {1, 2}, {2, 1}, {0, 1}, 0, 1, true}, 3, x.data(), sums.data(), 3);
  CHECK(sums == Floats{0, 9, 12});
}

TEST_CASE("reference dropout masks", "[reference]") {
  Floats mask(100000), again(100000);
  run_dropout_mask(serial, 100000, 0.25f, 3, 4, mask.data());
  run_dropout_mask(serial, 99999, 0.25f, 3, 4, again.data());
  long dropped = 0, other = 0;
  for (float value : mask) {
    dropped += value == 0;
    other += value != 0 && value != 1 / 0.75f;
  }
  CHECK(static_cast<double>(dropped) / 100000 == Approx(0.25).margin(0.005));
  CHECK(other == 0);
  CHECK(std::equal(mask.begin(), mask.end() - 1, again.begin()));
  run_dropout_mask(serial, 100000, 0.25f, 3, 5, again.data());
  CHECK(mask != again);
  CHECK((mask[0] == 0) == (tenet::unit_float(tenet::philox(0, 3, 4)[0]) < 0.25f));
}
