#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/transpose.hpp"
#include "tenet/device/cpu/workers.hpp"

/// Weights [out_channels, channels, kernel_height, kernel_width] in panels as wide as a tile, filled up to whole
/// vectors, whose rows are the terms of a sum: as products of patches, or of an image's pixels, with weights read them.
namespace tenet::cpu {

/// Floats of weights that `run_pack_weights` has packed.
constexpr long packed_weights(const Conv2dGeometry& g) {
  return g.taps() * detail::round_up(g.out_channels, vector_width);
}

namespace detail {

constexpr long kernel_area(const Conv2dGeometry& g) { return long{1} * g.kernel_height * g.kernel_width; }

/// Floats of weights in panels of the image's channels.
constexpr long input_gradient_panels(const Conv2dGeometry& g) {
  return g.out_channels * kernel_area(g) * round_up(g.channels, vector_width);
}

/// Channels [channel0, channel1) of one panel of `run_pack_weights`.
inline void pack_channels(const Conv2dGeometry& g, long channel0, long channel1, const float* from, long present,
                          long width, float* to) {
  const long area = kernel_area(g);
  if (area == 1) {
    return pack_panel(channel1 - channel0, present, width, {from + channel0, 1, g.taps()}, to + channel0 * width);
  }
  for (long c = channel0; c < channel1; ++c) {
    for (long tap = 0; tap < area && present < width; ++tap) fill_floats(to + (tap * g.channels + c) * width, 0, width);
    transpose_vectors(from + c * area, g.taps(), present, area, to + c * width, g.channels * width);
  }
}

/// to [kernel_height, kernel_width, out_channels, width], one panel after the other, of the image's channels: what
/// comes from the weights `from` [channels, kernel_height, kernel_width] of result channel `o`.
inline void pack_input_gradient_weights(const Conv2dGeometry& g, long o, const float* from, float* to) {
  const PanelCut panels(g.channels);
  const long area = kernel_area(g);
  for (long panel = 0; panel < panels.count; ++panel) {
    const long first = panels.first(panel), width = panels.width(panel), present = smaller(width, g.channels - first);
    float* const panel_to = to + first * area * g.out_channels + o * width;
    for (long tap = 0; tap < area && present < width; ++tap) {
      fill_floats(panel_to + tap * g.out_channels * width, 0, width);
    }
    transpose_vectors(from + first * area, area, present, area, panel_to, g.out_channels * width);
  }
}

}  // namespace detail

/// Brings weights into panels of result channels, one after the other: to [taps, width], the taps in the order ky, kx,
/// channel.
inline void run_pack_weights(Workers& workers, const Conv2dGeometry& g, const float* weight, float* to) {
  using namespace detail;
  const PanelCut panels(g.out_channels);
  constexpr long step = 64;
  const long parts = blocks_of(g.channels, step);
  auto task = [&](int index, int) {
    const long panel = index / parts, channel0 = index % parts * step, channel1 = smaller(channel0 + step, g.channels);
    const long first = panels.first(panel), width = panels.width(panel),
               present = smaller(width, g.out_channels - first);
    pack_channels(g, channel0, channel1, weight + first * g.taps(), present, width, to + first * g.taps());
  };
  run_tasks(workers, panels.count * parts, static_cast<double>(g.weight_size()) < inline_elements, task);
}

}  // namespace tenet::cpu
