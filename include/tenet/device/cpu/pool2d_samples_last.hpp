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
template <class Range>
void run_lane_planes(Workers& workers, const Pool2dGeometry& g, int batch, long passes, Range&& range) {
  run_ranges(workers, sample_groups(batch) * g.channels, passes * sample_lanes * g.height * g.width, range);
}

/// y = `scale` times the combination of each window.
template <class Operation>
void pool_lanes(Workers& workers, const Pool2dGeometry& g, int batch, const float* x, float scale, float* y,
                Epilogue epilogue) {
  const long height = g.out_height(), width = g.out_width(), row = long{sample_lanes} * g.width;
  const long size = g.height * row, result = sample_lanes * height * width;
  run_lane_planes(workers, g, batch, 2, [&](long first, long last) {
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
inline void run_max_pool2d(Workers& workers, In<Layout::samples_last>, const Pool2dGeometry& g, int batch,
                           const float* x, float* y, Epilogue epilogue = {}) {
  detail::pool_lanes<detail::PoolMaximum>(workers, g, batch, x, 1, y, epilogue);
}

/// As `run_avg_pool2d`, both values in `Layout::samples_last`.
inline void run_avg_pool2d(Workers& workers, In<Layout::samples_last>, const Pool2dGeometry& g, int batch,
                           const float* x, float* y, Epilogue epilogue = {}) {
  detail::pool_lanes<detail::PoolSum>(workers, g, batch, x, detail::mean_scale(g), y, epilogue);
}

/// As `run_max_pool2d_gradient`, all values in `Layout::samples_last`.
inline void run_max_pool2d_gradient(Workers& workers, In<Layout::samples_last>, const Pool2dGeometry& g, int batch,
                                    const float* x, const float* y, const float* dy, float* dx,
                                    Epilogue epilogue = {}) {
  using namespace detail;
  const long height = g.out_height(), width = g.out_width(), row = long{sample_lanes} * g.width;
  const long size = g.height * row, result = sample_lanes * height * width;
  run_lane_planes(workers, g, batch, 4, [&](long first, long last) {
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
inline void run_avg_pool2d_gradient(Workers& workers, In<Layout::samples_last>, const Pool2dGeometry& g, int batch,
                                    const float* dy, float* dx, Epilogue epilogue = {}) {
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

}  // namespace tenet::cpu
