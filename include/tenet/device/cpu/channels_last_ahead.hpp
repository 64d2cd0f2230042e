#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/product.hpp"

/// What a sum over positions reads next comes to the second-level cache meanwhile: images of a batch lie in memory when
/// a gradient by the weight begins, and each is read once.
namespace tenet::cpu::detail {

/// Runs of `bytes` bytes in memory, `share` of which are fetched at a time.
struct RunsAhead {
  const void **next = nullptr, **end = nullptr;
  long bytes = 0, share = 0;

  void fetch() {
    for (long i = 0; i < share && next < end; ++i, ++next) {
      for (long at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(*next) + at, 0, 2);
    }
  }
};

/// Samples [sample0, sample1), lines [line0, line1) of results.
struct SampleLines {
  long sample0, sample1, line0, line1;
};

/// Pixels of the image that any tap of these lines meets, and positions of the gradient.
struct FactorsAhead {
  RunsAhead pixels, positions;

  void fetch() {
    pixels.fetch();
    positions.fetch();
  }

  /// The most pixels and positions of a sample.
  static constexpr long most_runs(const Conv2dGeometry& g, long lines) {
    return g.lines_met(lines) * g.width + lines * g.out_width();
  }

  /// Lists `channels` channels from `input` on, and `columns` result channels from `gradient` on, in `room`, for as
  /// many fetches.
  template <class Number>
  FactorsAhead(const Conv2dGeometry& g, const SampleLines& lines, const Number* input, long channels,
               const Number* gradient, long columns, long fetches, const void** room) {
    pixels.next = room;
    const long first = lines.line0 * g.stride - g.padding, end = (lines.line1 - 1) * g.stride - g.padding;
    for (long n = lines.sample0; n < lines.sample1; ++n) {
      for (long y = first > 0 ? first : 0; y < smaller(end + g.kernel_height, g.height); ++y) {
        if ((y + g.padding) % g.stride >= g.kernel_height) continue;
        for (long x = 0; x < g.width; x += g.kernel_width < g.stride ? g.stride : 1) {
          *room++ = input + n * g.input_size() + (y * g.width + x) * g.channels;
        }
      }
    }
    pixels.end = positions.next = room;
    for (long n = lines.sample0; n < lines.sample1; ++n) {
      for (long p = lines.line0 * g.out_width(); p < lines.line1 * g.out_width(); ++p) {
        *room++ = gradient + n * g.result_size() + p * g.out_channels;
      }
    }
    positions.end = room;
    pixels.bytes = channels * static_cast<long>(sizeof(Number));
    pixels.share = blocks_of(pixels.end - pixels.next, fetches);
    positions.bytes = columns * static_cast<long>(sizeof(Number));
    positions.share = blocks_of(positions.end - positions.next, fetches);
  }
};

}  // namespace tenet::cpu::detail
