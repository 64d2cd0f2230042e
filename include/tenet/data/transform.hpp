#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenet/core/error.hpp"
#include "tenet/core/random.hpp"
#include "tenet/data/dataset.hpp"

namespace tenet {

/// One sample in memory, as a transform sees and changes it.
struct SampleView {
  const SampleLayout& layout;
  void* input_data;
  void* target_data;

  /// The input's elements; throws `Error` if they are not of type `T`.
  template <class T = float>
  std::span<T> input() const {
    return span_of<T>(input_data, layout.input_size(), layout.input_kind, "input");
  }
  /// The target's elements; throws `Error` if they are not of type `T`.
  template <class T = std::int32_t>
  std::span<T> target() const {
    return span_of<T>(target_data, layout.target_size(), layout.target_kind, "target");
  }

 private:
  template <class T>
  static std::span<T> span_of(void* data, long size, DataKind kind, const char* part) {
    if (kind != data_kind<T>)
      fail(std::string("SampleView::") + part, "element type", name_of(kind), name_of(data_kind<T>));
    return {static_cast<T*>(data), static_cast<std::size_t>(size)};
  }
};

/// A data set whose samples go through `transform(sample)` or `transform(sample, random)`, which changes them in place.
///
/// `random` is a `Random` of its own for each seed, epoch and index, so a sample is the same whichever thread reads it;
/// a map over a map draws other numbers than the one below, even with the same seed. The transform is called from
/// several threads at once, through a const reference.
template <Dataset D, class Transform>
class Map : public detail::ElementsOf<D> {
 public:
  Map(D dataset, Transform transform, std::uint64_t seed = 0)
      : dataset_(std::move(dataset)), transform_(std::move(transform)), seed_(epoch_seed(seed, map_depth)) {}

  /// How many maps lie on each other, this one included: part of the seed, so that their draws are unrelated.
  static constexpr int map_depth = detail::map_depth<D> + 1;

  /// Number of samples.
  long size() const { return static_cast<long>(dataset_.size()); }
  /// The layout of the data set below, which a transform cannot change.
  const SampleLayout& layout() const { return dataset_.layout(); }

  /// Reads sample `index` as it is in epoch 0.
  void read(long index, void* input, void* target) const { read(index, 0, input, target); }
  /// Reads sample `index` as it is in `epoch`.
  void read(long index, long epoch, void* input, void* target) const {
    read_sample(dataset_, index, epoch, input, target);
    const SampleView sample{layout(), input, target};
    if constexpr (requires(Random& random) { transform_(sample, random); }) {
      Random random(epoch_seed(seed_, epoch), static_cast<std::uint64_t>(index));
      transform_(sample, random);
    } else {
      transform_(sample);
    }
  }

 private:
  D dataset_;
  Transform transform_;
  std::uint64_t seed_;
};

namespace detail {

/// The input as channels x rows x columns; two extents are one channel, any other number is an `Error`.
struct ImageExtents {
  long channels, rows, columns;

  ImageExtents(const SampleLayout& layout, const char* where) {
    const std::vector<int>& extents = layout.input_extents;
    if (extents.size() != 2 && extents.size() != 3) {
      fail(where, "input", "rows x columns or channels x rows x columns", std::to_string(extents.size()) + " extents");
    }
    channels = extents.size() == 3 ? extents[0] : 1;
    rows = extents[extents.size() - 2];
    columns = extents[extents.size() - 1];
  }
};

}  // namespace detail

/// Transform: x = (x - mean[c]) / deviation[c] for each channel c, the first of the input's extents; one mean and
/// deviation serve every input, however many extents it has.
struct Normalize {
  std::vector<float> mean;
  std::vector<float> deviation;

  void operator()(const SampleView& sample) const {
    const std::span<float> x = sample.input();
    const std::vector<int>& extents = sample.layout.input_extents;
    const std::size_t channels = mean.size();
    if (channels == 0 || deviation.size() != channels ||
        (channels > 1 && (extents.empty() || extents[0] != static_cast<int>(channels)))) {
      fail("Normalize", "number of means and deviations", "one of each, or one of each for a channel",
           std::to_string(channels) + " and " + std::to_string(deviation.size()));
    }
    const std::size_t plane = x.size() / channels;
    for (std::size_t c = 0; c < channels; ++c) {
      const float scale = 1 / deviation[c];
      for (float& value : x.subspan(c * plane, plane)) value = (value - mean[c]) * scale;
    }
  }
};

/// Transform: mirrors images left to right with `probability`.
struct RandomFlip {
  float probability = 0.5f;

  void operator()(const SampleView& sample, Random& random) const {
    if (random.uniform() >= probability) return;
    const detail::ImageExtents image(sample.layout, "RandomFlip");
    float* row = sample.input().data();
    for (long r = 0; r < image.channels * image.rows; ++r, row += image.columns) {
      for (long left = 0, right = image.columns - 1; left < right; ++left, --right) std::swap(row[left], row[right]);
    }
  }
};

/// Transform: a random crop of the image padded with `fill` on all four sides, of the image's own size; that is, a
/// shift by -padding to padding pixels each way.
struct RandomCrop {
  int padding = 2;
  float fill = 0;

  void operator()(const SampleView& sample, Random& random) const {
    const detail::ImageExtents image(sample.layout, "RandomCrop");
    const auto choices = static_cast<std::uint32_t>(2 * padding + 1);
    const long down = static_cast<long>(random.below(choices)) - padding;
    const long right = static_cast<long>(random.below(choices)) - padding;
    float* data = sample.input().data();
    for (long c = 0; c < image.channels; ++c) shift(data + c * image.rows * image.columns, image, down, right);
  }

 private:
  // plane[r][k] = plane[r - down][k - right], in place: rows go in the order which reads each before it is overwritten.
  void shift(float* plane, const detail::ImageExtents& image, long down, long right) const {
    const long columns = image.columns;
    const long width = std::max(0L, columns - std::abs(right));
    for (long step = 0; step < image.rows; ++step) {
      const long r = down > 0 ? image.rows - 1 - step : step;
      const long source = r - down;
      float* row = plane + r * columns;
      const bool outside = source < 0 || source >= image.rows || width == 0;
      const long first = outside ? columns : std::max(0L, right);
      const long last = outside ? columns : first + width;
      if (!outside) {
        std::memmove(row + first, plane + source * columns + std::max(0L, -right), static_cast<std::size_t>(width) * 4);
      }
      std::fill(row, row + first, fill);
      std::fill(row + last, row + columns, fill);
    }
  }
};

}  // namespace tenet
