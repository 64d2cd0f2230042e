#pragma once

#include <algorithm>
#include <cstddef>
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
  static_assert(!detail::Outermost<D>, "Map: Resident is the outermost data set: Resident{Map{dataset, ...}}");

 public:
  Map(D dataset, Transform transform, std::uint64_t seed = 0)
      : dataset_(std::move(dataset)), transform_(std::move(transform)), seed_(epoch_seed(seed, map_depth)) {}

  /// How many maps lie on each other, this one included: part of the seed, so that their draws are unrelated.
  static constexpr int map_depth = detail::map_depth<D> + 1;
  /// Whether samples differ from epoch to epoch because of this map.
  static constexpr bool draws =
      requires(const Transform& transform, const SampleView& sample, Random& random) { transform(sample, random); };

  /// Number of samples.
  long size() const { return static_cast<long>(dataset_.size()); }
  /// The layout of the data set below, which a transform cannot change.
  const SampleLayout& layout() const { return dataset_.layout(); }
  /// The data set below.
  const D& dataset() const { return dataset_; }
  /// What samples go through.
  const Transform& transform() const { return transform_; }
  /// The seed of an epoch's draws; those of a sample are the stream of its index.
  std::uint64_t seed_of(long epoch) const { return epoch_seed(seed_, epoch); }

  /// Reads sample `index` as it is in epoch 0.
  void read(long index, void* input, void* target) const { read(index, 0, input, target); }
  /// Reads sample `index` as it is in `epoch`.
  void read(long index, long epoch, void* input, void* target) const {
    read_sample(dataset_, index, epoch, input, target);
    const SampleView sample{layout(), input, target};
    if constexpr (draws) {
      Random random(seed_of(epoch), static_cast<std::uint64_t>(index));
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

/// `Normalize` of one element; here as on a device.
constexpr float normalized(float value, float mean, float scale) { return (value - mean) * scale; }

/// What transforms do element by element, for devices that make samples themselves: see `Resident`.
struct NormalizedElements {
  static constexpr int most_channels = 32;  ///< these numbers are a kernel's arguments
  std::uint32_t plane;                      ///< elements of a channel
  float mean[most_channels];
  float scale[most_channels];

  template <class Below>
  constexpr float operator()(const Below& below, std::uint32_t element) const {
    const std::uint32_t channel = element / plane;
    return normalized(below(element), mean[channel], scale[channel]);
  }
};

struct FlippedElements {
  float probability;
  std::uint32_t columns;

  constexpr bool draw(Random& random) const { return random.uniform() < probability; }
  template <class Below>
  constexpr float operator()(bool is_flipped, const Below& below, std::uint32_t element) const {
    const std::uint32_t column = element % columns;
    return below(is_flipped ? element - column + (columns - 1 - column) : element);
  }
};

struct ShiftedElements {
  int padding;
  float fill;
  std::uint32_t rows, columns;

  struct Shift {
    long down, right;
  };
  constexpr Shift draw(Random& random) const {
    const auto choices = static_cast<std::uint32_t>(2 * padding + 1);
    const long down = static_cast<long>(random.below(choices)) - padding;
    const long right = static_cast<long>(random.below(choices)) - padding;
    return {down, right};
  }
  template <class Below>
  constexpr float operator()(const Shift& by, const Below& below, std::uint32_t element) const {
    const std::uint32_t column = element % columns, row = element / columns % rows;
    const long from_row = row - by.down, from_column = column - by.right;
    if (from_row < 0 || from_row >= rows || from_column < 0 || from_column >= columns) return fill;
    return below(static_cast<std::uint32_t>(element - by.down * columns - by.right));
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
    check(sample.layout);
    const std::size_t channels = mean.size(), plane = x.size() / channels;
    for (std::size_t c = 0; c < channels; ++c) {
      const float scale = 1 / deviation[c];
      for (float& value : x.subspan(c * plane, plane)) value = detail::normalized(value, mean[c], scale);
    }
  }

  /// The same element by element; throws `Error` for more than 32 channels.
  detail::NormalizedElements elements(const SampleLayout& layout) const {
    check(layout);
    const std::size_t channels = mean.size();
    if (channels > detail::NormalizedElements::most_channels) {
      fail("Normalize", "channels on a device", "at most 32", static_cast<long>(channels));
    }
    detail::NormalizedElements made{};
    made.plane = static_cast<std::uint32_t>(layout.input_size() / static_cast<long>(channels));
    for (std::size_t c = 0; c < channels; ++c) {
      made.mean[c] = mean[c];
      made.scale[c] = 1 / deviation[c];
    }
    return made;
  }

 private:
  void check(const SampleLayout& layout) const {
    const std::size_t channels = mean.size();
    const std::vector<int>& extents = layout.input_extents;
    if (channels == 0 || deviation.size() != channels ||
        (channels > 1 && (extents.empty() || extents[0] != static_cast<int>(channels)))) {
      fail("Normalize", "number of means and deviations", "one of each, or one of each for a channel",
           std::to_string(channels) + " and " + std::to_string(deviation.size()));
    }
  }
};

/// Transform: mirrors images left to right with `probability`.
struct RandomFlip {
  float probability = 0.5f;

  void operator()(const SampleView& sample, Random& random) const {
    const detail::ImageExtents image(sample.layout, "RandomFlip");
    if (!elements(sample.layout).draw(random)) return;
    float* row = sample.input().data();
    for (long r = 0; r < image.channels * image.rows; ++r, row += image.columns) {
      for (long left = 0, right = image.columns - 1; left < right; ++left, --right) std::swap(row[left], row[right]);
    }
  }

  /// The same element by element.
  detail::FlippedElements elements(const SampleLayout& layout) const {
    return {probability, static_cast<std::uint32_t>(detail::ImageExtents(layout, "RandomFlip").columns)};
  }
};

/// Transform: a random crop of the image padded with `fill` on all four sides, of the image's own size; that is, a
/// shift by -padding to padding pixels each way.
struct RandomCrop {
  int padding = 2;
  float fill = 0;

  void operator()(const SampleView& sample, Random& random) const {
    const detail::ImageExtents image(sample.layout, "RandomCrop");
    const auto by = elements(sample.layout).draw(random);
    float* data = sample.input().data();
    for (long c = 0; c < image.channels; ++c) shift(data + c * image.rows * image.columns, image, by.down, by.right);
  }

  /// The same element by element.
  detail::ShiftedElements elements(const SampleLayout& layout) const {
    const detail::ImageExtents image(layout, "RandomCrop");
    return {padding, fill, static_cast<std::uint32_t>(image.rows), static_cast<std::uint32_t>(image.columns)};
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
