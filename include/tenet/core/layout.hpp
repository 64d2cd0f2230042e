#pragma once

namespace tenet {

/// In which order the elements of a batched image value (batch, channels, height, width) lie in memory. Values without
/// a batch, parameters and their gradients among them, always lie as their shape says.
enum class Layout : unsigned char {
  standard,      ///< as the shape says: [batch][channels][height][width]
  samples_last,  ///< [⌈batch / 16⌉][channels][height][width][16]: the lanes of a vector are samples
};

/// Samples that lie side by side in `Layout::samples_last`; a multiple of every vector's width. The last group of a
/// batch that is not a multiple is filled with copies of the last sample, so that no operation meets a number that the
/// samples themselves would not give.
inline constexpr int sample_lanes = 16;

/// A layout as a type: kernels are overloaded for it.
template <Layout layout>
struct In {};

}  // namespace tenet
