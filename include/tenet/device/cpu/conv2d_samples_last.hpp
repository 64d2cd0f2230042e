#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/core/layout.hpp"
#include "tenet/device/cpu/conv2d.hpp"
#include "tenet/device/cpu/samples_last.hpp"

/// Direct convolutions with samples in the vector lanes: as a row of 16 samples is contiguous whatever the channel and
/// the position, nothing is gathered, padded or wasted when channels are few.
///
/// A tile of the result, some channels by some positions (gradient by the weight: by some taps), stays in registers
/// while three nested loops go over the sum. Positions are cut into strips of equal taps, so that the padding is never
/// multiplied: the interior along rows, the border columns downwards, the corners one by one.
namespace tenet::cpu {

namespace detail {

/// The sum of a tile: three nested loops, and how far each of them steps in both operands.
struct LaneSum {
  long trips[3], left_steps[3], right_steps[3];
};

template <class Left, int... J>
[[gnu::always_inline]] inline void multiply_lanes(Left left, const Vector* right, Vector* sum,
                                                  std::integer_sequence<int, J...>) {
  ((sum[J] += left * right[J]), ...);
}
template <class Left, int Columns, int... I>
[[gnu::always_inline]] inline void multiply_lane_rows(const float* left, long left_row, const Vector* right,
                                                      Vector (*sum)[Columns], std::integer_sequence<int, I...>) {
  if constexpr (std::is_same_v<Left, float>) {
    (multiply_lanes(left[I], right, sum[I], std::make_integer_sequence<int, Columns>{}), ...);
  } else {
    (multiply_lanes(load(left + I * left_row), right, sum[I], std::make_integer_sequence<int, Columns>{}), ...);
  }
}
template <int... J>
[[gnu::always_inline]] inline void load_lanes(const float* from, long step, Vector* to,
                                              std::integer_sequence<int, J...>) {
  ((to[J] = load(from + J * step), keep_in_register(to[J])), ...);
}
template <int... J>
[[gnu::always_inline]] inline void store_lanes(float* to, long step, const Vector* from,
                                               std::integer_sequence<int, J...>) {
  (store(to + J * step, from[J]), ...);
}
template <int Columns, int... I>
[[gnu::always_inline]] inline void load_lane_rows(const float* from, long row, long column, Vector (*to)[Columns],
                                                  int rows, std::integer_sequence<int, I...>) {
  ((I < rows ? load_lanes(from + I * row, column, to[I], std::make_integer_sequence<int, Columns>{}) : void()), ...);
}
template <int Columns, int... I>
[[gnu::always_inline]] inline void store_lane_rows(float* to, long row, long column, const Vector (*from)[Columns],
                                                   int rows, std::integer_sequence<int, I...>) {
  ((I < rows ? store_lanes(to + I * row, column, from[I], std::make_integer_sequence<int, Columns>{}) : void()), ...);
}

/// result[i * result_row + j * result_column] = (or +=) the sum over three loops of left[i * left_row] *
/// right[j * right_column], for i < rows <= Rows and j < Columns; one vector each.
///
/// Left: float (one number for all samples: a weight, left_row = 1) or Vector (one for each sample).
template <class Left, int Rows, int Columns>
void lane_tile(const LaneSum& s, const float* left, long left_row, const float* right, long right_column, float* result,
               long result_row, long result_column, int rows, bool accumulate) {
  constexpr std::make_integer_sequence<int, Rows> all_rows{};
  constexpr std::make_integer_sequence<int, Columns> all_columns{};
  if constexpr (std::is_same_v<Left, float>) {  // the result's lines arrive while the sum is computed
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < Columns; ++j) __builtin_prefetch(result + i * result_row + j * result_column, 1);
    }
  }
  Vector sum[Rows][Columns] = {};
  if (accumulate) load_lane_rows<Columns>(result, result_row, result_column, sum, rows, all_rows);
  for (long a = 0; a < s.trips[0]; ++a, left += s.left_steps[0], right += s.right_steps[0]) {
    const float *left_b = left, *right_b = right;
    for (long b = 0; b < s.trips[1]; ++b, left_b += s.left_steps[1], right_b += s.right_steps[1]) {
      const float *x = left_b, *y = right_b;
      for (long c = s.trips[2]; c > 0; --c, x += s.left_steps[2], y += s.right_steps[2]) {
        Vector columns[Columns];
        load_lanes(y, right_column, columns, all_columns);
        multiply_lane_rows<Left, Columns>(x, left_row, columns, sum, all_rows);
      }
    }
  }
  store_lane_rows<Columns>(result, result_row, result_column, sum, rows, all_rows);
}

using LaneTile = void (*)(const LaneSum&, const float*, long, const float*, long, float*, long, long, int, bool);

/// Tiles of one number of rows and 1, 2, … columns: a tile costs most where its sums fill the registers, 24 of 32 or 12
/// of 16, as then it multiplies most for what it loads.
struct LaneTiles {
  long most_columns;
  LaneTile tile[6];

  /// Columns of the next tile when `count` are left: as equal as possible, as narrow tiles wait for their loads.
  constexpr long next(long count) const { return blocks_of(count, blocks_of(count, most_columns)); }
};

template <class Left, int Rows, int... J>
constexpr LaneTiles make_lane_tiles(std::integer_sequence<int, J...>) {
  return {sizeof...(J), {lane_tile<Left, Rows, J + 1>...}};
}
template <class Left, int Rows>
inline constexpr LaneTiles lane_tiles = make_lane_tiles<Left, Rows>(
    std::make_integer_sequence<int, (vector_width == 16 ? std::is_same_v<Left, float> ? 24 : 20 : 12) / Rows>{});

/// A range of indices.
struct Span {
  long first, last;
};
/// The part of [0, taps) whose `position + tap` lies in [0, size).
constexpr Span taps_inside(long position, long taps, long size) {
  const long first = position < 0 ? -position : 0, last = smaller(taps, size - position);
  return first < last ? Span{first, last} : Span{0, 0};
}
/// The indices i < count all of whose taps are inside: 0 <= i * stride + offset, i * stride + offset + taps <= size.
constexpr Span interior(long offset, long stride, long taps, long size, long count) {
  const long room = size - taps - offset;
  const long first = offset < 0 ? blocks_of(-offset, stride) : 0,
             last = room < 0 ? 0 : smaller(room / stride + 1, count);
  return first < last ? Span{first, last} : Span{count, count};
}
/// Calls visit(index) for the indices in [part.first, part.last) outside `inner`.
template <class Visit>
void for_each_outside(Span part, Span inner, Visit&& visit) {
  for (long i = part.first; i < part.last; ++i) {
    if (i < inner.first || i >= inner.last) visit(i);
  }
}

/// How many of `rows` channels the next tile takes: 4, or 6 where that leaves no tile part empty.
constexpr int tile_channels(long rows) { return rows == 5 || rows == 6 || rows == 9 || rows == 10 ? 6 : 4; }
/// The channels with those that fill the last tile.
constexpr long filled_channels(long rows) {
  long result = 0;
  while (result < rows) result += tile_channels(rows - result);
  return result;
}

/// A correlation of a group of samples: result[r, i, j] = the sum over c, u, v of weight[c, u, v, r] *
/// source[c, i * stride + first_y + u, j * stride + first_x + v], sources outside the image being 0.
struct LaneCorrelation {
  int channels, height, width;          // of the source
  int rows, taps_y, taps_x;             // rows: channels of the result
  int first_y, first_x, stride;         // the source position of result (0, 0), and how far a result steps in it
  long grid_height, grid_width;         // positions of the result
  long result_row, result_y, result_x;  // distances of its channels and positions, in rows of samples
  // In the framework's order weight (c, u, v, r) is at first + r * row + c * channel + u * y + v * x.
  long weight_first, weight_row, weight_channel, weight_y, weight_x;

  constexpr long packed_row() const { return filled_channels(rows); }
  constexpr long packed_size() const { return long{1} * channels * taps_y * taps_x * packed_row(); }

  /// packed [channels, taps_y, taps_x, packed_row] = the weights, 0 for the channels that fill the last tile.
  [[gnu::noinline]] void pack(const float* weight, float* packed) const {
    const long row = packed_row();
    for (int c = 0; c < channels; ++c) {
      for (int u = 0; u < taps_y; ++u) {
        for (int v = 0; v < taps_x; ++v, packed += row) {
          const float* from = weight + weight_first + c * weight_channel + u * weight_y + v * weight_x;
          for (long r = 0; r < row; ++r) packed[r] = r < rows ? from[r * weight_row] : 0;
        }
      }
    }
  }

  /// Rows [i0, i1) of the result's grid, for one group of samples.
  [[gnu::noinline]] void run(const float* packed, const float* source, float* result, long i0, long i1) const {
    const Span y = interior(first_y, stride, taps_y, height, grid_height);
    const Span x = interior(first_x, stride, taps_x, width, grid_width);
    const Span inner_y = {i0 > y.first ? i0 : y.first, smaller(i1, y.last)};
    for (long r = 0; r < rows; r += tile_channels(rows - r)) {
      const Strip strip{*this, packed + r, source, result + r * result_row * sample_lanes, rows - r};
      for_each_outside({0, grid_width}, x, [&](long j) {
        strip.run(inner_y.first, j, inner_y.last - inner_y.first, true, taps_at(j), false);
      });
      for (long i = i0; i < i1; ++i) {
        strip.run(i, x.first, x.last - x.first, false, {0, taps_x}, false);
        if (i >= y.first && i < y.last) continue;
        strip.corner(i, {0, x.first});
        strip.corner(i, {x.last, grid_width});
      }
    }
  }

 private:
  struct Strip {
    const LaneCorrelation& c;
    const float *packed, *source;
    float* result;
    long rows;

    /// `count` positions from (i, j) on, to the right or downwards, all of which have the taps `v` and the same rows of
    /// taps inside.
    [[gnu::noinline]] void run(long i, long j, long count, bool down, Span v, bool accumulate) const {
      if (count <= 0) return;
      const long y = i * c.stride + c.first_y, x = j * c.stride + c.first_x, row = c.packed_row();
      const Span u = taps_inside(y, c.taps_y, c.height);
      const LaneSum sum{{c.channels, u.last - u.first, v.last - v.first},
                        {c.taps_y * c.taps_x * row, c.taps_x * row, row},
                        {long{sample_lanes} * c.height * c.width, long{sample_lanes} * c.width, sample_lanes}};
      const float* left = packed + (u.first * c.taps_x + v.first) * row;
      const float* right = source + ((y + u.first) * c.width + x + v.first) * sample_lanes;
      const long right_column = long{sample_lanes} * c.stride * (down ? c.width : 1);
      const long column = sample_lanes * (down ? c.result_y : c.result_x);
      float* to = result + (i * c.result_y + j * c.result_x) * sample_lanes;
      const LaneTiles& choice = tile_channels(rows) == 6 ? lane_tiles<float, 6> : lane_tiles<float, 4>;
      for (long columns; count > 0; count -= columns) {
        columns = choice.next(count);
        for (long part = 0; part < sample_lanes; part += vector_width) {
          choice.tile[columns - 1](sum, left, 1, right + part, right_column, to + part, c.result_row * sample_lanes,
                                   column, static_cast<int>(rows), accumulate);
        }
        right += columns * right_column;
        to += columns * column;
      }
    }

    /// Border columns of a border row, tap by tap: each tap reaches a run of them, which is wider than one.
    void corner(long i, Span columns) const {
      run(i, columns.first, columns.last - columns.first, false, {0, 0}, false);
      for (long v = 0; v < c.taps_x; ++v) {
        const Span inside = interior(c.first_x + v, c.stride, 1, c.width, c.grid_width);
        const long first = columns.first > inside.first ? columns.first : inside.first;
        run(i, first, smaller(columns.last, inside.last) - first, false, {v, v + 1}, true);
      }
    }
  };

  Span taps_at(long j) const { return taps_inside(j * stride + first_x, taps_x, width); }
};

/// One pass of a convolution, forward or its gradient by the input, as correlations: with a stride, the gradient is
/// one for each remainder of the coordinates modulo the stride, with the taps in reverse.
struct LanePass {
  Conv2dGeometry g;
  bool gradient;

  constexpr int rows() const { return gradient ? g.channels : g.out_channels; }
  constexpr int height() const { return gradient ? g.height : g.out_height(); }
  constexpr int width() const { return gradient ? g.width : g.out_width(); }
  constexpr long source_size() const { return gradient ? g.result_size() : g.input_size(); }
  constexpr long result_size() const { return gradient ? g.input_size() : g.result_size(); }
  constexpr long packed_size() const {
    const int channels = gradient ? g.out_channels : g.channels;
    return round_up(filled_channels(rows()) * channels * g.kernel_height * g.kernel_width, sample_lanes);
  }

  /// The correlation for the result's rows a + i * stride and columns b + j * stride (forward: for all).
  [[gnu::noinline]] constexpr LaneCorrelation part(int a, int b) const {
    const int s = g.stride, kernel = g.kernel_height * g.kernel_width;
    if (!gradient) {
      return {g.channels,
              g.height,
              g.width,
              g.out_channels,
              g.kernel_height,
              g.kernel_width,
              -g.padding,
              -g.padding,
              s,
              height(),
              width(),
              g.positions(),
              long{1} * width(),
              1,
              0,
              g.taps(),
              long{kernel},
              g.kernel_width,
              1};
    }
    // Row a + i * s gets from upstream rows i + (a + padding) / s - t by the taps u = first_u + t * s.
    const int first_u = (a + g.padding) % s, first_v = (b + g.padding) % s;
    const int taps_y = first_u < g.kernel_height ? (g.kernel_height - first_u + s - 1) / s : 0;
    const int taps_x = first_v < g.kernel_width ? (g.kernel_width - first_v + s - 1) / s : 0;
    const int last_u = first_u + (taps_y - 1) * s, last_v = first_v + (taps_x - 1) * s;
    return {g.out_channels,
            g.out_height(),
            g.out_width(),
            g.channels,
            taps_y,
            taps_x,
            (a + g.padding) / s - (taps_y - 1),
            (b + g.padding) / s - (taps_x - 1),
            1,
            blocks_of(g.height - a, s),
            blocks_of(g.width - b, s),
            long{1} * g.height * g.width,
            long{1} * s * g.width,
            s,
            long{1} * last_u * g.kernel_width + last_v,
            long{kernel},
            g.taps(),
            -long{s} * g.kernel_width,
            -s};
  }

  /// Calls visit(correlation, its packed weights, offset of its first result) for each correlation.
  template <class Visit>
  void for_each_part(float* packed, Visit&& visit) const {
    const int parts = gradient ? g.stride : 1;
    for (int a = 0; a < parts && a < height(); ++a) {
      for (int b = 0; b < parts && b < width(); ++b) {
        const LaneCorrelation correlation = part(a, b);
        visit(correlation, packed, a, b);
        packed += correlation.packed_size();
      }
    }
  }

  void pack(const float* weight, float* packed) const {
    for_each_part(packed, [&](const LaneCorrelation& c, float* to, int, int) { c.pack(weight, to); });
  }
  /// Rows [y0, y1) of a group's result.
  void run(float* packed, const float* source, float* result, long y0, long y1) const {
    const int s = gradient ? g.stride : 1;
    for_each_part(packed, [&](const LaneCorrelation& c, const float* from, int a, int b) {
      c.run(from, source, result + (long{1} * a * width() + b) * sample_lanes, y0 > a ? blocks_of(y0 - a, s) : 0,
            y1 > a ? blocks_of(y1 - a, s) : 0);
    });
  }
};

constexpr long scratch_lane_pass(const LanePass& pass, bool standard) {
  return pass.packed_size() + (standard ? sample_lanes * (pass.source_size() + pass.result_size()) : 0);
}

/// Runs a pass on values in `Layout::samples_last`, or (standard) on values in `Layout::standard`, which are re-laid
/// group by group.
[[gnu::noinline]] inline void run_lane_pass(Workers& workers, const LanePass& pass, bool standard, int batch,
                                            const float* source, const float* weight, float* result,
                                            Epilogue epilogue) {
  workers.reserve_scratch(scratch_lane_pass(pass, standard));
  const long source_size = pass.source_size(), result_size = pass.result_size(), height = pass.height();
  float* const packed = workers.scratch(0);
  pass.pack(weight, packed);
  // Bands of rows whose result stays in the first-level cache for the epilogue.
  const long row_floats = long{1} * sample_lanes * pass.width(), most = 10000 / (row_floats * pass.rows() + 1);
  const long band = standard ? height : smaller(height, most > 4 ? most : 4), bands = blocks_of(height, band);
  auto task = [&](int index, int worker) {
    const long sample = index / bands * sample_lanes, y0 = index % bands * band, y1 = smaller(height, y0 + band);
    if (standard) {
      float* const from = workers.scratch(worker) + pass.packed_size();
      float* const to = from + sample_lanes * source_size;
      to_samples_last(source + sample * source_size, source_size, batch - sample, source_size, from);
      pass.run(packed, from, to, y0, y1);
      from_samples_last(to, result_size, result + sample * result_size, result_size, batch - sample);
      epilogue(sample * result_size, smaller(batch, sample + sample_lanes) * result_size);
      return;
    }
    pass.run(packed, source + sample * source_size, result + sample * result_size, y0, y1);
    for (long c = 0; c < pass.rows(); ++c) {
      const long plane = sample * result_size + c * height * row_floats;
      epilogue(plane + y0 * row_floats, plane + y1 * row_floats);
    }
  };
  run_tasks(workers, sample_groups(batch) * bands, batch * pass.g.flops() < inline_flops, task);
}

/// How the gradient by the weight is cut: blocks of 3 or 4 result channels (fewer only if there are), and parts of the
/// batch, whose sums are added in order.
struct LaneWeightCut {
  int blocks;
  long parts;

  constexpr LaneWeightCut(const Conv2dGeometry& g, long batch)
      : blocks(static_cast<int>(blocks_of(g.out_channels, 4))), parts(smaller(sample_groups(batch), 8)) {}
};

/// sums [rows, taps, 16] += the products of `rows` (3 or 4) channels of a group's gradient, of which `upstream` is the
/// first, with its input.
[[gnu::noinline]] inline void add_lane_weight_gradient(const Conv2dGeometry& g, const float* input,
                                                       const float* upstream, long upstream_row, int rows,
                                                       float* sums) {
  const long width = g.out_width(), height = g.out_height();
  const Span inner = interior(-g.padding, g.stride, g.kernel_width, g.width, width);
  // The sum over positions [i0, i1) x [j0, j1) for the taps `v` of one row of a kernel.
  auto add = [&](int c, int u, long i0, long i1, long j0, long j1, Span v) {
    if (i0 >= i1 || j0 >= j1) return;
    const LaneSum sum{{1, i1 - i0, j1 - j0},
                      {0, sample_lanes * width, sample_lanes},
                      {0, long{sample_lanes} * g.stride * g.width, long{sample_lanes} * g.stride}};
    const long y = i0 * g.stride + u - g.padding, x = j0 * g.stride - g.padding;
    const float* left = upstream + (i0 * width + j0) * sample_lanes;
    const float* right = input + ((long{c} * g.height + y) * g.width + x) * sample_lanes;
    float* to = sums + (long{c} * g.kernel_height + u) * g.kernel_width * sample_lanes;
    const LaneTiles& choice = rows == 4 ? lane_tiles<Vector, 4> : lane_tiles<Vector, 3>;
    for (long first = v.first, columns; first < v.last; first += columns) {
      columns = choice.next(v.last - first);
      for (long part = 0; part < sample_lanes; part += vector_width) {
        choice.tile[columns - 1](sum, left + part, upstream_row, right + first * sample_lanes + part, sample_lanes,
                                 to + first * sample_lanes + part, g.taps() * sample_lanes, sample_lanes, rows, true);
      }
    }
  };
  const long band = 1 + 100 / width;  // rows whose operands stay in the first-level cache
  for (long i0 = 0; i0 < height; i0 += band) {
    for (int c = 0; c < g.channels; ++c) {
      for (int u = 0; u < g.kernel_height; ++u) {
        const Span y = interior(u - g.padding, g.stride, 1, g.height, height);
        add(c, u, i0 > y.first ? i0 : y.first, smaller(i0 + band, y.last), inner.first, inner.last,
            {0, g.kernel_width});
      }
    }
  }
  for_each_outside({0, width}, inner, [&](long j) {
    const Span v = taps_inside(j * g.stride - g.padding, g.kernel_width, g.width);
    for (int c = 0; c < g.channels; ++c) {
      for (int u = 0; u < g.kernel_height; ++u) {
        const Span y = interior(u - g.padding, g.stride, 1, g.height, height);
        add(c, u, y.first, y.last, j, j + 1, v);
      }
    }
  });
}

/// to[i] = the sum of the 16 lanes of row i, for i < count; reads up to three rows more.
inline void sum_lanes(const float* from, long count, float* to) {
  for (long i = 0; i < count; i += 4, from += 4 * sample_lanes) {
    Vector row[4];
    for (int k = 0; k < 4; ++k) {
      row[k] = load(from + k * sample_lanes);
      for (int part = 1; part < lane_parts; ++part) row[k] += load(from + k * sample_lanes + part * vector_width);
    }
    transpose_quarters(row[0], row[1], row[2], row[3]);
    float quarters[vector_width];
    store(quarters, (row[0] + row[1]) + (row[2] + row[3]));
    Quarter sum = load_quarter(quarters);
    for (int q = 4; q < vector_width; q += 4) sum += load_quarter(quarters + q);
    std::memcpy(to + i, &sum, sizeof(float) * static_cast<std::size_t>(smaller(4, count - i)));
  }
}

constexpr long scratch_lane_weight_gradient(const Conv2dGeometry& g, bool standard) {
  const long partial = round_up(8 * g.weight_size(), sample_lanes),
             sums = sample_lanes * (g.out_channels + 4) * g.taps();
  return partial + sums + (standard ? sample_lanes * (g.input_size() + g.result_size()) : 0);
}

/// As `run_lane_pass`, for the gradient by the weight.
[[gnu::noinline]] inline void run_lane_weight_gradient(Workers& workers, const Conv2dGeometry& g, bool standard,
                                                       int batch, const float* input, const float* gradient_of_result,
                                                       float* weight_gradient) {
  workers.reserve_scratch(scratch_lane_weight_gradient(g, standard));
  const LaneWeightCut cut(g, batch);
  const long groups = sample_groups(batch), taps = g.taps(), channels = g.out_channels;
  float* const partial = workers.scratch(0);
  // A block of channels, for one part of the batch; in the standard layout all of them, as they share what is re-laid.
  const long tasks_of_part = standard ? 1 : cut.blocks;
  auto task = [&](int index, int worker) {
    const long part = index / tasks_of_part, first_block = standard ? 0 : index % tasks_of_part;
    const long last_block = standard ? cut.blocks : first_block + 1;
    float* const sums = workers.scratch(worker) + round_up(8 * g.weight_size(), sample_lanes);
    float* const own_input = sums + sample_lanes * (channels + 4) * taps;
    float* const own_upstream = own_input + sample_lanes * g.input_size();
    const long first = channels * first_block / cut.blocks, last = channels * last_block / cut.blocks;
    fill_floats(sums, 0, sample_lanes * (last - first + 4) * taps);
    // Backwards, so that an incomplete group comes first: the lanes beyond the batch are cleared after it.
    for (long group = groups * (part + 1) / cut.parts - 1; group >= groups * part / cut.parts; --group) {
      const long sample = group * sample_lanes, samples = batch - sample;
      const float *x = input + sample * g.input_size(), *dy = gradient_of_result + sample * g.result_size();
      if (standard) {
        to_samples_last(x, g.input_size(), samples, g.input_size(), own_input);
        to_samples_last(dy, g.result_size(), samples, g.result_size(), own_upstream);
        x = own_input;
        dy = own_upstream;
      }
      const long row = sample_lanes * g.positions();
      for (long block = first_block; block < last_block; ++block) {
        // With fewer than 3 channels the tile works on one of them thrice, and keeps one.
        long o = channels * block / cut.blocks;
        const long end = channels * (block + 1) / cut.blocks;
        if (end - o >= 3) {
          add_lane_weight_gradient(g, x, dy + o * row, row, static_cast<int>(end - o),
                                   sums + (o - first) * taps * sample_lanes);
          continue;
        }
        for (; o < end; ++o)
          add_lane_weight_gradient(g, x, dy + o * row, 0, 1, sums + (o - first) * taps * sample_lanes);
      }
      for (long i = 0; samples < sample_lanes && i < (last - first) * taps; ++i) {
        for (long s = samples; s < sample_lanes; ++s) sums[i * sample_lanes + s] = 0;
      }
    }
    sum_lanes(sums, (last - first) * taps, partial + part * g.weight_size() + first * taps);
  };
  run_tasks(workers, cut.parts * tasks_of_part, batch * g.flops() < inline_flops, task);
  fill_floats(weight_gradient, 0, g.weight_size());
  for (long part = 0; part < cut.parts; ++part) {
    add_floats(weight_gradient, partial + part * g.weight_size(), g.weight_size());
  }
}

}  // namespace detail

constexpr long scratch_conv2d(const Workers*, In<Layout::samples_last>, const Conv2dGeometry& g) {
  return detail::scratch_lane_pass({g, false}, false);
}
constexpr long scratch_conv2d_input_gradient(const Workers*, In<Layout::samples_last>, const Conv2dGeometry& g) {
  return detail::scratch_lane_pass({g, true}, false);
}
constexpr long scratch_conv2d_weight_gradient(const Workers*, In<Layout::samples_last>, const Conv2dGeometry& g) {
  return detail::scratch_lane_weight_gradient(g, false);
}

/// As `run_conv2d`, input and result in `Layout::samples_last`.
inline void run_conv2d(Workers& workers, In<Layout::samples_last>, const Conv2dGeometry& g, int batch,
                       const float* input, const float* weight, float* result, Epilogue epilogue = {}) {
  detail::run_lane_pass(workers, {g, false}, false, batch, input, weight, result, epilogue);
}

/// As `run_conv2d_input_gradient`, both gradients in `Layout::samples_last`.
inline void run_conv2d_input_gradient(Workers& workers, In<Layout::samples_last>, const Conv2dGeometry& g, int batch,
                                      const float* gradient_of_result, const float* weight, float* input_gradient,
                                      Epilogue epilogue = {}) {
  detail::run_lane_pass(workers, {g, true}, false, batch, gradient_of_result, weight, input_gradient, epilogue);
}

/// As `run_conv2d_weight_gradient`, input and gradient in `Layout::samples_last`; what lies in the lanes beyond the
/// batch does not matter.
inline void run_conv2d_weight_gradient(Workers& workers, In<Layout::samples_last>, const Conv2dGeometry& g, int batch,
                                       const float* input, const float* gradient_of_result, float* weight_gradient) {
  detail::run_lane_weight_gradient(workers, g, false, batch, input, gradient_of_result, weight_gradient);
}

/// Whether the kernels that follow beat those of conv2d.hpp on values in `Layout::standard`, from
/// `few_channels_least_batch` samples on: a group of 16 must be re-laid, which few channels on the other side do not
/// pay for, and should fit a second-level cache.
constexpr bool few_channels_fits(const Conv2dGeometry& g) {
  return g.channels <= 32 && g.out_channels <= 32 && g.input_size() + g.result_size() <= 1 << 14;
}
/// An incomplete group costs as much as a full one, which is as much as about 4 samples by the other kernels.
inline constexpr int few_channels_least_batch = 4;

constexpr long scratch_conv2d_few_channels(const Workers*, const Conv2dGeometry& g) {
  return detail::scratch_lane_pass({g, false}, true);
}
constexpr long scratch_conv2d_input_gradient_few_channels(const Workers*, const Conv2dGeometry& g) {
  return detail::scratch_lane_pass({g, true}, true);
}
constexpr long scratch_conv2d_weight_gradient_few_channels(const Workers*, const Conv2dGeometry& g) {
  return detail::scratch_lane_weight_gradient(g, true);
}

/// As `run_conv2d` (values in `Layout::standard`), by way of groups of 16 samples.
inline void run_conv2d_few_channels(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                                    const float* weight, float* result, Epilogue epilogue = {}) {
  detail::run_lane_pass(workers, {g, false}, true, batch, input, weight, result, epilogue);
}

/// As `run_conv2d_input_gradient`, likewise.
inline void run_conv2d_input_gradient_few_channels(Workers& workers, const Conv2dGeometry& g, int batch,
                                                   const float* gradient_of_result, const float* weight,
                                                   float* input_gradient, Epilogue epilogue = {}) {
  detail::run_lane_pass(workers, {g, true}, true, batch, gradient_of_result, weight, input_gradient, epilogue);
}

/// As `run_conv2d_weight_gradient`, likewise.
inline void run_conv2d_weight_gradient_few_channels(Workers& workers, const Conv2dGeometry& g, int batch,
                                                    const float* input, const float* gradient_of_result,
                                                    float* weight_gradient) {
  detail::run_lane_weight_gradient(workers, g, true, batch, input, gradient_of_result, weight_gradient);
}

}  // namespace tenet::cpu
