#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/product.hpp"

/// The operands of a convolution as matrices that exist only in packed blocks.
///
/// A convolution is the product weight [out_channels, taps] * patches [taps, positions], where row (channel, u, v) of
/// `patches` is the channel shifted by a tap. The samples of a group stand side by side as more columns. The gradient
/// by the input is of the same form, with transposed weights and taps in reverse; with a stride s, it is s * s such
/// products, one for each remainder of the coordinates modulo s.
namespace tenet::cpu::detail {

/// Patches of images [channels, height, width]: element (row (channel, u, v), column (sample, i, j)) is
/// image[sample, channel, first_y + i * stride + u * tap_step, first_x + j * stride + v * tap_step], 0 outside the
/// image.
struct Patches {
  const float* image;
  long sample_step;
  int height, width;
  int taps_y, taps_x, first_y, first_x, tap_step;  // tap_step is 1 or -1
  int stride, grid_height, grid_width;

  long positions() const { return long{1} * grid_height * grid_width; }

  /// Computes rows [k0, k0 + rows) of columns [j0, j0 + columns), columns <= block_columns, in runs: calls
  /// target(row - k0, column - j0, run, length).
  ///
  /// The part of a channel that a piece needs is first copied to `padded` with its border of zeros, columns sorted by
  /// their remainder modulo the stride: then every row of the grid is a contiguous run for each tap.
  template <class Target>
  void compute(long k0, long rows, long j0, long columns, float* padded, Target&& target) const {
    const long taps = long{1} * taps_y * taps_x;
    const long phase = ((grid_width - 1) * stride + taps_x + stride - 1) / stride, row_step = phase * stride;
    for (long column = 0; column < columns;) {
      const long sample = (j0 + column) / positions(), position = (j0 + column) % positions();
      const long count = smaller(columns - column, positions() - position);
      const long i0 = position / grid_width, i1 = (position + count - 1) / grid_width;
      for (long k = k0; k < k0 + rows;) {
        const long channel = k / taps, end = smaller(k0 + rows, (channel + 1) * taps);
        pad(image + sample * sample_step + channel * height * width, i0 * stride, (i1 - i0) * stride + taps_y, phase,
            padded);
        for (; k < end; ++k) {
          const long tap_y = k % taps / taps_x, tap_x = k % taps % taps_x;
          const long u = tap_step > 0 ? tap_y : taps_y - 1 - tap_y, v = tap_step > 0 ? tap_x : taps_x - 1 - tap_x;
          const float* from = padded + u * row_step + v % stride * phase + v / stride;
          long j = position % grid_width;
          for (long done = 0; done < count; from += row_step * stride, j = 0) {
            const long run = smaller(grid_width - j, count - done);
            target(k - k0, column + done, from + j, run);
            done += run;
          }
        }
      }
      column += count;
    }
  }

 private:
  /// Copies rows [row0, row0 + rows), counted from the first that a tap reaches, of a channel.
  void pad(const float* plane, long row0, long rows, long phase, float* to) const {
    const long y0 = row0 + (tap_step > 0 ? first_y : first_y - (taps_y - 1));
    const long x0 = tap_step > 0 ? first_x : first_x - (taps_x - 1);
    for (long y = y0; y < y0 + rows; ++y) {
      const float* from = plane + y * width;
      for (long r = 0; r < stride; ++r, to += phase) {
        if (y < 0 || y >= height) {
          fill_floats(to, 0, phase);
          continue;
        }
        // Element q is image column x0 + r + q * stride, inside the image for q in [inside, outside).
        const long x = x0 + r;
        const long inside = x >= 0 ? 0 : smaller(phase, blocks_of(-x, stride));
        const long outside = x >= width ? 0 : smaller(phase, blocks_of(width - x, stride));
        for (long q = 0; q < inside; ++q) to[q] = 0;
        if (stride == 1) {
          if (outside > inside) copy_floats(to + inside, from + x + inside, outside - inside);
        } else {
          for (long q = inside; q < outside; ++q) to[q] = from[x + q * stride];
        }
        for (long q = outside > inside ? outside : inside; q < phase; ++q) to[q] = 0;
      }
    }
  }
};

/// Floats that `Patches::compute` needs for `padded`.
constexpr long padded_floats(int grid_height, int grid_width, int stride, int taps_y, int taps_x) {
  const long rows = smaller(grid_height, block_columns / grid_width + 2) * stride + taps_y;
  return rows * (long{grid_width} * stride + taps_x + stride) + 4 * vector_width;
}

/// Patches as the right operand of `blocked_product`.
struct RightPatches {
  Patches patches;
  float* padded;

  void pack(long k0, long terms, long j0, long columns, float* to) const {
    const long last = columns / tile_columns, last_width = round_up(columns % tile_columns, vector_width);
    if (columns % vector_width != 0) {
      float* end = to + last * terms * tile_columns + last_width - vector_width;
      for (long k = 0; k < terms; ++k) store(end + k * last_width, Vector{});
    }
    patches.compute(k0, terms, j0, columns, padded, [&](long k, long column, const float* from, long count) {
      while (count > 0) {
        const long panel = column / tile_columns, offset = column % tile_columns;
        const long width = panel == last ? last_width : tile_columns, part = smaller(count, tile_columns - offset);
        copy_floats(to + panel * terms * tile_columns + k * width + offset, from, part);
        from += part;
        column += part;
        count -= part;
      }
    });
  }
};

/// Patches as the left operand of `blocked_product`: rows are taps, the sum runs over positions and samples.
struct LeftPatches {
  Patches patches;
  long first_row;
  float* padded;

  PackedRows pack(long i0, long rows, long k0, long terms, float* to) const {
    patches.compute(first_row + i0, rows, k0, terms, padded, [&](long row, long column, const float* from, long count) {
      copy_floats(to + row * packed_row + column, from, count);
    });
    return {packed_row, 1};
  }
};

/// Channels of a sample's gradient as columns, positions and samples as terms: the right operand beside `LeftPatches`.
struct RightChannels {
  const float* data;
  long sample_step, positions;

  void pack(long k0, long terms, long j0, long columns, float* to) const {
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

/// Weights with the roles of the channels exchanged: row c, term (o, u, v) is weight[o, c, first_y + u * stride,
/// first_x + v * stride].
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
