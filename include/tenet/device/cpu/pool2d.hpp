#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/core/vector.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

namespace tenet::cpu {

namespace detail {

struct PoolMaximum {
  static constexpr float start = -__builtin_inff();
  template <class T>
  static T combine(T a, T b) {
    return maximum(a, b);
  }
};

struct PoolSum {
  static constexpr float start = 0;
  template <class T>
  static T combine(T a, T b) {
    return a + b;
  }
};

/// Pools one plane: for each result row first down the columns of its windows, in vectors, then along the row.
template <class Operation>
void pool_plane(const Pool2dGeometry& g, const float* x, float scale, float* y) {
  constexpr int buffer_size = 512;
  float buffer[buffer_size + vector_width];
  const int height = g.out_height(), width = g.out_width();
  for (int i = 0; i < height; ++i, y += width) {
    const int top = i * g.stride - g.padding;
    const int y0 = top > 0 ? top : 0, y1 = top + g.kernel < g.height ? top + g.kernel : g.height;
    for (int j = 0; j < width;) {
      // Windows [j, end) lie within the input columns [x0, x1), as many as the buffer holds.
      const int left = j * g.stride - g.padding, x0 = left > 0 ? left : 0;
      int end = j + 1;
      while (end < width && end * g.stride - g.padding + g.kernel - x0 <= buffer_size) ++end;
      const int right = (end - 1) * g.stride - g.padding + g.kernel, x1 = right < g.width ? right : g.width;
      if (x1 - x0 <= buffer_size) {
        for (int c = x0; c < x1; c += vector_width) {
          const int lanes = x1 - c < vector_width ? x1 - c : vector_width;
          Vector value = broadcast<Vector>(Operation::start);
          for (int r = y0; r < y1; ++r) {
            const float* from = x + long{r} * g.width + c;
            value = Operation::combine(value, lanes == vector_width ? load(from) : load_partial(from, lanes));
          }
          store(buffer + (c - x0), value);
        }
      }
      for (; j < end; ++j) {
        const int first = j * g.stride - g.padding, last = first + g.kernel;
        float value = Operation::start;
        for (int c = first > 0 ? first : 0; c < last && c < g.width; ++c) {
          if (x1 - x0 <= buffer_size) {
            value = Operation::combine(value, buffer[c - x0]);
          } else {  // one window wider than the buffer
            for (int r = y0; r < y1; ++r) value = Operation::combine(value, x[long{r} * g.width + c]);
          }
        }
        y[j] = value * scale;
      }
    }
  }
}

}  // namespace detail

/// y = the largest element of each window (padding never wins); NaN if the window holds one.
inline void run_max_pool2d(Workers& workers, const Pool2dGeometry& g, int batch, const float* x, float* y,
                           Epilogue epilogue = {}) {
  const long size = long{1} * g.height * g.width, result = long{1} * g.out_height() * g.out_width();
  detail::run_ranges(workers, long{batch} * g.channels, 2 * size, [&](long first, long last) {
    for (long p = first; p < last; ++p) detail::pool_plane<detail::PoolMaximum>(g, x + p * size, 1, y + p * result);
    epilogue(first * result, last * result);
  });
}

/// y = the sum of each window divided by kernel * kernel: padding counts as zeros.
inline void run_avg_pool2d(Workers& workers, const Pool2dGeometry& g, int batch, const float* x, float* y,
                           Epilogue epilogue = {}) {
  const long size = long{1} * g.height * g.width, result = long{1} * g.out_height() * g.out_width();
  const float scale = 1.0f / static_cast<float>(g.kernel * g.kernel);
  detail::run_ranges(workers, long{batch} * g.channels, 2 * size, [&](long first, long last) {
    for (long p = first; p < last; ++p) detail::pool_plane<detail::PoolSum>(g, x + p * size, scale, y + p * result);
    epilogue(first * result, last * result);
  });
}

/// dx: each dy goes to the first element in row-major order, in its window, that equals y (NaN equals NaN here).
inline void run_max_pool2d_gradient(Workers& workers, const Pool2dGeometry& g, int batch, const float* x,
                                    const float* y, const float* dy, float* dx, Epilogue epilogue = {}) {
  const long size = long{1} * g.height * g.width;
  const int height = g.out_height(), width = g.out_width();
  detail::run_ranges(workers, long{batch} * g.channels, 4 * size, [&](long first, long last) {
    detail::fill_floats(dx + first * size, 0, (last - first) * size);
    for (long p = first; p < last; ++p) {
      const float* plane = x + p * size;
      float* gradient = dx + p * size;
      long r = p * height * width;
      for (int i = 0; i < height; ++i) {
        const int top = i * g.stride - g.padding;
        const int y0 = top > 0 ? top : 0, y1 = top + g.kernel < g.height ? top + g.kernel : g.height;
        for (int j = 0; j < width; ++j, ++r) {
          const int left = j * g.stride - g.padding;
          const int x0 = left > 0 ? left : 0, x1 = left + g.kernel < g.width ? left + g.kernel : g.width;
          const bool nan = y[r] != y[r];
          float rest = dy[r];  // without branches on the data: which element wins is unpredictable
          for (int u = y0; u < y1; ++u) {
            for (int v = x0; v < x1; ++v) {
              const long at = long{u} * g.width + v;
              const bool wins = (plane[at] == y[r]) | (nan & (plane[at] != plane[at]));
              gradient[at] += wins ? rest : 0.0f;
              rest = wins ? 0.0f : rest;
            }
          }
        }
      }
    }
    epilogue(first * size, last * size);
  });
}

/// The gradient of `run_avg_pool2d`.
inline void run_avg_pool2d_gradient(Workers& workers, const Pool2dGeometry& g, int batch, const float* dy, float* dx,
                                    Epilogue epilogue = {}) {
  const long size = long{1} * g.height * g.width;
  const int height = g.out_height(), width = g.out_width();
  const float scale = 1.0f / static_cast<float>(g.kernel * g.kernel);
  detail::run_ranges(workers, long{batch} * g.channels, 4 * size, [&](long first, long last) {
    detail::fill_floats(dx + first * size, 0, (last - first) * size);
    for (long p = first; p < last; ++p) {
      float* gradient = dx + p * size;
      const float* from = dy + p * height * width;
      for (int i = 0; i < height; ++i) {
        const int top = i * g.stride - g.padding;
        const int y0 = top > 0 ? top : 0, y1 = top + g.kernel < g.height ? top + g.kernel : g.height;
        for (int j = 0; j < width; ++j) {
          const int left = j * g.stride - g.padding;
          const int x0 = left > 0 ? left : 0, x1 = left + g.kernel < g.width ? left + g.kernel : g.width;
          const float share = *from++ * scale;
          for (int u = y0; u < y1; ++u) {
            for (int v = x0; v < x1; ++v) gradient[long{u} * g.width + v] += share;
          }
        }
      }
    }
    epilogue(first * size, last * size);
  });
}

}  // namespace tenet::cpu
