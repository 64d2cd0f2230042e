#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/transpose.hpp"

/// The operands of a convolution as matrices that exist only in packed blocks.
///
/// A convolution is the product weight [out_channels, taps] * patches [taps, positions], where row (channel, u, v) of
/// `patches` is the channel shifted by a tap. The samples of a group stand side by side as more columns. The gradient
/// by the input is of the same form, with transposed weights and taps in reverse; with a stride s, it is s * s such
/// products, one for each remainder of the coordinates modulo s.
namespace tenet::cpu::detail {

constexpr long larger_of(long a, long b) { return a > b ? a : b; }

/// Columns, and rows, of patches that are packed at once, at most: half a second-level cache.
inline constexpr long patch_columns = 432, patch_terms = 256;

/// Consecutive columns of packed patches that lie next to each other in the padded image too, at most a vector of them.
/// Row k goes to `to` + k * `step`. Where `spills`, a whole vector may be written: what is behind is written later.
struct PatchRun {
  int from, to, step, length;
  bool spills;
};

/// Where packed columns go: a right operand of `terms` rows, panel after panel, or plain rows `row` apart.
struct PatchPanels {
  PanelCut cut;
  long terms, columns, row;

  static PatchPanels right(long terms, long columns) { return {PanelCut(columns), terms, columns, 0}; }
  /// row >= columns + vector_width
  static PatchPanels left(long row) { return {PanelCut(1), 0, 0, row}; }

  /// Cuts `count` columns from `column` on, which lie together from `from` on, into runs; returns the end of the list.
  PatchRun* runs(long column, long count, long from, PatchRun* to) const {
    while (count > 0) {
      long first = 0, end = row, step = row;
      if (row == 0) {
        const long panel = ((column / vector_width + 1) * cut.count - 1) / cut.vectors;
        first = cut.first(panel);
        step = cut.width(panel);
        end = smaller(first + step, columns);
      }
      const long length = smaller(smaller(count, end - column), vector_width);
      *to++ = {static_cast<int>(from), static_cast<int>(first * terms + column - first), static_cast<int>(step),
               static_cast<int>(length), column + vector_width <= end};
      column += length;
      from += length;
      count -= length;
    }
    return to;
  }
};

/// Packs row k: the runs of an image padded with zeros, from `from` on.
[[gnu::noinline]] inline void pack_runs(const PatchRun* run, const PatchRun* end, long k, const float* from,
                                        float* to) {
  for (; run != end; ++run) {
    float* const target = to + run->to + k * run->step;
    if (run->spills) {
      store(target, load(from + run->from));
    } else {
      copy_floats(target, from + run->from, run->length);
    }
  }
}

/// The first `count` floats, zero in the other lanes; none behind `count` is read.
inline Vector load_up_to(const float* from, long count) {
  return count >= vector_width ? load(from) : count > 0 ? load_partial(from, static_cast<int>(count)) : zero_lanes();
}

/// Patches of images [channels, height, width]: element (row (channel, u, v), column (sample, i, j)) is
/// image[sample, channel, first_y + i * stride + u * tap_step, first_x + j * stride + v * tap_step], 0 outside the
/// image.
struct Patches {
  const float* image;
  long sample_step;
  int height, width;
  int taps_y, taps_x, first_y, first_x, tap_step;  // tap_step is 1 or -1
  int stride, grid_height, grid_width;

  constexpr long positions() const { return long{1} * grid_height * grid_width; }
  /// Columns of a padded row that have the same remainder modulo the stride, and all of them.
  constexpr long phase() const { return ((grid_width - 1) * stride + taps_x + stride - 1) / stride; }
  constexpr long row_step() const { return phase() * stride; }

  /// Packs rows [k0, k0 + rows) of columns [j0, j0 + columns), columns <= patch_columns.
  ///
  /// The rows of a channel that the columns need are first copied to `padded` with their border of zeros, each row's
  /// columns sorted by their remainder modulo the stride: then every row of the grid is a contiguous run for each tap.
  [[gnu::noinline]] void pack(long k0, long rows, long j0, long columns, const PatchPanels& panels, float* padded,
                              float* to) const {
    const long taps = long{1} * taps_y * taps_x, row = row_step();
    PatchRun runs[patch_columns], *end = runs;
    long place = 0;  // in `padded`
    for (long column = 0; column < columns;) {
      const Piece piece = piece_from(j0, columns, column);
      for (long done = 0, i = piece.first, j = piece.position % grid_width; done < piece.count; ++i, j = 0) {
        const long run = smaller(grid_width - j, piece.count - done);
        end = panels.runs(column + done, run, place + (i - piece.first) * stride * row + j, end);
        done += run;
      }
      place += piece.rows(*this) * row;
      column += piece.count;
    }
    for (long k = k0; k < k0 + rows;) {
      const long channel = k / taps, last = smaller(k0 + rows, (channel + 1) * taps);
      float* target = padded;
      for (long column = 0; column < columns;) {
        const Piece piece = piece_from(j0, columns, column);
        pad(image + piece.sample * sample_step + channel * height * width, piece.first * stride, piece.rows(*this),
            target);
        target += piece.rows(*this) * row;
        column += piece.count;
      }
      for (; k < last; ++k) {
        const long tap_y = k % taps / taps_x, tap_x = k % taps % taps_x;
        const long u = tap_step > 0 ? tap_y : taps_y - 1 - tap_y, v = tap_step > 0 ? tap_x : taps_x - 1 - tap_x;
        pack_runs(runs, end, k - k0, padded + u * row + v % stride * phase() + v / stride, to);
      }
    }
  }

  /// Copies rows [row0, row0 + rows), counted from the first that a tap reaches, of a channel. Rows and remainders that
  /// no tap reaches are left out. Writes up to a vector beyond.
  [[gnu::noinline]] void pad(const float* plane, long row0, long rows, float* to) const {
    const long y0 = row0 + (tap_step > 0 ? first_y : first_y - (taps_y - 1));
    const long x0 = tap_step > 0 ? first_x : first_x - (taps_x - 1);
    const long length = phase(), phases = smaller(stride, taps_x), columns = width, step = stride, last = height;
    if (step == 1 && x0 == 0 && length == columns && y0 >= 0 && y0 + rows <= last) {  // no border
      return copy_floats(to, plane + y0 * columns, rows * length);
    }
    const bool in_vectors = step <= 2 && x0 <= 0 && -x0 < vector_width;
    plane += y0 * columns;
    for (long r = 0, y = y0, reached = 0; r < rows; ++r, ++y, plane += columns, to += length * step) {
      const bool skipped = reached >= taps_y;
      if (++reached == step) reached = 0;
      if (skipped) continue;
      if (y < 0 || y >= last) {
        for (long i = 0; i < length * phases; i += vector_width) store(to + i, zero_lanes());
      } else if (in_vectors && step == 1) {
        pad_row(plane, columns, -x0, length, to);
      } else if (in_vectors) {
        for (long p = 0; p < phases; ++p) pad_every_second(plane, columns, -x0 - p, length, to + p * length);
      } else {
        for (long p = 0; p < phases; ++p) {
          for (long q = 0, x = x0 + p; q < length; ++q, x += step) {
            to[p * length + q] = x >= 0 && x < columns ? plane[x] : 0;
          }
        }
      }
    }
  }

 private:
  /// The part of a block's columns that belongs to one sample: `count` positions, from row `first` of the grid to
  /// `last`.
  struct Piece {
    long sample, position, count, first, last;
    long rows(const Patches& patches) const { return (last - first) * patches.stride + patches.taps_y; }
  };
  Piece piece_from(long j0, long columns, long column) const {
    const long sample = (j0 + column) / positions(), position = (j0 + column) % positions();
    const long count = smaller(columns - column, positions() - position);
    return {sample, position, count, position / grid_width, (position + count - 1) / grid_width};
  }

  /// Copies a row of `count` floats with `zeros` zeros before it and enough behind it for `length` places.
  [[gnu::always_inline]] static void pad_row(const float* row, long count, long zeros, long length, float* to) {
    if (zeros > 0) store(to, zero_lanes());
    for (long q = zeros; q < length; q += vector_width) store(to + q, load_up_to(row + q - zeros, count - q + zeros));
  }
  /// The same for the row's places -zeros, 2 - zeros, 4 - zeros, …
  [[gnu::always_inline]] static void pad_every_second(const float* row, long count, long zeros, long length,
                                                      float* to) {
    const long first = zeros > 0 ? (zeros + 1) / 2 : 0;
    if (first > 0) store(to, zero_lanes());
    row += 2 * first - zeros;
    count -= 2 * first - zeros;
    for (long q = first; q < length; q += vector_width, row += 2 * vector_width, count -= 2 * vector_width) {
      store(to + q, even_lanes(load_up_to(row, count), load_up_to(row + vector_width, count - vector_width)));
    }
  }
};

/// Floats that `Patches::pack` needs for `padded`, for at most `columns` columns.
constexpr long padded_floats(int grid_height, int grid_width, int stride, int taps_y, int taps_x, long columns) {
  const long positions = long{1} * grid_height * grid_width;
  const long samples = (columns - 1) / positions + 2,
             grid_rows = smaller(samples * grid_height, columns / grid_width + 2 * samples);
  const long rows = (grid_rows - samples) * stride + samples * taps_y;
  return rows * (long{grid_width} * stride + taps_x + stride) + 4 * vector_width;
}

/// Patches as the right operand of a product: the panels of a `PanelCut`, each [terms, width], filled with zeros.
struct RightPatches {
  Patches patches;
  float* padded;

  void pack(long k0, long terms, long j0, long columns, float* to) const {
    const PatchPanels panels = PatchPanels::right(terms, columns);
    if (columns % vector_width != 0) {
      const long last = panels.cut.count - 1, width = panels.cut.width(last);
      float* const end = to + panels.cut.first(last) * terms + width - vector_width;
      for (long k = 0; k < terms; ++k) store(end + k * width, zero_lanes());
    }
    patches.pack(k0, terms, j0, columns, panels, padded, to);
  }
};

/// The channels of some samples transposed, [positions, channels], in the panels of `cut`, each [samples * positions,
/// width], filled with zeros.
struct TransposedChannels {
  float* data;
  long channels, positions, samples;
  PanelCut cut;

  TransposedChannels(float* to, long channels_, long positions_, long samples_)
      : data(to), channels(channels_), positions(positions_), samples(samples_), cut(channels_) {}

  float* at(long panel, long position) const {
    return data + cut.first(panel) * samples * positions + position * cut.width(panel);
  }

  /// Transposes one sample, [channels, positions].
  void fill(const float* from, long sample) const {
    for (long panel = 0; panel < cut.count; ++panel) {
      const long first = cut.first(panel), row = cut.width(panel), valid = smaller(row, channels - first);
      float* const to = at(panel, sample * positions);
      if (valid < row) {
        for (long p = 0; p < positions; ++p) store(to + p * row + row - vector_width, zero_lanes());
      }
      transpose_vectors(from + first * positions, positions, valid, positions, to, row);
    }
  }
};

}  // namespace tenet::cpu::detail
