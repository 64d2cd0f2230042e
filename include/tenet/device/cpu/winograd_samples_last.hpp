#pragma once

#include <type_traits>
#include <utility>

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/lane_pass.hpp"
#include "tenet/device/cpu/spans.hpp"
#include "tenet/device/cpu/tile.hpp"
#include "tenet/device/cpu/transpose.hpp"
#include "tenet/device/cpu/winograd_matrices.hpp"

/// Winograd's convolutions F(4, 3) and F(4, 5) along the lines of images whose samples lie in the vector lanes, for
/// channels too few to fill vectors: 18 multiply-adds a pair of channels give four results of 3 x 3 taps where the
/// direct form takes 36, and 40 four results of 5 x 5 taps where it takes 100.
///
/// Tiles of four results stand side by side. A line of the source is transformed once, into a ring that holds the lines
/// under the kernel. The products of a tile, for some result channels, are summed in registers over the lines under the
/// kernel and all source channels, and transformed back there, so that no product is stored. In both directions at once
/// the algorithm would multiply less, but what it saves goes into its transforms, which store more vectors than they
/// add.
///
/// The gradient by the input is the transposed computation: tiles of the gradient of the result are multiplied by the
/// same weights and become `points` inputs each, which neighbouring tiles add up.
namespace tenet::cpu {

namespace detail {

/// sum[i][r] += value i * weight (i, r), for all sources.
template <int points, int block, int... Product>
[[gnu::always_inline]] inline void add_products_of_points(const float* values, const float* weights, long sources,
                                                          Vector (*sum)[block],
                                                          std::integer_sequence<int, Product...>) {
  for (long s = 0; s < sources; ++s, values += points * vector_width, weights += points * block) {
    Vector value[points];
    load_right(values, value, std::make_integer_sequence<int, points>{});
    ((sum[Product / block][Product % block] += weights[Product] * value[Product / block]), ...);
  }
}

/// Result channels whose sums at `points` points stay in registers.
constexpr int winograd_lane_block(int points, int rows) {
  const int most = 24 / points;
  return most == 4 && round_up(rows, 3) < round_up(rows, 4) ? 3 : most;
}

/// A pass by Winograd's algorithm along the lines (lane_pass.hpp).
template <int taps, bool gradient, int block>
struct WinogradLanePass {
  using Source = std::conditional_t<gradient, ResultGradientTransform<taps>, InputTransform<taps>>;
  using Result = std::conditional_t<gradient, InputGradientTransform<taps>, ResultTransform<taps>>;
  static constexpr int points = WinogradPoints<taps>::count;

  Conv2dGeometry g;

  constexpr int sources() const { return gradient ? g.out_channels : g.channels; }
  constexpr int rows() const { return gradient ? g.channels : g.out_channels; }
  constexpr int height() const { return gradient ? g.height : g.out_height(); }
  constexpr int width() const { return gradient ? g.width : g.out_width(); }
  constexpr int source_height() const { return gradient ? g.out_height() : g.height; }
  constexpr int source_width() const { return gradient ? g.out_width() : g.width; }
  constexpr long source_size() const { return gradient ? g.result_size() : g.input_size(); }
  constexpr long result_size() const { return gradient ? g.input_size() : g.result_size(); }

  constexpr long tiles() const { return blocks_of(g.out_width(), winograd_out); }
  constexpr long blocks() const { return blocks_of(rows(), block); }
  /// Floats of one line under the kernel: of the weights for a block of result channels, and of a tile of the source.
  constexpr long weight_line() const { return long{points} * block * sources(); }
  constexpr long value_line() const { return long{points} * vector_width * sources(); }

  constexpr long packed_size() const { return round_up(blocks() * taps * weight_line(), sample_lanes); }
  constexpr long own_size() const { return tiles() * taps * value_line(); }

  /// packed [blocks, taps, sources, points, block] = the transformed lines of the kernels, those of the gradient from
  /// the last to the first.
  [[gnu::noinline]] void pack(const float* weight, float* packed) const {
    const long lines = long{taps} * g.channels * g.out_channels;
    fill_floats(packed, 0, packed_size());
    float tap[taps * vector_width], point[points * vector_width];
    for (long first = 0; first < lines; first += vector_width) {
      const long count = smaller(lines - first, vector_width);
      transpose(weight + first * taps, taps, count, taps, tap, vector_width);
      transform_line<WeightTransform<taps>>([&](int i) { return load(tap + i * vector_width); },
                                            [&](int i, Vector value) { store(point + i * vector_width, value); });
      for (long lane = 0; lane < count; ++lane) {
        const long u = (first + lane) % taps, pair = (first + lane) / taps;
        const long out = pair / g.channels, in = pair % g.channels;
        const long row = gradient ? in : out, line = gradient ? taps - 1 - u : u;
        float* const to =
            packed + (row / block * taps + line) * weight_line() + (gradient ? out : in) * points * block + row % block;
        for (long i = 0; i < points; ++i) to[i * block] = point[i * vector_width + lane];
      }
    }
  }

  void run(const float* packed, const float* source, float* result, Span lines, float* ring) const {
    const long first = gradient ? g.padding + 1 - taps : -g.padding;  // the source's line under a kernel at line 0
    for (long part = 0; part < sample_lanes; part += vector_width) {
      long next = lines.first + first > 0 ? lines.first + first : 0;
      for (long y = lines.first; y < lines.last; ++y) {
        for (; next < y + first + taps && next < source_height(); ++next)
          transform_source(source + part, next, ring + next % taps * value_line());
        const Span under = taps_inside(y + first, taps, source_height());
        for (long tile = 0; tile < tiles(); ++tile) {
          for (long row = 0; row < rows(); row += block)
            multiply(packed + row / block * taps * weight_line(), ring + tile * taps * value_line(), y + first, under,
                     result + part, row, y, tile);
        }
      }
    }
  }

 private:
  /// Line y of the source, which is zero outside: its tiles go to `values`, `taps * value_line()` apart.
  [[gnu::noinline]] void transform_source(const float* source, long y, float* values) const {
    constexpr int size = Source::from_size;
    float border[size * sample_lanes];
    for (long tile = 0; tile < tiles(); ++tile, values += taps * value_line()) {
      const long x = tile * winograd_out - (gradient ? 0 : g.padding);
      for (long s = 0; s < sources(); ++s) {
        const float* const line = source + (s * source_height() + y) * source_width() * sample_lanes;
        const float* const from = rows_of_lanes<size>(line, x, source_width(), border);
        float* const to = values + s * points * vector_width;
        transform_line<Source>([&](int j) { return load(from + j * sample_lanes); },
                               [&](int i, Vector value) { store(to + i * vector_width, value); });
      }
    }
  }

  /// Tile `tile` of line y of the result, for a block of channels from `row` on; `under`: the lines of the kernel that
  /// lie over lines of the source, line 0 of it over line `first`.
  [[gnu::noinline]] void multiply(const float* packed, const float* ring, long first, Span under, float* result,
                                  long row, long y, long tile) const {
    const long x = tile * winograd_out - (gradient ? g.padding : 0);
    float* const to = result + ((row * height() + y) * width() + x) * sample_lanes;
    const long plane = long{sample_lanes} * height() * width();
    for (long r = 0; r < block && row + r < rows(); ++r)  // the result's lines arrive while the sums are computed
      for (long j = 0; j < winograd_out; ++j) __builtin_prefetch(to + r * plane + j * sample_lanes, 1);
    Vector sum[points][block] = {};
    for (long u = under.first; u < under.last; ++u)
      add_products_of_points<points, block>(ring + (first + u) % taps * value_line(), packed + u * weight_line(),
                                            sources(), sum, std::make_integer_sequence<int, points * block>{});
    transform_back(sum, to, plane, rows() - row, x, tile > 0, std::make_integer_sequence<int, block>{});
  }

  /// Of `rows` channels, to `to` and `plane` apart, the line's elements from `x` on. The first ones of a tile of the
  /// gradient are the last ones of the tile before, if there is one.
  template <int... R>
  [[gnu::always_inline]] void transform_back(const Vector (*sum)[block], float* to, long plane, long rows, long x,
                                             bool behind, std::integer_sequence<int, R...>) const {
    ((R < rows ? transform_channel<R>(sum, to + R * plane, x, behind) : void()), ...);
  }
  template <int r>
  [[gnu::always_inline]] void transform_channel(const Vector (*sum)[block], float* to, long x, bool behind) const {
    transform_line<Result>([&](int i) { return sum[i][r]; },
                           [&](int j, Vector value) {
                             if (x + j < 0 || x + j >= width()) return;
                             float* const element = to + j * sample_lanes;
                             store(element, gradient && behind && j < taps - 1 ? load(element) + value : value);
                           });
  }
};

template <Conv2dGeometry g, bool gradient>
using WinogradLanePassOf = WinogradLanePass<g.kernel_height, gradient,
                                            winograd_lane_block(WinogradPoints<g.kernel_height>::count,
                                                                gradient ? g.channels : g.out_channels)>;

}  // namespace detail

/// Whether Winograd's algorithm multiplies enough less than the direct form to pay for its transforms, with samples in
/// lanes. Narrower vectors have 16 registers, which hold fewer sums, so that loads are what is left: it takes up to 1.6
/// times as long there.
constexpr bool winograd_in_lanes_fits(const Conv2dGeometry& g) {
  const long taps = g.kernel_height;
  if (g.kernel_width != taps || (taps != 3 && taps != 5) || g.stride != 1 || g.padding >= taps) return false;
  const long products = detail::blocks_of(g.out_width(), detail::winograd_out) * (taps + detail::winograd_out - 1);
  return vector_width == sample_lanes && g.channels >= 4 && g.out_channels >= 4 &&
         3 * products < 2 * taps * g.out_width();
}

}  // namespace tenet::cpu
