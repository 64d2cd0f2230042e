#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/core/vector.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/transpose.hpp"
#include "tenet/device/cpu/winograd_matrices.hpp"
#include "tenet/device/epilogue.hpp"

/// Winograd's convolution F(4x4, 3x3), vectorised over channels: where its tiles lie, and how images become tiles and
/// results images (winograd_matrices.hpp has the matrices).
namespace tenet::cpu::detail {

/// Inputs of a tile in one direction, and the products of a whole one.
inline constexpr int winograd_in = WinogradPoints<3>::count, winograd_products = winograd_in * winograd_in;

/// Both directions of a tile, its columns, then its lines: get(i, j) gives a vector of the tile, put(i, j, vector)
/// takes one of the transformed. Without a loop, whose vectors in between would have to lie in memory: they stay in
/// registers where there are enough, and a transform takes two thirds of the time.
template <class Transform, class Get, class Put, int... Column, int... Line>
[[gnu::always_inline]] inline void transform_tile(const Get& get, const Put& put, std::integer_sequence<int, Column...>,
                                                  std::integer_sequence<int, Line...>) {
  Vector half[Transform::to_size][Transform::from_size];
  (transform_line<Transform>([&](int i) { return get(i, Column); },
                             [&](int i, Vector value) { half[i][Column] = value; }),
   ...);
  (transform_line<Transform>([&](int j) { return half[Line][j]; }, [&](int j, Vector value) { put(Line, j, value); }),
   ...);
}
template <class Transform, class Get, class Put>
[[gnu::always_inline]] inline void transform_tile(const Get& get, const Put& put) {
  transform_tile<Transform>(get, put, std::make_integer_sequence<int, Transform::from_size>{},
                            std::make_integer_sequence<int, Transform::to_size>{});
}

/// Fetches a part of `rows` rows of `run` floats, `row` apart, for reading or (`write` = 1) writing: number `point` of
/// as many parts as there are points. Inlined, as GCC drops calls of functions that only fetch.
template <int write = 0>
[[gnu::always_inline]] inline void fetch_part(long point, const float* from, long row, long rows, long run) {
  const long last = (point + 1) * rows / winograd_products;
  for (long r = point * rows / winograd_products; r < last; ++r)
    for (long i = 0; i < run; i += 16) __builtin_prefetch(from + r * row + i, write);
}

constexpr long larger(long a, long b) { return a > b ? a : b; }

/// Vectors in a row of the tiles of the products: `wide_vectors` where no narrower ones, which load more for each
/// multiplication, remain. Such tiles have fewer rows.
constexpr long winograd_vectors(long channels) {
  const long vectors = blocks_of(channels, vector_width);
  return vectors % wide_vectors == 0 && vectors % tile_vectors != 0 && vectors <= 16 ? wide_vectors : tile_vectors;
}
constexpr long winograd_rows(long channels) {
  return winograd_vectors(channels) > tile_vectors ? wide_rows : tile_rows;
}

/// Columns of a matrix in panels of at most `most` vectors, as equal as whole vectors allow.
struct WinogradPanels {
  long vectors, count, least, wider;  // the first `wider` panels have one vector more than `least`

  constexpr explicit WinogradPanels(long columns) : WinogradPanels(columns, winograd_vectors(columns)) {}
  constexpr WinogradPanels(long columns, long most)
      : vectors(blocks_of(columns, vector_width)),
        count(blocks_of(vectors, most)),
        least(vectors / count),
        wider(vectors % count) {}
  constexpr long first(long panel) const { return (panel * least + smaller(panel, wider)) * vector_width; }
  constexpr long width(long panel) const { return (least + (panel < wider)) * vector_width; }
};

/// Where the 36 matrices [tiles, channels] of transformed tiles lie: either in groups of some tiles, in each
/// group 36 matrices, so that one tile's 36 vectors share few pages; or all tiles in one group, by panels of channels,
/// in each 36 matrices [tiles, width]. Steps are no multiples of 4 KiB, which would compete for the same cache lines.
struct WinogradTiles {
  WinogradPanels panels;
  bool grouped;
  long group;  // tiles

  static constexpr WinogradTiles groups(long channels, long tiles) {
    return {WinogradPanels(channels, channels), true, tiles};
  }
  static constexpr WinogradTiles by_panels(long channels, long tiles) {
    return {WinogradPanels(channels), false, tiles};
  }

  constexpr long row_step(long panel) const {
    const long width = panels.width(panel);
    return width % 256 == 0 ? width + 16 : width;
  }
  constexpr long point_step(long panel) const { return group * row_step(panel) + 16; }
  constexpr long group_step(long panel) const { return winograd_products * point_step(panel); }
  constexpr long at(long panel, long tile) const {
    const long before = grouped ? tile / group : 0, own = grouped ? tile % group : tile;
    return winograd_products * (group * panels.first(panel) + 16 * panel) + before * group_step(panel) +
           own * row_step(panel);
  }
  constexpr long floats(long tiles) const {
    return blocks_of(tiles, group) * winograd_products *
           (group * (panels.vectors * vector_width + 16) + 16 * panels.count);
  }
};

/// How the tiles of a batch are cut into blocks of about `most` tiles: some samples, or some rows of tiles of one.
struct WinogradCut {
  long tiles_y, tiles_x, samples, rows, row_blocks, blocks;

  constexpr WinogradCut(const Conv2dGeometry& g, long batch, long most) {
    tiles_y = blocks_of(g.out_height(), winograd_out);
    tiles_x = blocks_of(g.out_width(), winograd_out);
    const long together = most / (tiles_y * tiles_x);
    samples = together > 0 && batch > 0 ? blocks_of(batch, blocks_of(batch, together)) : 1;
    row_blocks = together > 0 ? 1 : blocks_of(tiles_y, larger(most / tiles_x, 1));
    rows = blocks_of(tiles_y, row_blocks);
    row_blocks = blocks_of(tiles_y, rows);
    blocks = blocks_of(batch, samples) * row_blocks;
  }
  constexpr long most_tiles() const { return samples * rows * tiles_x; }
};

/// One image channels-last, of which rows [first_row, last_row) are in memory.
struct WinogradImage {
  const float* data;             // of row 0, which may lie before the memory
  long channels, height, width;  // of whole vectors of channels

  /// Transforms the tile whose first pixel is (y, x), zero outside the image; to `tile` of `to`.
  template <class Transform>
  void transform(long y, long x, const float* zeros, float* to, const WinogradTiles& tiles, long tile) const {
    constexpr int size = Transform::from_size;
    const float* pixels[size * size];
    for (int i = 0; i < size; ++i) {
      for (int j = 0; j < size; ++j) {
        const bool inside = y + i >= 0 && y + i < height && x + j >= 0 && x + j < width;
        pixels[i * size + j] = inside ? data + ((y + i) * width + x + j) * channels : zeros;
      }
    }
    for (long panel = 0; panel < tiles.panels.count; ++panel) {
      const long first = tiles.panels.first(panel), last = first + tiles.panels.width(panel);
      float* const target = to + tiles.at(panel, tile) - first;
      const long point_step = tiles.point_step(panel);
      for (long c = first; c < last; c += vector_width) {
        transform_tile<Transform>(
            [&](int i, int j) { return load(pixels[i * size + j] + c); },
            [&](int i, int j, Vector value) { store(target + (i * winograd_in + j) * point_step + c, value); });
      }
    }
  }
};

/// Rows of tiles of one sample: a part of a block.
struct WinogradUnit {
  long sample, row, rows, tile;  // `tile`: the first one's number in the block
};

/// Images of a batch, [channels, height, width] or, with their channels last, [height, width, channels]. The latter are
/// read and written where they lie; they have whole vectors of channels.
template <class Float>
struct WinogradImages {
  Float* data;
  long channels, height, width;
  bool channels_last;

  Float* sample(long n) const { return data + n * channels * height * width; }

  /// While the products of a point run: fetches a part, of as many as there are points, of what tiles of `size` in the
  /// rows of a unit read, or, where Float is not const, write; of `samples` samples. Channels first are left to the
  /// processor. Inlined, as GCC drops calls of functions that only fetch.
  template <int size>
  [[gnu::always_inline]] void fetch(long point, const WinogradUnit& unit, long samples, long padding = 0) const {
    const long top = winograd_out * unit.row - padding, end = top + winograd_out * (unit.rows - 1) + size;
    const long first = top > 0 ? top : 0, count = (smaller(end, height) - first) * width * channels;
    if (!channels_last || count <= 0) return;
    for (long n = 0; n < samples; ++n) {
      const Float* const rows = sample(unit.sample + n) + first * width * channels;
      const long last = count * (point + 1) / winograd_products;
      for (long i = count * point / winograd_products; i < last; i += 16)
        __builtin_prefetch(rows + i, std::is_const_v<Float> ? 0 : 1, 2);
    }
  }
};

/// The units of block `block`, cut into `parts` pieces a sample.
inline WinogradUnit unit_of(const WinogradCut& cut, long block, long parts, long index) {
  const long row0 = block % cut.row_blocks * cut.rows, rows = smaller(cut.rows, cut.tiles_y - row0);
  const long sample = index / parts, part = index % parts;
  const long first = rows * part / parts, last = rows * (part + 1) / parts;
  return {block / cut.row_blocks * cut.samples + sample, row0 + first, last - first,
          (sample * rows + first) * cut.tiles_x};
}
inline long samples_of(const WinogradCut& cut, long block, long batch) {
  return smaller(cut.samples, batch - block / cut.row_blocks * cut.samples);
}
inline long tiles_of(const WinogradCut& cut, long block, long batch) {
  const long row0 = block % cut.row_blocks * cut.rows;
  return samples_of(cut, block, batch) * smaller(cut.rows, cut.tiles_y - row0) * cut.tiles_x;
}

/// Floats to hold the rows that a unit reads or writes, channels-last, and a pixel of zeros.
constexpr long staging_winograd(const Conv2dGeometry& g, long rows) {
  const long channels = round_up(g.channels, vector_width), out_channels = round_up(g.out_channels, vector_width);
  const long in = smaller(g.height, winograd_out * rows + 2) * g.width * channels;
  const long out = smaller(g.out_height(), winograd_out * rows) * g.out_width() * out_channels;
  return round_up(larger(in, out) + larger(channels, out_channels), 16);
}

/// Transforms the tiles of a unit of the input, or with `ResultGradientTransform` those of the gradient of the result
/// (images of the results' size without padding).
template <class Transform>
void transform_unit(const WinogradImages<const float>& images, long padding, const WinogradUnit& unit, long tiles_x,
                    float* to, const WinogradTiles& tiles, float* staging) {
  const long y0 = winograd_out * unit.row - padding, width = images.width;
  const long first = y0 > 0 ? y0 : 0;
  const long last = smaller(images.height, y0 + winograd_out * (unit.rows - 1) + Transform::from_size);
  const long row = round_up(images.channels, vector_width);
  const float* const sample = images.sample(unit.sample);
  float* const zeros = staging;
  float* const rows = staging + row;
  fill_floats(zeros, 0, row);
  if (last > first && !images.channels_last)
    transpose_vectors(sample + first * width, images.height * width, images.channels, (last - first) * width, rows,
                      row);
  const WinogradImage image{images.channels_last ? sample : rows - first * width * row, row, images.height, width};
  long tile = unit.tile;
  for (long i = 0; i < unit.rows; ++i) {
    for (long j = 0; j < tiles_x; ++j, ++tile) {
      image.transform<Transform>(y0 + winograd_out * i, winograd_out * j - padding, zeros, to, tiles, tile);
    }
  }
}

/// Transforms the tiles of a unit back and writes its rows of the result.
inline void write_unit(const WinogradImages<float>& images, const WinogradUnit& unit, const float* from,
                       const WinogradTiles& tiles, float* staging, Epilogue epilogue) {
  const long channels = images.channels, height = images.height, width = images.width;
  const long y0 = winograd_out * unit.row, rows = smaller(winograd_out * unit.rows, height - y0);
  const long row = round_up(channels, vector_width), plane = height * width;
  const long point_step = tiles.point_step(0);
  float* const image = images.channels_last ? images.sample(unit.sample) + y0 * width * row : staging;
  long tile = unit.tile;
  for (long y = 0; y < rows; y += winograd_out) {
    const long valid_y = smaller(winograd_out, rows - y);
    for (long x = 0; x < width; x += winograd_out, ++tile) {
      const long valid_x = smaller(winograd_out, width - x);
      const float* const source = from + tiles.at(0, tile);
      float* const target = image + (y * width + x) * row;
      for (long c = 0; c < channels; c += vector_width) {
        transform_tile<ResultTransform<3>>(
            [&](int i, int j) { return load(source + (i * winograd_in + j) * point_step + c); },
            [&](int i, int j, Vector value) {
              if (i < valid_y && j < valid_x) store(target + (i * width + j) * row + c, value);
            });
      }
    }
    if (images.channels_last) {
      const long first = (unit.sample * plane + (y0 + y) * width) * channels;
      epilogue(first, first + valid_y * width * channels);
    }
  }
  if (images.channels_last) return;
  const long first = unit.sample * channels * plane + y0 * width, count = rows * width;
  for (long o = 0; o < channels; o += 16) {  // few streams of writes at a time
    transpose_vectors(staging + o, row, count, smaller(16, channels - o), images.data + first + o * plane, plane);
  }
  if (count == plane) {
    epilogue(first, first + channels * plane);
  } else {
    for (long o = 0; o < channels; ++o) epilogue(first + o * plane, first + o * plane + count);
  }
}

}  // namespace tenet::cpu::detail
