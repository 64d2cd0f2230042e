#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "../device/agreement.hpp"
#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/samples_last.hpp"
#include "tenet/device/epilogue.hpp"

/// What the tests of the CPU device's convolutions share: shapes, the law of epilogues, values in samples last, and the
/// errors of Winograd's algorithm.
namespace convolutions {

using tenet::Conv2dGeometry;
using tenet::Epilogue;

inline constexpr Conv2dGeometry by_patches[] = {
    {1, 1, 1, 1, 1, 1, 1, 0},      {1, 28, 28, 6, 5, 5, 1, 0},    {6, 12, 12, 16, 5, 5, 1, 0},
    {3, 8, 8, 4, 1, 1, 1, 0},      {17, 9, 7, 35, 3, 3, 1, 1},    {5, 9, 7, 13, 3, 2, 3, 2},
    {8, 13, 11, 20, 3, 3, 2, 1},   {16, 8, 8, 33, 1, 1, 2, 0},    {20, 4, 4, 40, 3, 3, 1, 1},
    {2, 21, 22, 3, 7, 7, 2, 3},    {1, 5, 6, 2, 4, 1, 1, 3},      {130, 3, 3, 9, 3, 3, 1, 1},
    {3, 23, 40, 130, 1, 1, 1, 0},  {2, 5, 5, 3, 2, 2, 3, 0},      {1, 3, 50, 1, 3, 3, 1, 1},
    {4, 6, 6, 5, 1, 1, 1, 2},      {2, 40, 60, 10, 3, 3, 1, 1},   {40, 6, 5, 24, 3, 3, 2, 1},
    {20, 14, 14, 140, 3, 3, 2, 1}, {18, 7, 7, 30, 3, 3, 2, 1},    {17, 28, 30, 20, 1, 1, 2, 0},
    {20, 5, 6, 20, 1, 1, 1, 1},    {19, 26, 44, 21, 3, 3, 2, 1},  {64, 2, 2, 80, 3, 3, 2, 1},
    {70, 7, 7, 270, 3, 3, 2, 1},   {100, 23, 22, 72, 3, 3, 1, 1},
};
inline constexpr Conv2dGeometry of_few_channels[] = {
    {1, 1, 1, 1, 1, 1, 1, 0},  {1, 28, 28, 6, 5, 5, 1, 2}, {6, 14, 14, 16, 5, 5, 1, 0}, {3, 8, 8, 4, 1, 1, 1, 0},
    {7, 9, 7, 11, 3, 3, 1, 1}, {5, 9, 7, 13, 3, 2, 3, 2},  {4, 13, 11, 9, 3, 3, 2, 1},  {6, 8, 8, 17, 1, 1, 2, 0},
    {2, 4, 4, 40, 3, 3, 1, 1}, {2, 21, 22, 3, 7, 7, 2, 3}, {1, 5, 6, 2, 4, 1, 1, 3},    {30, 3, 3, 9, 3, 3, 1, 1},
    {2, 5, 5, 3, 2, 2, 3, 0},  {1, 3, 50, 1, 3, 3, 1, 1},  {4, 6, 6, 5, 1, 1, 1, 2},    {5, 2, 3, 7, 5, 5, 1, 4},
};
inline constexpr Conv2dGeometry by_winograd[] = {
    {16, 4, 4, 16, 3, 3, 1, 1},   {17, 9, 7, 35, 3, 3, 1, 1},   {20, 3, 5, 40, 3, 3, 1, 2},
    {33, 6, 6, 19, 3, 3, 1, 0},   {16, 23, 41, 21, 3, 3, 1, 1}, {130, 7, 7, 65, 3, 3, 1, 1},
    {64, 14, 13, 16, 3, 3, 1, 2}, {3, 12, 5, 1, 3, 3, 1, 0},    {60, 13, 9, 128, 3, 3, 1, 1},
};

/// Whether a shape is run with a batch. What a sanitizer slows down most, the reference's sums over the largest shapes
/// and batches, it does not have to see: each shape is run with a few samples, and each batch with other shapes.
/// Without a sanitizer, or an emulator, all are run.
constexpr bool is_run(const Conv2dGeometry& g, int batch) {
  constexpr long most_products = TENET_TEST_SANITIZED ? 75'000'000 : 1L << 62;
  return batch * g.result_size() * g.channels * g.kernel_height * g.kernel_width <= most_products;
}

/// Calls run(g, batch) for all shapes and batches; a failure names both.
template <class Run>
void for_each(std::span<const Conv2dGeometry> shapes, std::initializer_list<int> batches, Run run) {
  for (const Conv2dGeometry& g : shapes) {
    for (const int batch : batches) {
      if (!is_run(g, batch)) continue;
      CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.kernel_width, g.stride, g.padding,
              batch);
      run(g, batch);
    }
  }
}

/// The tolerance of a gradient by the weight: its sums grow with the positions of the batch.
inline double weight_tolerance(const Conv2dGeometry& g, int batch) {
  return 2e-6 * std::sqrt(static_cast<double>(batch * g.positions()));
}

/// Checks that run(workers, result, epilogue) calls its epilogue once for each element, after writing it.
template <class Run>
void check_epilogue(long size, Run run) {
  std::vector<float> plain(static_cast<std::size_t>(size)), doubled(plain.size());
  run(pool(1), plain.data(), Epilogue{});
  float* const data = doubled.data();
  const Epilogue twice{[](const void* state, long first, long last) {
                         float* const values = *static_cast<float* const*>(state);
                         for (long i = first; i < last; ++i) values[i] *= 2;
                       },
                       &data};
  run(pool(3), data, twice);
  long wrong = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) wrong += doubled[i] != 2 * plain[i];
  CHECK(wrong == 0);
}

/// A value of `batch` samples in samples last, with NaN (`poison`) in the lanes beyond the batch, or copies of the last
/// sample.
inline std::vector<float> in_lanes(const std::vector<float>& standard, long size, int batch, bool poison) {
  std::vector<float> result(static_cast<std::size_t>(tenet::cpu::samples_last_size(size, batch)));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const long at = static_cast<long>(i), n = at / (16 * size) * 16 + at % 16, p = at % (16 * size) / 16;
    result[i] = poison && n >= batch ? std::nanf("")
                                     : standard[static_cast<std::size_t>(std::min<long>(n, batch - 1) * size + p)];
  }
  return result;
}

/// The largest difference to a convolution in the reference, relative to the largest value; also checks that the result
/// has the same bits for any number of threads.
template <class Expected, class Run>
double relative_error(long size, Expected expected_of, Run run) {
  std::vector<float> expected(static_cast<std::size_t>(size)), first;
  tenet::reference::Serial serial;
  expected_of(serial, expected.data());
  double worst = 0, largest = 0;
  for (int threads = 1; threads <= 3; ++threads) {
    constexpr float untouched = 12345.25f;
    std::vector<float> result(expected.size() + 64, untouched);
    run(pool(threads), result.data());
    for (std::size_t i = expected.size(); i < result.size(); ++i) REQUIRE(result[i] == untouched);
    result.resize(expected.size());
    if (threads == 1) {
      first = result;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double difference = std::fabs(double{expected[i]} - result[i]);
        worst = difference <= worst ? worst : difference;  // NaN counts
        largest = std::fmax(largest, std::fabs(double{expected[i]}));
      }
    }
    CHECK(std::memcmp(first.data(), result.data(), 4 * first.size()) == 0);
  }
  CHECK(largest > 0);
  return worst / largest;
}

}  // namespace convolutions
