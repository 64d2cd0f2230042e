#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/product.hpp"

/// The operands of a convolution as matrices that exist only in packed blocks.
///
/// A convolution is the product weight [out_channels, taps] * patches [taps, positions], where row (channel, u, v) of
/// `patches` is the channel shifted by a tap. The samples of a group stand side by side as more columns. The gradient by
/// the input is of the same form, with transposed weights and taps in reverse; with a stride s, it is s * s such products,
/// one for each remainder of the coordinates modulo s.
namespace tenet::cpu::detail {

/// Patches of images [channels, height, width]: element (row (channel, u, v), column (sample, i, j)) is
/// image[sample, channel, first_y + i * stride + u * tap_step, first_x + j * stride + v * tap_step], 0 outside the image.
struct Patches {
  const float *image, *end;  // the samples, and the end of their memory
  long sample_step;
  int height, width;
  int taps_y, taps_x, first_y, first_x, tap_step;
  int stride, grid_height, grid_width;

  long positions() const { return long{1} * grid_height * grid_width; }

  /// Writes columns [j0, j0 + columns) of a row; may write up to a vector beyond them.
  void row(long index, long j0, long columns, float* to) const {
    const long taps = long{1} * taps_y * taps_x, tap = index % taps;
    const float* plane = image + j0 / positions() * sample_step + index / taps * height * width;
    const long y0 = first_y + tap / taps_x * tap_step, x0 = first_x + tap % taps_x * tap_step;
    // Columns j of the grid with 0 <= x0 + j * stride < width.
    const long inside = x0 >= 0 ? 0 : smaller(grid_width, blocks_of(-x0, stride));
    const long outside = x0 >= width ? 0 : smaller(grid_width, blocks_of(width - x0, stride));
    long i = j0 % positions() / grid_width, j = j0 % grid_width;
    while (columns > 0) {
      const long count = smaller(grid_width - j, columns), y = y0 + i * stride;
      const long from = inside > j ? inside : j, until = smaller(outside, j + count);
      if (y < 0 || y >= height || from >= until) {
        zeros(to, count);
      } else {
        if (from > j) zeros(to, from - j);
        copy(plane + y * width + x0 + from * stride, until - from, to + (from - j));
        if (until < j + count) zeros(to + (until - j), j + count - until);
      }
      to += count;
      columns -= count;
      j = 0;
      if (++i == grid_height) {
        i = 0;
        plane += sample_step;
      }
    }
  }

 private:
  static void zeros(float* to, long count) {
    for (long u = 0; u < count; u += vector_width) store(to + u, Vector{});
  }

  void copy(const float* from, long count, float* to) const {
    if (stride == 1 && end - from >= count + vector_width) {
      for (long u = 0; u < count; u += vector_width) store(to + u, load(from + u));
    } else {
      for (long u = 0; u < count; ++u) to[u] = from[u * stride];
    }
  }
};

/// Patches as the right operand of `blocked_product`.
struct RightPatches {
  Patches patches;

  void pack(long k0, long terms, long j0, long columns, float* to, float* buffer) const {
    for (long k = 0; k < terms; ++k) {
      patches.row(k0 + k, j0, columns, buffer);
      store(buffer + columns, Vector{});  // fills the last panel up to whole vectors
      float* target = to;
      for (long j = 0; j < columns; j += tile_columns) {
        const long width = smaller(tile_columns, round_up(columns - j, vector_width));
        for (long u = 0; u < width; u += vector_width) store(target + k * width + u, load(buffer + j + u));
        target += terms * width;
      }
    }
  }
};

/// Patches as the left operand of `blocked_product`: rows are taps, the sum runs over positions and samples.
struct LeftPatches {
  Patches patches;
  long first_row;

  PackedRows pack(long i0, long rows, long k0, long terms, float* to) const {
    for (long i = 0; i < rows; ++i) patches.row(first_row + i0 + i, k0, terms, to + i * packed_row);
    return {packed_row, 1};
  }
};

/// Channels of a sample's gradient as columns, positions and samples as terms: the right operand beside `LeftPatches`.
struct RightChannels {
  const float* data;
  long sample_step, positions;

  void pack(long k0, long terms, long j0, long columns, float* to, float*) const {
    for (long j = j0; j < j0 + columns; j += tile_columns) {
      const long valid = smaller(tile_columns, j0 + columns - j), width = round_up(valid, vector_width);
      if (valid < width) {
        for (long k = 0; k < terms; ++k) store(to + k * width + width - vector_width, Vector{});
      }
      for (long k = k0; k < k0 + terms;) {
        const long position = k % positions, count = smaller(positions - position, k0 + terms - k);
        transpose(data + k / positions * sample_step + j * positions + position, positions, valid, count,
                  to + (k - k0) * width, width);
        k += count;
      }
      to += terms * width;
    }
  }
};

/// Weights with the roles of the channels exchanged: row c, term (o, u, v) is weight[o, c, first_y + u * stride, first_x + v *
/// stride].
struct LeftTransposedWeights {
  const float* weight;
  Conv2dGeometry geometry;
  int taps_y, taps_x, first_y, first_x;

  PackedRows pack(long i0, long rows, long k0, long terms, float* to) const {
    const Conv2dGeometry& g = geometry;
    const long taps = long{1} * taps_y * taps_x, kernel = long{1} * g.kernel_height * g.kernel_width;
    long offsets[block_inner];
    for (long k = 0; k < terms; ++k) {
      const long o = (k0 + k) / taps, tap = (k0 + k) % taps;
      const long u = first_y + tap / taps_x * g.stride, v = first_x + tap % taps_x * g.stride;
      offsets[k] = o * g.channels * kernel + u * g.kernel_width + v;
    }
    for (long i = 0; i < rows; ++i) {
      const float* from = weight + (i0 + i) * kernel;
      for (long k = 0; k < terms; ++k) to[i * packed_row + k] = from[offsets[k]];
    }
    return {packed_row, 1};
  }
};

/// The channels of a group of samples as a matrix [channels, (sample, position)], the result of `blocked_product`.
struct ResultChannels {
  float* data;
  long sample_step, row_step;

  float* at(long row, long column) const {
    return data + column / row_step * sample_step + row * row_step + column % row_step;
  }
  long run(long column) const { return row_step - column % row_step; }
};

}  // namespace tenet::cpu::detail
