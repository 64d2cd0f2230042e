#pragma once

#include <cstdint>
#include <cstring>

#include "tenet/core/bfloat16.hpp"
#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/channels_last_ahead.hpp"
#include "tenet/device/cpu/channels_last_pairs.hpp"
#include "tenet/device/cpu/channels_last_patches.hpp"
#include "tenet/device/cpu/channels_last_tile.hpp"
#include "tenet/device/cpu/product.hpp"

/// Sums over the positions of images with their channels last: which positions a tap meets, and where the factors of
/// each are read.
namespace tenet::cpu::detail {

/// Whether the channels of a pixel are too few for tiles, so that those of a patch take their place.
constexpr bool sums_patches(const Conv2dGeometry& g) { return g.channels < vector_width; }

/// Positions whose factors stay in the second-level cache while all taps are summed: some samples, or some lines of
/// one.
struct PositionChunk {
  long sample0, samples, line0, line1, samples_at_once, lines_at_once, sample_end, all_lines;
  static constexpr long most_positions(const Conv2dGeometry& g) { return sums_patches(g) ? 256 : 128; }

  static constexpr long samples_of(const Conv2dGeometry& g) { return larger_or_one(most_positions(g) / g.positions()); }
  static constexpr long lines_of(const Conv2dGeometry& g) {
    const long most = smaller(larger_or_one(most_positions(g) / g.out_width()), g.out_height());
    return blocks_of(g.out_height(), blocks_of(g.out_height(), most));
  }
  /// The most positions of any chunk.
  static constexpr long positions_of(const Conv2dGeometry& g) { return samples_of(g) * lines_of(g) * g.out_width(); }

  constexpr PositionChunk(const Conv2dGeometry& g, long first_sample, long end)
      : sample0(first_sample),
        line0(0),
        samples_at_once(samples_of(g)),
        lines_at_once(lines_of(g)),
        sample_end(end),
        all_lines(g.out_height()) {
    clip();
  }
  /// Its first position in the batch, and how many it has.
  constexpr long position(const Conv2dGeometry& g) const { return sample0 * g.positions() + line0 * g.out_width(); }
  constexpr long positions(const Conv2dGeometry& g) const { return samples * (line1 - line0) * g.out_width(); }
  constexpr SampleLines lines(long samples_each, long batch) const {
    return {sample0 * samples_each, smaller((sample0 + samples) * samples_each, batch), line0, line1};
  }
  constexpr PositionChunk next() const {
    PositionChunk result = *this;
    result.advance();
    return result;
  }
  constexpr bool finished() const { return sample0 >= sample_end; }
  constexpr void advance() {
    line0 = line1 < all_lines ? line1 : 0;
    if (line0 == 0) sample0 += samples;
    clip();
  }

 private:
  static constexpr long larger_or_one(long a) { return a > 1 ? a : 1; }
  constexpr void clip() {
    samples = smaller(samples_at_once, sample_end - sample0);
    line1 = smaller(line0 + lines_at_once, all_lines);
  }
};

/// Where the factors of a chunk lie: pixel (y, x) of its sample i at left + i * sample + (y - first_line) * line + x *
/// pixel; the result channels of its position p, counted from its first, at right + p * right_row, or, where right_row
/// is 0, in packed panels, one after the other.
struct ChunkFactors {
  const float* left;
  long sample, first_line, line, pixel;
  const float* right;
  long right_row;
};

/// The terms of a tap: the positions of the chunk that meet the image. Returns their end.
inline PositionTerm* list_positions(const Conv2dGeometry& g, const PositionChunk& chunk, const ChunkFactors& factors,
                                    int tap, PositionTerm* to) {
  const int ky = tap / g.kernel_width, kx = tap % g.kernel_width, left = g.padding - kx;
  const int x0 = left > 0 ? (left + g.stride - 1) / g.stride : 0;
  const int last = g.width - 1 + left;  // the most that x * stride may be
  const int x1 = last < 0 ? 0 : static_cast<int>(smaller(g.out_width(), last / g.stride + 1));
  const long pixel = g.stride * factors.pixel;
  long right = 0;
  for (long n = 0; n < chunk.samples; ++n) {
    for (long y = chunk.line0; y < chunk.line1; ++y, right += g.out_width()) {
      const long image_y = y * g.stride + ky - g.padding;
      if (image_y < 0 || image_y >= g.height) continue;
      const long line =
          n * factors.sample + (image_y - factors.first_line) * factors.line - long{1} * left * factors.pixel;
      const float* from = factors.left + (line + x0 * pixel);
      for (long x = x0; x < x1; ++x, ++to, from += pixel) {
        to->left = from;
        to->right = right + x;
      }
    }
  }
  return to;
}

/// sums[i * row + j] = (or +=) the sum over terms of left[i] * panel[right * panel_row + j] for i < channels and j <
/// width. Where the last channels do not fill a tile, it begins before, and they are taken from what it gives; where
/// all of them do not, it reads beyond.
template <class Factor>
void multiply_channel_rows(const PositionTerm* terms, const PositionTerm* end, long channels, const float* panel,
                           long panel_row, long width, float* sums, long row, bool accumulate, FactorsAhead& ahead) {
  const int vectors = static_cast<int>(width / vector_width);
  for (long i = 0; i < channels;) {
    const long left = channels - i, height = rows_of_tile(left);
    ahead.fetch();
    const PositionTile tile = position_tiles<Factor>[height == wide_rows][vectors - 1];
    if (left >= height) {
      tile(terms, end, i, panel, panel_row, sums + i * row, row, accumulate);
      i += height;
      continue;
    }
    float buffer[wide_rows * wide_columns];
    const long from = channels > height ? channels - height : 0;
    tile(terms, end, from, panel, panel_row, buffer, width, false);
    for (; i < channels; ++i) {
      (accumulate ? add_floats : copy_floats)(sums + i * row, buffer + (i - from) * width, width);
    }
  }
}

/// Scratch of a task: terms, a panel of the gradient, staged lines of the image and its patches, and what is fetched
/// ahead, in this order.
struct PositionScratch {
  long terms, right, staged, patches, ahead;

  constexpr PositionScratch(const Conv2dGeometry& g, long channels, long columns, bool in_pairs) {
    const long positions = PositionChunk::positions_of(g), lines = PositionChunk::lines_of(g);
    terms = round_up(positions * static_cast<long>(sizeof(PositionTerm) / sizeof(float)), vector_width);
    right = positions * columns;
    const long staged_channels = sums_patches(g) ? g.channels : channels;
    const long pixels = PositionChunk::samples_of(g) * g.lines_met(lines) * g.width;
    staged = in_pairs ? round_up(pixels * staged_channels, vector_width) : 0;
    patches = sums_patches(g) ? round_up(PositionChunk::samples_of(g) * patch_floats(g, lines), vector_width) : 0;
    ahead = round_up((in_pairs ? 2 : 1) * PositionChunk::samples_of(g) * FactorsAhead::most_runs(g, lines) * 2,
                     vector_width);
  }
  constexpr long floats() const { return terms + right + staged + patches + ahead; }
};

/// Channels [channel0, channel1) of the image, and result channels [column0, column1), filled up to whole vectors.
struct ChannelRange {
  long channel0, channel1, panel0, panel1, column0, column1;
};

/// Whether result channels are read where they lie: packing pays by reuse, for several taps.
inline bool positions_in_place(const Conv2dGeometry& g, const float* from) {
  return (sums_patches(g) || g.kernel_height * g.kernel_width == 1) &&
         reads_in_place({from, g.out_channels, 1}, g.out_channels);
}

/// The images of a batch of floats, which are read where they lie.
struct FloatImages {
  const Conv2dGeometry& g;
  long batch;
  const float *input, *gradient;
  static constexpr bool staged = false;
  static constexpr long samples_each = 1;

  long count() const { return batch; }
  /// The channels from channel0 on of the pixels of a chunk.
  ChunkFactors left(const PositionChunk& chunk, const ChannelRange& range, float*) const {
    return {input + chunk.sample0 * g.input_size() + range.channel0,
            g.input_size(),
            0,
            long{1} * g.width * g.channels,
            g.channels,
            nullptr,
            0};
  }
  /// Result channels [column0, column1), in panels of `cut` if they are packed.
  void place_right(const PositionChunk& chunk, const ChannelRange& range, const PanelCut& cut, float* room,
                   ChunkFactors& factors) const {
    const float* const from = gradient + chunk.position(g) * g.out_channels;
    if (positions_in_place(g, from)) {
      factors.right = from + range.column0;
      factors.right_row = g.out_channels;
      return;
    }
    factors.right = room;
    for (long panel = range.panel0; panel < range.panel1; ++panel) {
      const long first = cut.first(panel), width = cut.width(panel), present = smaller(width, g.out_channels - first);
      for (long p = 0; p < chunk.positions(g); ++p, room += width) {
        copy_floats(room, from + p * g.out_channels + first, present);
        fill_floats(room + present, 0, width - present);
      }
    }
  }
};

/// The images of a batch of bfloat16, which are staged as pairs of samples 2n and 2n + 1, the second of which may be
/// missing.
struct PairedImages {
  const Conv2dGeometry& g;
  long batch;
  const bfloat16 *input, *gradient;
  static constexpr bool staged = true;
  static constexpr long samples_each = 2;

  long count() const { return blocks_of(batch, 2); }

  /// Stages the pixels that any tap meets, [lines, width, channels].
  ChunkFactors left(const PositionChunk& chunk, const ChannelRange& range, float* room) const {
    const long first = chunk.line0 * g.stride - g.padding, first_line = first > 0 ? first : 0;
    const long end_line = smaller(first + g.lines_met(chunk.line1 - chunk.line0), g.height);
    const long channels = range.channel1 - range.channel0, line = g.width * channels;
    const long sample = end_line > first_line ? (end_line - first_line) * line : 0;
    const bool whole = channels == g.channels && g.kernel_width >= g.stride;
    for (long n = 0; n < chunk.samples; ++n) {
      for (long y = first_line; y < end_line; ++y) {
        if ((y + g.padding) % g.stride >= g.kernel_height) continue;
        const bfloat16* const from = input + y * g.width * g.channels + range.channel0;
        float* const to = room + n * sample + (y - first_line) * line;
        if (whole) pair_samples(from, chunk.sample0 + n, g.input_size(), line, to);
        for (long x = 0; x < g.width && !whole; ++x) {
          if ((x + g.padding) % g.stride >= g.kernel_width) continue;
          pair_samples(from + x * g.channels, chunk.sample0 + n, g.input_size(), channels, to + x * channels);
        }
      }
    }
    return {room, sample, first_line, line, channels, nullptr, 0};
  }
  /// Stages result channels [column0, column1) in panels of `cut`.
  void place_right(const PositionChunk& chunk, const ChannelRange& range, const PanelCut& cut, float* room,
                   ChunkFactors& factors) const {
    factors.right = room;
    for (long panel = range.panel0; panel < range.panel1; ++panel) {
      const long first = cut.first(panel), width = cut.width(panel), present = smaller(width, g.out_channels - first);
      for (long p = chunk.position(g); p < chunk.position(g) + chunk.positions(g); ++p, room += width) {
        pair_samples(gradient + p % g.positions() * g.out_channels + first, p / g.positions(), g.result_size(), present,
                     room);
        fill_floats(room + present, 0, width - present);
      }
    }
  }

 private:
  /// to[i] = the pair from[i] of samples 2n and 2n + 1, which lie `size` apart; zero where there is no such sample.
  void pair_samples(const bfloat16* from, long n, long size, long values, float* to) const {
    const bfloat16* const a = from + 2 * n * size;
    if (2 * n + 1 < batch) return write_pairs(a, a + size, values, to);
    for (long i = 0; i < values; ++i) {
      const std::uint32_t pair = a[i].bits;
      std::memcpy(to + i, &pair, sizeof pair);
    }
  }
};

/// Brings the factors of a chunk to where tiles read them; with few channels, the pixels are patches.
template <class Images>
ChunkFactors chunk_factors(const Conv2dGeometry& g, const Images& images, const PositionChunk& chunk,
                           const ChannelRange& range, const PanelCut& cut, const PositionScratch& room,
                           float* scratch) {
  float* const right = scratch + room.terms;
  float* const stage = right + room.right;
  const bool few = sums_patches(g);
  ChunkFactors factors = images.left(chunk, few ? ChannelRange{0, g.channels, 0, 0, 0, 0} : range, stage);
  if (few) {
    float* const patches = stage + room.staged;
    const long sample = patch_floats(g, chunk.line1 - chunk.line0);
    for (long n = 0; n < chunk.samples; ++n) {
      lay_channels_last_patches(g, chunk.line0, chunk.line1, factors.left + n * factors.sample, factors.first_line,
                                patches + n * sample);
    }
    factors = {patches + range.channel0, sample, chunk.line0, g.out_width() * g.taps(), g.taps(), nullptr, 0};
  }
  images.place_right(chunk, range, cut, right, factors);
  return factors;
}

/// The factors of the chunk behind `chunk`, to be fetched `fetches` times; `room`: the last of the scratch. Patches are
/// too quickly multiplied for that.
template <class Images>
FactorsAhead factors_ahead(const Conv2dGeometry& g, const Images& images, const PositionChunk& chunk,
                           const ChannelRange& range, long fetches, float* room) {
  const PositionChunk next = chunk.next();
  const bool none = sums_patches(g) || next.finished();
  return FactorsAhead(g, none ? SampleLines{} : next.lines(images.samples_each, images.batch),
                      images.input + range.channel0, range.channel1 - range.channel0, images.gradient + range.column0,
                      smaller(range.column1, g.out_channels) - range.column0, fetches,
                      reinterpret_cast<const void**>(room));
}

}  // namespace tenet::cpu::detail
