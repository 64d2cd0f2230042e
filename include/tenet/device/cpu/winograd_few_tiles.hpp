#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/transpose.hpp"
#include "tenet/device/cpu/winograd.hpp"
#include "tenet/device/cpu/winograd_transform.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

/// Winograd's convolution of a few small images, by prepared weights: one image of 4x4 or 7x7, say.
///
/// Transformed weights are then used a few times only, and writing them to memory takes longer than their products. So
/// they never leave the registers, and neither do the sums of a pass: for a vector of result channels, a step reads the
/// taps of one channel, transforms them and multiplies them by the transformed inputs of the channel.
namespace tenet::cpu {

namespace detail {

/// The values at point `i` of Winograd's transform in one direction of three weights get(0) to get(2). The factors 1 /
/// N
/// (`winograd_transform.hpp`) are part of the input's transform here, as there are fewer inputs than weights.
template <int i, class Get>
[[gnu::always_inline]] inline Vector weight_at_point(const Get& get) {
  if constexpr (i == 0) {
    return get(0);
  } else if constexpr (i == winograd_in - 1) {
    return get(2);
  } else {
    constexpr WinogradPoints<3> w{};
    constexpr float x = w.point[(i - 1) / 2], square = w.square[(i - 1) / 2];
    const Vector even = get(0) + square * get(2);
    return i % 2 == 1 ? even + x * get(1) : even - x * get(1);
  }
}

/// The input's transform with these factors.
struct ScaledInputTransform {
  static constexpr int from_size = winograd_in, to_size = winograd_in;

  [[gnu::always_inline]] static void apply(const Vector* d, Vector* to) {
    InputTransform<3>::apply(d, to);
    constexpr WinogradPoints<3> w{};
    to[0] *= w.scale_at_0;
    to[1] *= w.scale[0];
    to[2] *= w.scale[0];
    to[3] *= w.scale[1];
    to[4] *= w.scale[1];
  }
};

inline constexpr std::make_integer_sequence<int, winograd_in> all_points{};
inline constexpr std::make_integer_sequence<int, winograd_out> all_results{};

/// Tiles, or lines, whose sums are held in registers at once, 6 vectors of each.
inline constexpr int few_tiles = 4;

/// sums[i * step] += weight * values[i]. Each value has its own place in memory, where a multiply-add reads it: of
/// values that a step needs again, compilers make vectors that they keep in memory.
template <int step, int... i>
[[gnu::always_inline]] inline void add_products_of(Vector weight, const float* values, Vector* sums,
                                                   std::integer_sequence<int, i...>) {
  ((sums[i * step] += weight * values[i]), ...);
}

/// Tiles of 4x4 results, F(4x4, 3x3), in groups: a pass is a row of points, for which it transforms the taps in both
/// directions.
struct FewTiles {
  static constexpr int passes = winograd_in, values = winograd_in * few_tiles, sums = values;

  const Conv2dGeometry& g;
  long tiles_y, tiles_x, tiles;

  constexpr FewTiles(const Conv2dGeometry& geometry, long batch)
      : g(geometry),
        tiles_y(blocks_of(g.out_height(), winograd_out)),
        tiles_x(blocks_of(g.out_width(), winograd_out)),
        tiles(batch * tiles_y * tiles_x) {}
  constexpr long units() const { return blocks_of(tiles, few_tiles); }

  long sample(long tile) const { return tile / (tiles_y * tiles_x); }
  long y(long tile) const { return tile / tiles_x % tiles_y * winograd_out; }
  long x(long tile) const { return tile % tiles_x * winograd_out; }

  /// Calls put(pass, value, vector) for a vector of the channels of group `unit`.
  template <class Put>
  void transform(const float* images, long unit, const Put& put) const {
    for (int t = 0; t < few_tiles; ++t) {
      const long tile = unit * few_tiles + t, top = y(tile) - g.padding, left = x(tile) - g.padding;
      const float* const image = images + sample(tile) * g.input_size();
      transform_tile<ScaledInputTransform>(
          [&](int i, int j) {
            const bool inside =
                tile < tiles && top + i >= 0 && top + i < g.height && left + j >= 0 && left + j < g.width;
            return inside ? load(image + ((top + i) * g.width + left + j) * g.channels) : zero_lanes();
          },
          [&](int i, int j, Vector value) { put(i, j * few_tiles + t, value); });
    }
  }

  template <int i>
  [[gnu::always_inline]] static void step(const float* taps, long tap, const float* channel, Vector* sum) {
    const auto column = [&](int j) {
      return weight_at_point<i>([&](int u) { return load(taps + (3 * u + j) * tap); });
    };
    const Vector columns[] = {column(0), column(1), column(2)};
    add_points(columns, channel, sum, all_points);
  }
  template <int... j>
  [[gnu::always_inline]] static void add_points(const Vector* columns, const float* channel, Vector* sum,
                                                std::integer_sequence<int, j...>) {
    (add_products_of<1>(weight_at_point<j>([&](int column) { return columns[column]; }), channel + j * few_tiles,
                        sum + j * few_tiles, std::make_integer_sequence<int, few_tiles>{}),
     ...);
  }

  /// Writes a vector of result channels of group `unit`; get(pass, sum) gives its sums.
  template <class Get>
  void write(long unit, const Get& get, float* results) const {
    for (long t = 0; t < few_tiles && unit * few_tiles + t < tiles; ++t) {
      const long tile = unit * few_tiles + t, top = y(tile), left = x(tile);
      float* const to = results + sample(tile) * g.result_size() + (top * g.out_width() + left) * g.out_channels;
      transform_tile<ResultTransform<3>>([&](int i, int j) { return get(i, j * few_tiles + t); },
                                         [&](int i, int j, Vector value) {
                                           if (top + i < g.out_height() && left + j < g.out_width())
                                             store(to + (i * g.out_width() + j) * g.out_channels, value);
                                         });
    }
  }
};

/// Images of at most 4x4, each line by F(4, 3) in one direction, so that nothing multiplies the lines of zeros around
/// the image: 60 products a channel where a tile of 4x4 results has 36, but a quarter of the transform.
struct FewLines {
  static constexpr int passes = 1, sums = few_tiles * winograd_in;
  /// Row `u` of the kernel meets the image for `count` lines of results from `first` on: 10 of 12 in all.
  static constexpr int first[] = {1, 0, 0}, count[] = {3, 4, 3};
  static constexpr int before[] = {0, 3 * winograd_in, 7 * winograd_in}, values = 10 * winograd_in;

  const Conv2dGeometry& g;
  long batch;

  constexpr FewLines(const Conv2dGeometry& geometry, long samples) : g(geometry), batch(samples) {}
  constexpr long units() const { return batch; }

  template <class Put>
  void transform(const float* images, long unit, const Put& put) const {
    for (int line = 0; line < few_tiles; ++line) {
      const float* const from = images + (unit * g.height + line) * g.width * g.channels;
      const auto pixel = [&](int j) {
        return line < g.height && j > 0 && j <= g.width ? load(from + (j - 1) * g.channels) : zero_lanes();
      };
      const auto put_point = [&](int j, Vector value) {
        for (int u = 0; u < 3; ++u) {
          const int result = line + 1 - u - first[u];
          if (result >= 0 && result < count[u]) put(0, before[u] + j * count[u] + result, value);
        }
      };
      transform_line<ScaledInputTransform>(pixel, put_point, all_points, all_points);
    }
  }

  template <int>
  [[gnu::always_inline]] static void step(const float* taps, long tap, const float* channel, Vector* sum) {
    add_row<0>(taps, tap, channel, sum, all_points);
    add_row<1>(taps, tap, channel, sum, all_points);
    add_row<2>(taps, tap, channel, sum, all_points);
  }
  template <int u, int... j>
  [[gnu::always_inline]] static void add_row(const float* taps, long tap, const float* channel, Vector* sum,
                                             std::integer_sequence<int, j...>) {
    const Vector row[] = {load(taps + 3 * u * tap), load(taps + (3 * u + 1) * tap), load(taps + (3 * u + 2) * tap)};
    (add_products_of<winograd_in>(weight_at_point<j>([&](int column) { return row[column]; }),
                                  channel + before[u] + j * count[u], sum + first[u] * winograd_in + j,
                                  std::make_integer_sequence<int, count[u]>{}),
     ...);
  }

  template <class Get>
  void write(long unit, const Get& get, float* results) const {
    for (int y = 0; y < g.height; ++y) {
      float* const to = results + (unit * g.height + y) * g.width * g.out_channels;
      const auto sum = [&](int j) { return get(0, y * winograd_in + j); };
      const auto put = [&](int j, Vector value) {
        if (j < g.width) store(to + j * g.out_channels, value);
      };
      transform_line<ResultTransform<3>>(sum, put, all_points, all_results);
    }
  }
};

template <int... s>
[[gnu::always_inline]] inline void load_sums(const float* from, Vector* sums, std::integer_sequence<int, s...>) {
  ((sums[s] = load(from + s * vector_width)), ...);
}
template <int... s>
[[gnu::always_inline]] inline void store_sums(float* to, const Vector* sums, std::integer_sequence<int, s...>) {
  (store(to + s * vector_width, sums[s]), ...);
}

/// Packed weights from some channels to one vector of result channels: tap t of channel k lies at
/// taps + t * tap + k * channel. Nine runs from `ahead` on, as far apart, are read next, and fetched meanwhile.
struct FewTilesWeights {
  const float* taps;
  long tap, channel, channels;
  const float* ahead;
};

/// sums [Form::sums] = (or +=) those of a pass over channels; values [channels, Form::values].
template <class Form, int pass>
void multiply_pass(const FewTilesWeights& weights, const float* values, float* sums, bool accumulate) {
  constexpr std::make_integer_sequence<int, Form::sums> all{};
  constexpr int first_tap = 9 * pass / Form::passes, last_tap = 9 * (pass + 1) / Form::passes;
  Vector sum[Form::sums] = {};
  if (accumulate) load_sums(sums, sum, all);
  const float *taps = weights.taps, *ahead = weights.ahead;
  for (long k = 0; k < weights.channels; ++k, taps += weights.channel, ahead += vector_width, values += Form::values) {
    for (int t = first_tap; t < last_tap; ++t) __builtin_prefetch(ahead + t * weights.tap, 0, 2);
    Form::template step<pass>(taps, weights.tap, values, sum);
  }
  store_sums(sums, sum, all);
}

/// Floats of the transformed inputs, [unit, pass, channel, value], and of the sums of one vector of result channels,
/// [unit, pass, sum].
template <class Form>
constexpr long few_tiles_values(const Form& form) {
  return form.units() * Form::passes * form.g.channels * Form::values;
}
template <class Form>
constexpr long few_tiles_sums(const Form& form) {
  return form.units() * Form::passes * Form::sums * vector_width;
}

template <class Form>
float* sums_of(const Form& form, float* sums, long column, long unit) {
  return sums + column / vector_width * few_tiles_sums(form) + unit * Form::passes * Form::sums * vector_width;
}

template <class Form>
void transform_few_tiles(const Form& form, const float* images, long unit, long channel, float* values) {
  alignas(64) float points[Form::passes * Form::values * vector_width];
  form.transform(images + channel, unit, [&](int pass, int value, Vector vector) {
    store(points + (pass * Form::values + value) * vector_width, vector);
  });
  for (long pass = 0; pass < Form::passes; ++pass)
    transpose_vectors(points + pass * Form::values * vector_width, vector_width, Form::values, vector_width,
                      values + ((unit * Form::passes + pass) * form.g.channels + channel) * Form::values, Form::values);
}

/// The sums of all units to one panel of result channels. Weights of a block of channels stay in the second-level cache
/// for its passes, while those that are `next` come there.
template <class Form, int... pass>
void multiply_few_tiles(const Form& form, const float* panel, long width, const float* next, const float* values,
                        float* sums, std::integer_sequence<int, pass...>) {
  constexpr long block = 64;
  const long all = form.g.channels;
  for (long k0 = 0; k0 < all; k0 += block) {
    const long channels = smaller(block, all - k0);
    const float *const from = panel + k0 * width, *const ahead = k0 + block < all ? from + block * width : next;
    for (long v = 0; v < width; v += vector_width) {
      const FewTilesWeights weights{from + v, all * width, width, channels, ahead + v * channels};
      for (long unit = 0; unit < form.units(); ++unit) {
        const float* const own = values + (unit * Form::passes * all + k0) * Form::values;
        float* const to = sums_of(form, sums, v, unit);
        (multiply_pass<Form, pass>(weights, own + pass * all * Form::values, to + pass * Form::sums * vector_width,
                                   k0 > 0),
         ...);
      }
    }
  }
}

template <class Form>
void run_few_tiles(Workers& workers, const Form& form, long batch, const float* input, const float* packed,
                   float* result, Epilogue epilogue) {
  const Conv2dGeometry& g = form.g;
  workers.reserve_scratch(wide_columns / vector_width * few_tiles_sums(form));
  const PanelCut panels(g.out_channels);
  float* const values = workers.workspace(few_tiles_values(form));
  const bool small = static_cast<double>(batch) * g.flops() < inline_flops;
  auto transform = [&](int index, int) {
    transform_few_tiles(form, input, index % form.units(), index / form.units() * vector_width, values);
  };
  run_tasks(workers, g.channels / vector_width * form.units(), small, transform);
  auto multiply = [&](int index, int worker) {
    const long first = panels.first(index), columns = panels.width(index);
    const float* const panel = packed + first * g.taps();
    float* const sums = workers.scratch(worker);
    multiply_few_tiles(form, panel, columns, panel + columns * g.taps(), values, sums,
                       std::make_integer_sequence<int, Form::passes>{});
    for (long v = 0; v < columns; v += vector_width) {
      for (long unit = 0; unit < form.units(); ++unit) {
        const float* const own = sums_of(form, sums, v, unit);
        form.write(
            unit, [&](int pass, int sum) { return load(own + (pass * Form::sums + sum) * vector_width); },
            result + first + v);
      }
    }
    for (long at = first; at < batch * g.result_size(); at += g.out_channels) epilogue(at, at + columns);
  };
  run_tasks(workers, panels.count, small, multiply);
}

}  // namespace detail

/// Which of the two forms multiplies least, in place of the other kernels, if any does; a function of shape and batch.
enum class FewTilesForm { none, lines, tiles };

constexpr FewTilesForm few_tiles_form(const Conv2dGeometry& g, long batch) {
  using namespace detail;
  if (vector_width != 16 || !winograd_takes_channels_last(g)) return FewTilesForm::none;  // 24 sums want 32 registers
  if (g.height <= few_tiles && g.width <= few_tiles && g.padding == 1 && batch <= 2) return FewTilesForm::lines;
  const FewTiles form(g, batch);
  constexpr long products = 36 * few_tiles + 60;  // of a group, with what transforms its weights
  const bool full = form.tiles <= few_tiles || form.tiles == 2 * few_tiles;
  return full && form.units() * products < 9 * batch * g.positions() ? FewTilesForm::tiles : FewTilesForm::none;
}

/// Floats of scratch a worker, and of workspace, for `run_winograd_few_tiles`.
constexpr long scratch_winograd_few_tiles() {
  using namespace detail;
  return 2 * winograd_products * few_tiles * wide_columns;
}
constexpr long workspace_winograd_few_tiles(const Conv2dGeometry& g, long batch) {
  using namespace detail;
  return few_tiles_form(g, batch) == FewTilesForm::lines ? few_tiles_values(FewLines(g, batch))
                                                         : few_tiles_values(FewTiles(g, batch));
}

/// `run_conv2d` with weights packed by `run_pack_weights`, of images with their channels last, where `few_tiles_form`
/// is not none.
inline void run_winograd_few_tiles(Workers& workers, const Conv2dGeometry& g, int batch, const float* input,
                                   const float* packed, float* result, Epilogue epilogue = {}) {
  using namespace detail;
  if (few_tiles_form(g, batch) == FewTilesForm::lines)
    run_few_tiles(workers, FewLines(g, batch), batch, input, packed, result, epilogue);
  else
    run_few_tiles(workers, FewTiles(g, batch), batch, input, packed, result, epilogue);
}

}  // namespace tenet::cpu
