#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/lane_tile.hpp"
#include "tenet/device/cpu/lane_weight_pass.hpp"
#include "tenet/device/cpu/winograd_matrices.hpp"

/// The gradient by the weight of Winograd's convolutions along the lines, with samples in the vector lanes
/// (winograd_samples_last.hpp): lines of the input and of the gradient are transformed, and their products summed over
/// positions at each point, in tiles of some result channels by the lines of a kernel. The sums of all samples are
/// transformed back once.
namespace tenet::cpu::detail {

template <int taps>
struct WinogradLaneWeightPass {
  static constexpr int points = WinogradPoints<taps>::count;
  static constexpr int block = 4;  // result channels

  Conv2dGeometry g;

  constexpr long tiles() const { return blocks_of(g.out_width(), winograd_out); }
  constexpr long sums() const { return long{points} * taps * g.channels; }
  /// Lines of the result whose transformed operands, together with the sums, stay in the second-level cache.
  constexpr long band() const {
    const long line = tiles() * points * vector_width, operands = g.channels + block;
    const long most = 50000 / (line * operands) - taps * g.channels / operands;
    return smaller(g.out_height(), most > 4 ? most : 4);
  }
  /// Floats of a channel's transformed lines at one point.
  constexpr long input_plane() const { return (band() + taps - 1) * tiles() * vector_width; }
  constexpr long upstream_plane() const { return band() * tiles() * vector_width; }
  constexpr long own_size() const { return points * (g.channels * input_plane() + block * upstream_plane()); }
  // Each task transforms the input anew: there are more than one a part only where few samples would leave workers
  // idle.
  constexpr long blocks(long parts) const { return smaller(blocks_of(g.out_channels, block), blocks_of(4, parts)); }

  /// `sums` is [result channels, channels, points, taps].
  void add(const float* input, const float* upstream, long first, long last, float* sums, float* own) const {
    float* const inputs = own;
    float* const upstreams = own + points * g.channels * input_plane();
    for (long part = 0; part < sample_lanes; part += vector_width) {
      for (long y = 0; y < g.out_height(); y += band()) {
        const long lines = smaller(band(), g.out_height() - y);
        for (long c = 0; c < g.channels; ++c)
          transform<InputTransform<taps>>(input + part + c * g.height * g.width * sample_lanes, g.height, g.width,
                                          y - g.padding, lines + taps - 1, g.padding,
                                          inputs + c * points * input_plane(), input_plane());
        for (long o = first; o < last; o += block) {
          const long rows = smaller(block, last - o);
          for (long r = 0; r < rows; ++r)
            transform<ResultGradientTransform<taps>>(upstream + part + (o + r) * g.positions() * sample_lanes,
                                                     g.out_height(), g.out_width(), y, lines, 0,
                                                     upstreams + r * points * upstream_plane(), upstream_plane());
          multiply(inputs, upstreams, lines, static_cast<int>(rows),
                   sums + part + (o - first) * this->sums() * sample_lanes);
        }
      }
    }
  }

  [[gnu::noinline]] void finish(const float* sums, float* weight_gradient) const {
    float line[taps * vector_width];
    const long pairs = long{1} * g.channels * g.out_channels;
    for (long pair = 0; pair < pairs; ++pair, sums += points * taps, weight_gradient += taps * taps) {
      for (int first = 0; first < taps; first += vector_width) {  // lines of the kernel, one a lane
        const int lines = taps - first < vector_width ? taps - first : vector_width;
        transform_line<WeightGradientTransform<taps>>(
            [&](int i) { return load_partial(sums + i * taps + first, lines); },
            [&](int v, Vector value) { store(line + v * vector_width, value); });
        for (int u = 0; u < lines; ++u)
          for (int v = 0; v < taps; ++v) weight_gradient[(first + u) * taps + v] = line[v * vector_width + u];
      }
    }
  }

 private:
  /// to[point, line, tile] = the transformed tiles of `lines` lines of one channel from line y on, zero outside of it.
  template <class Transform>
  [[gnu::noinline]] void transform(const float* from, long height, long width, long y, long lines, long padding,
                                   float* to, long plane) const {
    constexpr int size = Transform::from_size;
    float border[size * sample_lanes];
    for (long line = 0; line < lines; ++line, ++y) {
      for (long tile = 0; tile < tiles(); ++tile, to += vector_width) {
        // A line outside has no elements.
        const float* const source = rows_of_lanes<size>(from + y * width * sample_lanes, tile * winograd_out - padding,
                                                        y >= 0 && y < height ? width : 0, border);
        transform_line<Transform>([&](int j) { return load(source + j * sample_lanes); },
                                  [&](int i, Vector value) { store(to + i * plane, value); });
      }
    }
  }

  /// Adds the products of all tiles of `lines` lines.
  void multiply(const float* inputs, const float* upstreams, long lines, int rows, float* sums) const {
    const LaneSum sum{{1, 1, lines * tiles()}, {0, 0, vector_width}, {0, 0, vector_width}};
    const LaneTiles& choice = lane_tiles<Vector, block>;
    for (int point = 0; point < points; ++point) {
      const float* const left = upstreams + point * upstream_plane();
      for (long c = 0; c < g.channels; ++c) {
        const float* right = inputs + (c * points + point) * input_plane();
        float* to = sums + (c * points + point) * taps * sample_lanes;
        for (long u = 0, count; u < taps; u += count) {
          count = choice.next(taps - u);
          choice.tile[count - 1](sum, left, points * upstream_plane(), right, tiles() * vector_width, to,
                                 this->sums() * sample_lanes, sample_lanes, rows, true);
          right += count * tiles() * vector_width;
          to += count * sample_lanes;
        }
      }
    }
  }
};

}  // namespace tenet::cpu::detail
