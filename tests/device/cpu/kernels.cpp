// The hooks that are not products: pooling, softmax, cross entropy, embedding, copies, dropout.
#include "../agreement.hpp"
#include "tenet/device/cpu/copy.hpp"
#include "tenet/device/cpu/cross_entropy.hpp"
#include "tenet/device/cpu/embedding.hpp"
#include "tenet/device/cpu/pool2d.hpp"
#include "tenet/device/cpu/random.hpp"
#include "tenet/device/cpu/softmax.hpp"
#include "tenet/device/reference/copy.hpp"
#include "tenet/device/reference/cross_entropy.hpp"
#include "tenet/device/reference/embedding.hpp"
#include "tenet/device/reference/pool2d.hpp"
#include "tenet/device/reference/random.hpp"
#include "tenet/device/reference/softmax.hpp"

TEST_CASE("pooling agrees with the reference", "[cpu][pool2d]") {
  const tenet::Pool2dGeometry geometries[] = {{1, 1, 1, 1, 1, 0},   {6, 24, 24, 2, 2, 0},  {16, 8, 8, 2, 2, 0},
                                              {5, 9, 11, 3, 2, 1},  {3, 7, 7, 7, 7, 0},    {4, 13, 37, 3, 1, 1},
                                              {2, 30, 31, 5, 3, 2}, {1, 3, 1100, 2, 2, 0}, {1, 700, 700, 600, 50, 0},
                                              {40, 4, 4, 4, 1, 0},  {7, 10, 10, 2, 3, 0}};
  for (const auto& g : geometries) {
    for (int batch : {1, 5}) {
      CAPTURE(g.channels, g.height, g.width, g.kernel, g.stride, g.padding, batch);
      if (g.kernel > 100 && batch > 1) continue;
      auto x = random_floats(batch * g.input_size(), 1);
      for (std::size_t i = 0; i < x.size(); i += 3) x[i] = 0.25f;  // equal elements: the first one wins
      const auto dy = random_floats(batch * g.result_size(), 2);
      std::vector<float> y(dy.size());
      tenet::reference::Serial serial;
      run_max_pool2d(serial, g, batch, x.data(), y.data());
      check_agreement(batch * g.result_size(), 0,
                      [&](auto& executor, float* to) { run_max_pool2d(executor, g, batch, x.data(), to); });
      check_agreement(batch * g.input_size(), 1e-6, [&](auto& executor, float* to) {
        run_max_pool2d_gradient(executor, g, batch, x.data(), y.data(), dy.data(), to);
      });
      check_agreement(batch * g.result_size(), g.kernel > 100 ? 1e-4 : 2e-6,
                      [&](auto& executor, float* to) { run_avg_pool2d(executor, g, batch, x.data(), to); });
      check_agreement(batch * g.input_size(), 2e-6,
                      [&](auto& executor, float* to) { run_avg_pool2d_gradient(executor, g, batch, dy.data(), to); });
    }
  }
}

TEST_CASE("softmax agrees with the reference", "[cpu][softmax]") {
  for (long rows : {1L, 3L, 400L}) {
    for (int columns : {1, 2, 10, 16, 17, 128, 1000}) {
      CAPTURE(rows, columns);
      auto x = random_floats(rows * columns, 1);
      for (float& value : x) value *= 30;
      for (int period : {0, 1, 5, columns, 3 * columns}) {
        CAPTURE(period);
        check_agreement(rows * columns, 1e-6,
                        [&](auto& executor, float* to) { run_softmax(executor, rows, columns, period, x.data(), to); });
      }
      x[0] += 1;  // a single column's log softmax is zero everywhere, which the check refuses
      if (columns == 1) continue;
      check_agreement(rows * columns, 1e-6,
                      [&](auto& executor, float* to) { run_log_softmax(executor, rows, columns, x.data(), to); });
    }
  }
}

TEST_CASE("cross entropy agrees with the reference", "[cpu][cross_entropy]") {
  for (long rows : {1L, 5L, 700L}) {
    for (int classes : {2, 10, 16, 33, 1000}) {
      CAPTURE(rows, classes);
      auto logits = random_floats(rows * classes, 1);
      for (float& value : logits) value = std::round(value * 20);     // with equal largest elements
      const auto labels = random_integers(rows, -1, classes + 1, 2);  // some out of range
      const auto upstream = random_floats(rows, 3);
      check_agreement(rows, 2e-6, [&](auto& executor, float* to) {
        run_cross_entropy(executor, rows, classes, logits.data(), labels.data(), to);
      });
      check_agreement(rows * classes, 1e-6, [&](auto& executor, float* to) {
        run_cross_entropy_gradient(executor, rows, classes, logits.data(), labels.data(), upstream.data(), to);
      });
      if (rows < 700 || classes > 100) continue;  // no row would be right
      check_agreement(rows, 0, [&](auto& executor, float* to) {
        run_correct(executor, rows, classes, logits.data(), labels.data(), to);
      });
    }
  }
}

TEST_CASE("embedding agrees with the reference", "[cpu][embedding]") {
  for (int width : {1, 16, 37, 128}) {
    for (long count : {3L, 1000L}) {
      CAPTURE(width, count);
      const int rows = 50;
      const auto tokens = random_integers(count, -1, rows + 1, 1);
      const auto table = random_floats(rows * width, 2), upstream = random_floats(count * width, 3);
      check_agreement(count * width, 0, [&](auto& executor, float* to) {
        run_embedding(executor, count, width, rows, tokens.data(), table.data(), to);
      });
      check_agreement(rows * width, 0, [&](auto& executor, float* to) {
        run_embedding_gradient(executor, count, width, rows, tokens.data(), upstream.data(), to);
      });
    }
  }
}

TEST_CASE("strided copies agree with the reference", "[cpu][copy]") {
  const tenet::StridedCopyGeometry geometries[] = {
      {3, {4, 5, 6}, {30, 6, 1}, {30, 6, 1}, 0, 0, true},  // contiguous
      {3, {4, 5, 6}, {30, 1, 5}, {30, 6, 1}, 0, 0, true},  // the last two transposed
      {4, {1, 3, 40, 17}, {2040, 17, 51, 1}, {2040, 680, 17, 1}, 0, 0, true},
      {2, {50, 33}, {0, 1}, {33, 1}, 0, 0, false},  // a row repeated
      {2, {50, 33}, {1, 0}, {33, 1}, 0, 0, false},  // a column repeated
      {2, {1, 9}, {20, 2}, {9, 1}, 3, 0, true},     // every second element, from the fourth on
      {1, {1}, {1}, {1}, 0, 0, true},
      {6, {2, 3, 2, 5, 3, 4}, {360, 1, 3, 6, 30, 90}, {360, 120, 60, 12, 4, 1}, 0, 0, true},
  };
  for (const auto& g : geometries) {
    for (int batch : {1, 3, 70}) {
      CAPTURE(g.rank, batch);
      const long size = g.size(batch);
      const auto from = random_floats(size * 4 + 64, 1);
      check_agreement(size, 0,
                      [&](auto& executor, float* to) { run_strided_copy(executor, g, batch, from.data(), to); });
    }
  }
}

TEST_CASE("strided sums agree with the reference", "[cpu][copy]") {
  struct Case {
    tenet::StridedCopyGeometry geometry;
    long size;
  };
  const Case cases[] = {
      {{2, {1, 37}, {37, 1}, {0, 1}, 0, 0, true}, 37},              // bias of a linear layer
      {{3, {1, 6, 100}, {600, 100, 1}, {0, 1, 0}, 0, 0, true}, 6},  // bias of a convolution
      {{2, {1, 37}, {37, 1}, {0, 0}, 0, 0, true}, 1},               // everything
      {{2, {20, 37}, {37, 1}, {1, 0}, 0, 2, false}, 25},            // rows, to elements 2 … 21 of 25
      {{3, {1, 5, 70}, {350, 70, 1}, {0, 0, 1}, 0, 0, true}, 70},
      {{3, {1, 5, 7}, {35, 1, 5}, {0, 7, 1}, 0, 0, true}, 35},
      {{2, {1, 3}, {0, 1}, {0, 1}, 0, 0, true}, 3},  // the same row many times
      {{1, {1}, {1}, {1}, 0, 0, true}, 70},
  };
  for (const auto& [g, size] : cases) {
    for (int batch : {1, 3, 70}) {
      CAPTURE(g.rank, g.extents[1], batch);
      const auto from = random_floats(g.size(batch) + 8, 1);
      check_agreement(size, 1e-5, [&, &g = g, &size = size](auto& executor, float* to) {
        run_strided_sum(executor, g, batch, from.data(), to, size);
      });
    }
  }
}

TEST_CASE("dropout masks have the bits of the reference", "[cpu][random]") {
  for (long count : {1L, 7L, 100003L}) {
    check_agreement(count, 0, [&](auto& executor, float* to) { run_dropout_mask(executor, count, 0.01f, 5, 9, to); });
    check_agreement(count, 0, [&](auto& executor, float* to) { run_dropout_mask(executor, count, 0.0f, 5, 9, to); });
  }
}
