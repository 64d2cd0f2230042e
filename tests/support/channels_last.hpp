#pragma once

#include <algorithm>
#include <vector>

#include "convolutions.hpp"
#include "image_order.hpp"
#include "tenet/core/bfloat16.hpp"
#include "tenet/device/cpu/channels_last_pairs.hpp"
#include "tenet/device/reference/conv2d.hpp"

/// What the tests of convolutions of images with their channels last share: shapes, and images in both layouts.
namespace channels_last {

using tenet::bfloat16;
using tenet::Conv2dGeometry;

inline constexpr Conv2dGeometry shapes[] = {
    {16, 7, 7, 32, 3, 3, 2, 1},  {64, 7, 7, 80, 1, 1, 1, 0},  {48, 9, 8, 130, 1, 1, 2, 0}, {16, 6, 7, 20, 5, 5, 1, 2},
    {17, 9, 7, 35, 3, 3, 1, 1},  {3, 12, 10, 24, 3, 3, 1, 0}, {3, 9, 8, 7, 7, 7, 2, 3},    {1, 28, 28, 64, 3, 3, 1, 1},
    {18, 8, 9, 22, 2, 2, 2, 0},  {20, 7, 9, 66, 4, 2, 3, 1},  {1, 1, 1, 1, 1, 1, 1, 0},    {2, 5, 5, 3, 2, 2, 3, 0},
    {24, 5, 6, 4, 1, 1, 1, 1},   {36, 3, 3, 6, 3, 3, 4, 3},   {5, 9, 7, 13, 3, 2, 3, 2},   {1, 3, 50, 1, 3, 3, 1, 1},
    {130, 3, 3, 10, 3, 3, 1, 1}, {6, 40, 31, 10, 1, 1, 2, 0}, {22, 2, 2, 34, 5, 3, 1, 2},  {40, 4, 4, 200, 3, 3, 2, 1},
};
/// Shapes whose terms, panels and samples are cut; for few batches.
inline constexpr Conv2dGeometry large_shapes[] = {
    {64, 28, 28, 128, 3, 3, 2, 1},
    {128, 14, 14, 256, 3, 3, 2, 1},
    {340, 4, 4, 70, 3, 3, 2, 1},
    {70, 7, 7, 340, 3, 3, 1, 1},
};

/// An image in the standard layout, and with its channels last, of numbers as they are multiplied.
template <class Number>
struct Image {
  std::vector<float> standard;
  std::vector<Number> last;

  Image(int batch, long channels, long pixels, int seed) : standard(random_floats(batch * channels * pixels, seed)) {
    for (float& value : standard) value = static_cast<float>(Number(value));
    last = image_order::channels_last<Number>(standard, channels, pixels);
  }
};

/// Everything that the convolutions of one shape take.
template <class Number>
struct Factors {
  Conv2dGeometry g;
  int batch;
  Image<Number> input, gradient, weight;

  Factors(const Conv2dGeometry& shape, int batch_)
      : g(shape),
        batch(batch_),
        input(batch, g.channels, long{1} * g.height * g.width, 1),
        gradient(batch, g.out_channels, g.positions(), 2),
        weight(1, 1, g.weight_size(), 3) {}
};

/// Calls check(factors) for floats and, where the kernels take it, bfloat16.
template <class Check>
void for_each_factors(Check check) {
  const auto both = [&](const Conv2dGeometry& g, int batch) {
    check(Factors<float>(g, batch));
    if (tenet::cpu::channels_last_takes_bfloat16(g)) check(Factors<bfloat16>(g, batch));
  };
  convolutions::for_each(shapes, {1, 2, 5, 17}, both);
  convolutions::for_each(large_shapes, {1, 6}, both);
}

/// The tolerance of sums of so many terms.
constexpr double tolerance(long terms) { return 2e-5 + 2e-8 * static_cast<double>(terms); }

/// `check_agreement` of an image [batch, channels, pixels]: reference(executor, to) gives it in the standard layout,
/// run(workers, to) with its channels last.
template <class Reference, class Run>
void check_image(int batch, long channels, long pixels, double most, Reference reference, Run run) {
  check_agreement(batch * channels * pixels, most, [&](auto& executor, float* to) {
    if constexpr (std::is_same_v<decltype(executor), tenet::reference::Serial&>) {
      std::vector<float> standard(static_cast<std::size_t>(batch * channels * pixels));
      reference(executor, standard.data());
      std::ranges::copy(image_order::channels_last(standard, channels, pixels), to);
    } else {
      run(executor, to);
    }
  });
}

}  // namespace channels_last
