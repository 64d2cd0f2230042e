#pragma once

#include <cstdint>
#include <cstring>

#include "tenet/core/bfloat16.hpp"
#include "tenet/core/geometry.hpp"

/// Pairs of bfloat16 in the place of floats (`Term<bfloat16>`), for images with their channels last.
namespace tenet::cpu {

/// Whether the kernels of images with their channels last take bfloat16: numbers are multiplied in pairs of channels.
constexpr bool channels_last_takes_bfloat16(const Conv2dGeometry& g) {
  return g.channels % 2 == 0 && g.out_channels % 2 == 0;
}

namespace detail {

/// The geometry whose channels are pairs of those of `g`.
constexpr Conv2dGeometry of_pairs(Conv2dGeometry g) {
  g.channels /= 2;
  return g;
}

/// to[i] = the pair a[i], b[i]; writes nothing beyond `count`.
inline void write_pairs(const bfloat16* a, const bfloat16* b, long count, float* to) {
  long i = 0;
  for (; i + vector_width <= count; i += vector_width) store(to + i, load_pairs(a + i, b + i));
  for (; i < count; ++i) {
    const std::uint32_t pair = a[i].bits | static_cast<std::uint32_t>(b[i].bits) << 16;
    std::memcpy(to + i, &pair, sizeof pair);
  }
}

}  // namespace detail

}  // namespace tenet::cpu
