#pragma once

#include <cstring>

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/channels_last_rows.hpp"
#include "tenet/device/cpu/product.hpp"

/// Patches of images with few channels, channels last: their runs of channels are too short to be read where they lie.
/// Laid out side by side, the convolution is one of 1x1 with `taps` channels, in the order ky, kx, channel.
namespace tenet::cpu::detail {

/// Whether the runs of a pixel are too short.
constexpr bool lays_patches(const Conv2dGeometry& g) { return g.channels < vector_width && g.taps() > g.channels; }

/// Lines of results whose patches are laid out at once: half a second-level cache, at most.
constexpr long patch_lines(const Conv2dGeometry& g) {
  const long fitting = (1 << 16) / (g.out_width() * g.taps());
  return fitting > 1 ? smaller(fitting, g.out_height()) : 1;
}

/// How the batch is cut: some lines of one sample each.
constexpr GridCut patch_cut(const Conv2dGeometry& g, long batch) {
  GridCut cut(1, 1, 1, PanelCut(g.out_channels).count);
  cut.samples = 1;
  cut.groups = batch;
  cut.bands = blocks_of(g.out_height(), patch_lines(g));
  cut.lines = blocks_of(g.out_height(), cut.bands);
  cut.panels = PanelCut(g.out_channels).count;
  cut.panel_blocks = 1;
  return cut;
}

/// Floats of a padded line of the image.
constexpr long padded_line(const Conv2dGeometry& g) { return long{1} * (g.width + 2 * g.padding) * g.channels; }

/// Floats of the patches of some lines, and of the padded lines that they are laid from, with room for whole vectors
/// behind each.
constexpr long patch_floats(const Conv2dGeometry& g, long lines) {
  return lines * g.out_width() * g.taps() + g.lines_met(lines) * padded_line(g) + 2 * vector_width;
}

/// The patches of one line of results, whose padded lines begin at `from`, by pieces of `width` floats: what these
/// write too much is written later, or lies behind. Short pieces cross fewer cache lines.
template <int width>
[[gnu::always_inline]] inline void lay_runs(const Conv2dGeometry& g, const float* from, float* to) {
  const long line = padded_line(g), run = g.kernel_width * g.channels, step = g.stride * g.channels;
  const int positions = g.out_width(), lines = g.kernel_height;
  for (int x = 0; x < positions; ++x, from += step) {
    const float* source = from;
    for (int ky = 0; ky < lines; ++ky, source += line, to += run) {
      long i = 0;
      do {
        std::memcpy(to + i, source + i, sizeof(float) * width);
      } while (width == vector_width && (i += width) < run);
    }
  }
}

/// to [(line1 - line0) * out_width, taps] = the patches of the results' lines [line0, line1) of one sample; `image`:
/// its lines from `first_line` on.
[[gnu::noinline]] inline void lay_channels_last_patches(const Conv2dGeometry& g, long line0, long line1,
                                                        const float* image, long first_line, float* to) {
  const long line = padded_line(g), width = long{1} * g.width * g.channels;
  const long count = g.lines_met(line1 - line0);
  float* const padded = to + (line1 - line0) * g.out_width() * g.taps() + vector_width;
  for (long i = 0; i < count; ++i) {
    const long y = i + line0 * g.stride - g.padding;
    const bool inside = y >= 0 && y < g.height;
    float* const begin = padded + i * line;
    fill_floats(begin, 0, inside ? g.padding * g.channels : line);
    if (!inside) continue;
    copy_floats(begin + g.padding * g.channels, image + (y - first_line) * width, width);
    fill_floats(begin + g.padding * g.channels + width, 0, g.padding * g.channels);
  }
  fill_floats(padded + count * line, 0, vector_width);
  const long run = g.kernel_width * g.channels;
  for (long y = 0; y < line1 - line0; ++y) {
    const float* const from = padded + y * g.stride * line;
    float* const patches = to + y * g.out_width() * g.taps();
    if (run <= 4) {
      lay_runs<4>(g, from, patches);
    } else if (run <= 8 && vector_width > 8) {
      lay_runs<8>(g, from, patches);
    } else {
      lay_runs<vector_width>(g, from, patches);
    }
  }
}

}  // namespace tenet::cpu::detail
