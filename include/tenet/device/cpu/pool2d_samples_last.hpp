#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/core/layout.hpp"
#include "tenet/device/cpu/pool2d.hpp"
#include "tenet/device/cpu/samples_last.hpp"

/// Pooling with samples in the vector lanes: each position is a row of 16 floats, so nothing is moved between lanes.
namespace tenet::cpu {

namespace detail {

/// The part of a window that lies inside the image, [first, last) of its rows or columns.
struct Window {
  long first, last;
  Window(const Pool2dGeometry& g, long index, long size) {
    const long begin = index * g.stride - g.padding;
    first = begin > 0 ? begin : 0;
    last = smaller(begin + g.kernel, size);
  }
};

/// Calls range(first, last) for the planes of all groups of samples, in pieces.
inline void run_lane_planes(Workers& workers, const Pool2dGeometry& g, int batch, long passes,
                            const RangeReference& range) {
  run_ranges(workers, sample_groups(batch) * g.channels, passes * sample_lanes * g.height * g.width, range);
}

/// Whether windows of 2 x 2 lie side by side, as most do: they have loops of their own, without a border.
constexpr bool are_pairs(const Pool2dGeometry& g) { return g.kernel == 2 && g.stride == 2 && g.padding == 0; }

/// Where the elements of a window of 2 x 2 are, and where its result, for a vector of a row of samples.
struct PairWindow {
  long elements[4], result;
};

/// Calls visit(PairWindow) for the windows of planes [first_plane, last_plane) and each vector of a row of samples.
template <class Visit>
[[gnu::always_inline]] inline void for_each_pair(const Pool2dGeometry& g, long first_plane, long last_plane,
                                                 const Visit& visit) {
  const long height = g.out_height(), width = g.out_width(), row = long{sample_lanes} * g.width;
  long to = first_plane * sample_lanes * height * width;
  for (long plane = first_plane; plane < last_plane; ++plane)
    for (long i = 0; i < height; ++i) {
      long from = plane * g.height * row + 2 * i * row;
      for (long j = 0; j < width; ++j, from += sample_lanes)
        for (int part = 0; part < lane_parts; ++part, from += vector_width, to += vector_width)
          visit(PairWindow{{from, from + sample_lanes, from + row, from + row + sample_lanes}, to});
    }
}

/// Sets what no window of 2 x 2 meets to zero: a last row, a last column.
inline void clear_odd_border(const Pool2dGeometry& g, float* plane) {
  const long row = long{sample_lanes} * g.width;
  if (g.height % 2 != 0) fill_floats(plane + (g.height - 1) * row, 0, row);
  for (long y = 0; g.width % 2 != 0 && y < g.height; ++y)
    fill_floats(plane + (y + 1) * row - sample_lanes, 0, sample_lanes);
}

/// y = `scale` times the combination of each window.
template <class Operation>
void pool_lanes(Workers& workers, const Pool2dGeometry& g, int batch, const float* x, float scale, float* y,
                Epilogue epilogue) {
  const long height = g.out_height(), width = g.out_width(), row = long{sample_lanes} * g.width;
  const long size = g.height * row, result = sample_lanes * height * width;
  run_lane_planes(workers, g, batch, 2, [&](long first, long last) {
    if (are_pairs(g)) {
      for_each_pair(g, first, last, [&](const PairWindow& window) {
        Vector value = broadcast<Vector>(Operation::start);
        for (const long at : window.elements) value = Operation::combine(value, load(x + at));
        store(y + window.result, value * scale);
      });
      return epilogue(first * result, last * result);
    }
    float* to = y + first * result;
    for (const float* plane = x + first * size; plane < x + last * size; plane += size) {
      for (long i = 0; i < height; ++i) {
        const Window rows(g, i, g.height);
        for (long j = 0; j < width; ++j) {
          const Window columns(g, j, g.width);
          for (long part = 0; part < sample_lanes; part += vector_width, to += vector_width) {
            Vector value = broadcast<Vector>(Operation::start);
            for (long u = rows.first; u < rows.last; ++u) {
              const float* from = plane + u * row + part;
              for (long v = columns.first; v < columns.last; ++v) {
                value = Operation::combine(value, load(from + v * sample_lanes));
              }
            }
            store(to, value * scale);
          }
        }
      }
    }
    epilogue(first * result, last * result);
  });
}

}  // namespace detail

/// As `run_max_pool2d`, both values in `Layout::samples_last`.
inline void run_max_pool2d_samples_last(Workers& workers, const Pool2dGeometry& g, int batch, const float* x, float* y,
                                        Epilogue epilogue = {}) {
  detail::pool_lanes<detail::PoolMaximum>(workers, g, batch, x, 1, y, epilogue);
}

/// As `run_avg_pool2d`, both values in `Layout::samples_last`.
inline void run_avg_pool2d_samples_last(Workers& workers, const Pool2dGeometry& g, int batch, const float* x, float* y,
                                        Epilogue epilogue = {}) {
  detail::pool_lanes<detail::PoolSum>(workers, g, batch, x, detail::mean_scale(g), y, epilogue);
}

/// As `run_max_pool2d_gradient`, all values in `Layout::samples_last`.
inline void run_max_pool2d_gradient_samples_last(Workers& workers, const Pool2dGeometry& g, int batch, const float* x,
                                                 const float* y, const float* dy, float* dx, Epilogue epilogue = {}) {
  using namespace detail;
  const long height = g.out_height(), width = g.out_width(), row = long{sample_lanes} * g.width;
  const long size = g.height * row, result = sample_lanes * height * width;
  run_lane_planes(workers, g, batch, 4, [&](long first, long last) {
    if (are_pairs(g)) {
      for (long p = first; p < last; ++p) clear_odd_border(g, dx + p * size);
      for_each_pair(g, first, last, [&](const PairWindow& window) {
        const Vector largest = load(y + window.result);
        const VectorMask nan = largest != largest;
        Vector rest = load(dy + window.result);
        for (const long at : window.elements) {
          const Vector value = load(x + at);
          const VectorMask wins = (value == largest) | (nan & (value != value));
          store(dx + at, select(wins, rest, zero_lanes()));
          rest = select(wins, zero_lanes(), rest);
        }
      });
      return epilogue(first * size, last * size);
    }
    for (long p = first; p < last; ++p) {
      const float* plane = x + p * size;
      float* gradient = dx + p * size;
      fill_floats(gradient, 0, size);
      long r = p * result;
      for (long i = 0; i < height; ++i) {
        const Window rows(g, i, g.height);
        for (long j = 0; j < width; ++j) {
          const Window columns(g, j, g.width);
          for (long part = 0; part < sample_lanes; part += vector_width, r += vector_width) {
            const Vector largest = load(y + r);
            const VectorMask nan = largest != largest;
            Vector rest = load(dy + r);
            for (long u = rows.first; u < rows.last; ++u) {
              for (long v = columns.first; v < columns.last; ++v) {
                const long at = u * row + v * sample_lanes + part;
                const Vector value = load(plane + at);
                const VectorMask wins = (value == largest) | (nan & (value != value));
                store(gradient + at, load(gradient + at) + select(wins, rest, zero_lanes()));
                rest = select(wins, zero_lanes(), rest);
              }
            }
          }
        }
      }
    }
    epilogue(first * size, last * size);
  });
}

/// As `run_avg_pool2d_gradient`, both gradients in `Layout::samples_last`.
inline void run_avg_pool2d_gradient_samples_last(Workers& workers, const Pool2dGeometry& g, int batch, const float* dy,
                                                 float* dx, Epilogue epilogue = {}) {
  using namespace detail;
  const long height = g.out_height(), width = g.out_width(), row = long{sample_lanes} * g.width;
  const long size = g.height * row, result = sample_lanes * height * width;
  const float scale = mean_scale(g);
  // The windows [first, last) that hold row or column `at`; they move on by at most one from one to the next.
  struct Windows {
    long first = 0, last = 0;
    void advance(const Pool2dGeometry& geometry, long at, long count) {
      while (last < count && last * geometry.stride <= at + geometry.padding) ++last;
      while (first < last && first * geometry.stride + geometry.kernel <= at + geometry.padding) ++first;
    }
  };
  run_lane_planes(workers, g, batch, 2, [&](long first, long last) {
    if (are_pairs(g)) {
      for (long p = first; p < last; ++p) clear_odd_border(g, dx + p * size);
      for_each_pair(g, first, last, [&](const PairWindow& window) {
        const Vector value = load(dy + window.result) * scale;
        for (const long at : window.elements) store(dx + at, value);
      });
      return epilogue(first * size, last * size);
    }
    float* to = dx + first * size;
    for (const float* plane = dy + first * result; plane < dy + last * result; plane += result) {
      Windows rows;
      for (long y = 0; y < g.height; ++y) {
        rows.advance(g, y, height);
        Windows columns;
        for (long x = 0; x < g.width; ++x) {
          columns.advance(g, x, width);
          for (long part = 0; part < sample_lanes; part += vector_width, to += vector_width) {
            Vector sum = zero_lanes();
            for (long i = rows.first; i < rows.last; ++i) {
              for (long j = columns.first; j < columns.last; ++j) {
                sum += load(plane + (i * width + j) * sample_lanes + part);
              }
            }
            store(to, sum * scale);
          }
        }
      }
    }
    epilogue(first * size, last * size);
  });
}

// In programs, where a batch that is too small for lanes has the kernels of the order of types.

/// Whether images that a pooling reads lie so: beside convolutions of so few channels they do.
constexpr bool pools_samples_last(const Pool2dGeometry& g) { return g.channels <= 16; }

template <class Executor, Pool2dGeometry g>
concept PoolsSamplesLast = std::is_base_of_v<Workers, Executor> && pools_samples_last(g);

template <class Executor, Pool2dGeometry g>
  requires PoolsSamplesLast<Executor, g>
void run_max_pool2d(Executor& workers, SamplesLast, Known<g>, int batch, const float* x, float* y,
                    Epilogue epilogue = {}) {
  if (lies_in_lanes(batch))
    run_max_pool2d_samples_last(workers, g, batch, x, y, epilogue);
  else
    run_max_pool2d(workers, Known<g>{}, batch, x, y, epilogue);
}

template <class Executor, Pool2dGeometry g>
  requires PoolsSamplesLast<Executor, g>
void run_avg_pool2d(Executor& workers, SamplesLast, Known<g>, int batch, const float* x, float* y,
                    Epilogue epilogue = {}) {
  if (lies_in_lanes(batch))
    run_avg_pool2d_samples_last(workers, g, batch, x, y, epilogue);
  else
    run_avg_pool2d(workers, Known<g>{}, batch, x, y, epilogue);
}

template <Pool2dGeometry g>
void run_max_pool2d_gradient(Workers& workers, SamplesLast, Known<g>, int batch, const float* x, const float* y,
                             const float* dy, float* dx, Epilogue epilogue = {}) {
  if (lies_in_lanes(batch))
    run_max_pool2d_gradient_samples_last(workers, g, batch, x, y, dy, dx, epilogue);
  else
    run_max_pool2d_gradient(workers, g, batch, x, y, dy, dx, epilogue);
}

template <Pool2dGeometry g>
void run_avg_pool2d_gradient(Workers& workers, SamplesLast, Known<g>, int batch, const float* dy, float* dx,
                             Epilogue epilogue = {}) {
  if (lies_in_lanes(batch))
    run_avg_pool2d_gradient_samples_last(workers, g, batch, dy, dx, epilogue);
  else
    run_avg_pool2d_gradient(workers, Known<g>{}, batch, dy, dx, epilogue);
}

}  // namespace tenet::cpu
