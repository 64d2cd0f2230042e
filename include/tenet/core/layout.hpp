#pragma once

#include <tenet/core/tensor_type.hpp>

/// In which order the elements of a value lie in memory. Types say nothing of it: (batch, channels, height, width) is
/// what every operation means.
namespace tenet {

enum class Layout : unsigned char {
  standard,       ///< as the type says
  channels_last,  ///< of images, (batch, height, width, channels), and of weights of convolutions
  samples_last,  ///< of what has a batch, (⌈batch / 16⌉, …, 16): sixteen samples side by side, as lanes of vectors
};

/// Samples that lie side by side in `Layout::samples_last`; a multiple of every vector's width. The numbers beyond the
/// last sample of the last group mean nothing.
inline constexpr int sample_lanes = 16;
constexpr long sample_groups(long batch) { return (batch + sample_lanes - 1) / sample_lanes; }

/// A group takes as long as so many samples one by one. In a program a smaller batch lies so: each sample is a group of
/// its own, of one lane, and `samples_last` is the order of the types.
inline constexpr int least_batch_in_lanes = 4;
constexpr bool lies_in_lanes(long batch) { return batch >= least_batch_in_lanes; }
/// Samples with those that fill the last group.
constexpr long whole_groups(long batch) { return lies_in_lanes(batch) ? sample_groups(batch) * sample_lanes : batch; }

/// The type whose elements in their order are those of an image with its channels last, or of what is broadcast to one.
constexpr TensorInfo channels_last(const TensorInfo& type) {
  const auto extent = [&](int i) { return i < 3 - type.rank ? 1 : type.extents[i - 3 + type.rank]; };
  if (type.rank > 3) return type;
  return {type.dtype, type.batched, 3, {extent(1), extent(2), extent(0)}};
}

/// The type whose elements in their order are those of a group of samples, or of what is broadcast to them.
constexpr TensorInfo samples_last(const TensorInfo& type) {
  TensorInfo group = type;
  group.extents[group.rank++] = type.batched ? sample_lanes : 1;
  return group;
}

constexpr TensorInfo in_layout(const TensorInfo& type, Layout layout) {
  return layout == Layout::channels_last  ? channels_last(type)
         : layout == Layout::samples_last ? samples_last(type)
                                          : type;
}

/// Whether the elements of what is broadcast to an image lie in the same order with channels last.
constexpr bool has_one_order(const TensorInfo& type) {
  const TensorInfo last = channels_last(type);
  return type.rank <= 3 && (last.extents[2] == 1 || last.extents[0] * last.extents[1] == 1);
}

/// A copy of a value with a batch from one layout to another, one of which is `samples_last`.
struct Relayout {
  Layout from = Layout::standard, to = Layout::standard;
  Planes planes{};  ///< of a sample; where channels come last on neither side, one position of all its elements

  constexpr bool is_needed() const { return from != to; }
  constexpr long size() const { return planes.channels * planes.positions; }
};
constexpr Relayout relayout_of(const TensorInfo& type, Layout from, Layout to) {
  // Not as a conditional expression of two Planes, at which nvcc 13 crashes.
  Relayout relayout{from, to, planes_of(type)};
  if (from != Layout::channels_last && to != Layout::channels_last) relayout.planes = {type.size(), 1};
  return relayout;
}

}  // namespace tenet
