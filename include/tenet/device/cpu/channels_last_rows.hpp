#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/channels_last_tile.hpp"
#include "tenet/device/cpu/product.hpp"

/// Convolutions of images with their channels last, as products whose rows are positions: what the convolution and its
/// gradient by the input, which is one convolution for each phase of the stride, have in common.
namespace tenet::cpu::detail {

/// One axis of a convolution: result position g meets the image at g * step + origin + u * direction for each of
/// `taps` u, with the weight at first + u * spacing.
struct AxisTaps {
  int extent, step, origin, direction, taps, first, spacing;

  constexpr int at(int g, int u) const { return g * step + origin + u * direction; }
  constexpr bool within(int g, int u) const { return at(g, u) >= 0 && at(g, u) < extent; }
  /// The u whose position lies in the image: [from, until) of what begin_of and end_of give.
  constexpr int begin_of(int g) const {
    const int outside = direction > 0 ? -at(g, 0) : at(g, 0) - extent + 1;
    return outside > 0 ? outside : 0;
  }
  constexpr int end_of(int g) const {
    const int inside = direction > 0 ? extent - at(g, 0) : at(g, 0) + 1;
    return inside < taps ? inside : taps;
  }
};

/// Positions of one tile, filled up with its first.
struct TileRows {
  int count, height;
  long n[wide_rows];
  int y[wide_rows], x[wide_rows];
  bool together;  ///< all at the same position, of several samples
};

/// A product for the positions of a grid: which image is read, and where results go. Steps are in floats.
struct GridProduct {
  const float* image;
  long sample, line, pixel;
  long inner;  ///< terms of a tap
  AxisTaps y, x;
  int kernel_width;    ///< row of tap (ky, kx) in a panel: (ky * kernel_width + kx) * inner
  const float* zeros;  ///< `inner` of them
  float* result;
  long result_sample, result_line, result_pixel;
  int grid_width;

  const float* at(long n, int image_y, int image_x) const {
    return image + n * sample + image_y * line + image_x * pixel;
  }
  float* result_at(const TileRows& rows, int i) const {
    return result + rows.n[i] * result_sample + rows.y[i] * result_line + rows.x[i] * result_pixel;
  }
  /// The row of a panel where a tap begins.
  long right_of(int uy, int ux) const {
    return (long{1} * (y.first + uy * y.spacing) * kernel_width + x.first + ux * x.spacing) * inner;
  }
};

/// The terms of a tile whose rows meet the same taps: those outside of the image are left out, and taps side by side
/// are one run. Only lines [u0, u1) of taps. Returns the end of the runs.
inline RowRun* list_together(const GridProduct& g, const TileRows& rows, int u0, int u1, RowRun* to) {
  const int gy = rows.y[0], gx = rows.x[0], x0 = g.x.begin_of(gx), x1 = g.x.end_of(gx);
  const bool joined = g.x.direction > 0 && g.x.spacing == 1 && g.pixel == g.inner;
  const int from = g.y.begin_of(gy), until = g.y.end_of(gy);
  for (int uy = from > u0 ? from : u0; uy < (until < u1 ? until : u1); ++uy) {
    for (int ux = x0; ux < x1; ux = joined ? x1 : ux + 1, ++to) {
      for (int i = 0; i < rows.height; ++i) to->rows[i] = g.at(rows.n[i], g.y.at(gy, uy), g.x.at(gx, ux));
      to->right = g.right_of(uy, ux);
      to->count = joined ? (x1 - x0) * g.inner : g.inner;
    }
  }
  return to;
}

/// The same of any rows: those outside of the image read zeros.
inline RowRun* list_apart(const GridProduct& g, const TileRows& rows, int u0, int u1, RowRun* to) {
  for (int uy = u0; uy < u1; ++uy) {
    for (int ux = 0; ux < g.x.taps; ++ux) {
      bool any = false;
      for (int i = 0; i < rows.height; ++i) {
        const bool inside = g.y.within(rows.y[i], uy) && g.x.within(rows.x[i], ux);
        to->rows[i] = inside ? g.at(rows.n[i], g.y.at(rows.y[i], uy), g.x.at(rows.x[i], ux)) : g.zeros;
        any |= inside;
      }
      if (!any) continue;
      to->right = g.right_of(uy, ux);
      to->count = g.inner;
      ++to;
    }
  }
  return to;
}

/// Some samples by some lines of the grid. Rows are ordered by position, then sample: rows of one position meet the
/// same taps.
struct GridPart {
  long sample0, samples;
  int line0, line1;

  /// Whether a tile keeps to one position: where samples fill tiles.
  constexpr bool together() const { return samples >= 8 || samples == wide_rows || samples == low_rows; }

  constexpr long rows(const GridProduct& g) const { return samples * (line1 - line0) * g.grid_width; }

  /// The tile from row `row` on.
  TileRows tile(const GridProduct& g, long row) const {
    const long left = together() ? samples - row % samples : rows(g) - row;
    TileRows rows;
    rows.height = rows_of_tile(left);
    rows.count = static_cast<int>(smaller(rows.height, left));
    long position = row / samples, n = row % samples;
    int y = line0 + static_cast<int>(position / g.grid_width), x = static_cast<int>(position % g.grid_width);
    rows.together = n + rows.count <= samples;
    for (int i = 0; i < rows.height; ++i) {
      if (i == rows.count) n = rows.n[0] - sample0, y = rows.y[0], x = rows.x[0];
      rows.n[i] = sample0 + n;
      rows.y[i] = y;
      rows.x[i] = x;
      if (i >= rows.count || ++n < samples) continue;
      n = 0;
      if (++x < g.grid_width) continue;
      x = 0;
      ++y;
    }
    return rows;
  }
};

/// Terms of a sum that are added in registers: their panel stays in the second-level cache.
inline constexpr long most_run_terms = 2560;

/// Columns of a panel, of which `present` are in the result.
struct PanelColumns {
  const float* weights;
  long first, width, present;
};

/// One tile of the result. Rows that fill it up, and those of a panel that is wider than the result, go to a buffer.
template <class Factor>
void multiply_tile_rows(const GridProduct& g, const TileRows& rows, const RowRun* runs, const RowRun* end,
                        const PanelColumns& panel, bool accumulate) {
  const bool whole = panel.present == panel.width;
  float buffer[wide_rows * wide_columns];
  float* to[wide_rows];
  for (int i = 0; i < rows.height; ++i) {
    to[i] = whole && i < rows.count ? g.result_at(rows, i) + panel.first : buffer + i * panel.width;
  }
  if (rows.count < rows.height) fill_floats(buffer, 0, rows.height * panel.width);
  run_tiles<Factor>[rows.height == wide_rows][panel.width / vector_width - 1](runs, end, panel.weights, to,
                                                                              whole && accumulate);
  for (int i = 0; i < rows.count && !whole; ++i) {
    (accumulate ? add_floats : copy_floats)(g.result_at(rows, i) + panel.first, to[i], panel.present);
  }
}

/// The results of a part of a grid in the columns of a panel; zeros where there are no taps. `runs`: room for all taps.
template <class Factor>
[[gnu::noinline]] void multiply_grid(const GridProduct& g, const GridPart& part, const PanelColumns& panel,
                                     RowRun* runs) {
  const long rows = part.rows(g), terms = long{1} * g.y.taps * g.x.taps * g.inner;
  const int step = static_cast<int>(blocks_of(g.y.taps, terms > 0 ? blocks_of(terms, most_run_terms) : 1));
  int u0 = 0;
  do {
    const int u1 = static_cast<int>(smaller(u0 + step, g.y.taps));
    for (long row = 0; row < rows;) {
      const TileRows tile = part.tile(g, row);
      const RowRun* const end = (tile.together ? list_together : list_apart)(g, tile, u0, u1, runs);
      if (end > runs || u0 == 0) multiply_tile_rows<Factor>(g, tile, runs, end, panel, u0 > 0);
      row += tile.count;
    }
    u0 = u1;
  } while (u0 < g.y.taps);
}

/// How a batch is cut into tasks: some samples by some lines of the grid, and, where these are few, by some panels. A
/// function of shape and batch: every task reads its weights from a far cache, and eight tasks are enough.
struct GridCut {
  long samples, groups, lines, bands, panels, panel_blocks;
  static constexpr long most_samples = 16, least_rows = 192, least_tasks = 8;

  /// `line_rows`: rows of the products for a line of one sample.
  constexpr GridCut(long batch, long all_lines, long line_rows, long all_panels) {
    samples = blocks_of(batch, blocks_of(batch, most_samples));
    groups = blocks_of(batch, samples);
    const long fitting = blocks_of(all_lines * line_rows * samples, least_rows);
    bands = smaller(smaller(fitting, all_lines), blocks_of(least_tasks, groups));
    lines = blocks_of(all_lines, bands);
    bands = blocks_of(all_lines, lines);
    panel_blocks = smaller(all_panels, blocks_of(least_tasks, groups * bands));
    panels = blocks_of(all_panels, panel_blocks);
    panel_blocks = blocks_of(all_panels, panels);
  }
  constexpr long tasks() const { return groups * bands * panel_blocks; }
};

/// What a task of a cut stands for.
struct GridTask {
  long sample0, samples, line0, line1, panel0, panel1;

  constexpr GridTask(const GridCut& cut, long index, long batch, long all_lines, long all_panels) {
    panel0 = index % cut.panel_blocks * cut.panels;
    panel1 = smaller(panel0 + cut.panels, all_panels);
    index /= cut.panel_blocks;
    line0 = index % cut.bands * cut.lines;
    line1 = smaller(line0 + cut.lines, all_lines);
    sample0 = index / cut.bands * cut.samples;
    samples = smaller(cut.samples, batch - sample0);
  }
  constexpr GridPart lines() const { return {sample0, samples, static_cast<int>(line0), static_cast<int>(line1)}; }
};

/// Calls range(from, until) for all runs in memory of columns [first, last) of pixels [pixel0, pixel1) of the samples
/// of a task, in an image of `columns` channels.
template <class Range>
void for_each_run(const GridTask& task, long sample_pixels, long pixel0, long pixel1, long columns, long first,
                  long last, Range&& range) {
  for (long n = task.sample0; n < task.sample0 + task.samples; ++n) {
    const long from = (n * sample_pixels + pixel0) * columns, until = (n * sample_pixels + pixel1) * columns;
    if (last - first == columns) {
      range(from, until);
    } else {
      for (long at = from; at < until; at += columns) range(at + first, at + last);
    }
  }
}

/// Floats of scratch for the runs of a tile.
constexpr long run_floats(const Conv2dGeometry& g) {
  return long{1} * g.kernel_height * g.kernel_width * static_cast<long>(sizeof(RowRun) / sizeof(float));
}

}  // namespace tenet::cpu::detail
