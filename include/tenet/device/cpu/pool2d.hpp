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

/// Up to `vector_width` floats; what lies behind is not touched.
inline Vector load_some(const float* from, long count) {
  return count >= vector_width ? load(from) : load_partial(from, static_cast<int>(count > 0 ? count : 0));
}
inline void store_some(float* to, Vector value, long count) {
  if (count >= vector_width)
    store(to, value);
  else if (count > 0)
    store_partial(to, value, static_cast<int>(count));
}

/// Of the 2 * vector_width floats in a and b those at even and at odd places; and the way back, each float twice. The
/// indices are written out, as nvcc takes no packs of them.
#if defined(__AVX512F__)
inline Vector even_places(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
inline Vector odd_places(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
inline Vector lower_twice(Vector a) {
  return __builtin_shufflevector(a, a, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
}
inline Vector upper_twice(Vector a) {
  return __builtin_shufflevector(a, a, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15);
}
#elif defined(__AVX__)
inline Vector even_places(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14); }
inline Vector odd_places(Vector a, Vector b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15); }
inline Vector lower_twice(Vector a) { return __builtin_shufflevector(a, a, 0, 0, 1, 1, 2, 2, 3, 3); }
inline Vector upper_twice(Vector a) { return __builtin_shufflevector(a, a, 4, 4, 5, 5, 6, 6, 7, 7); }
#else
inline Vector even_places(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6); }
inline Vector odd_places(Vector a, Vector b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7); }
inline Vector lower_twice(Vector a) { return __builtin_shufflevector(a, a, 0, 0, 1, 1); }
inline Vector upper_twice(Vector a) { return __builtin_shufflevector(a, a, 2, 2, 3, 3); }
#endif

/// Windows of 2 x 2 that do not overlap, the commonest pooling, have loops of their own.
constexpr bool pools_pairs(const Pool2dGeometry& g) { return g.kernel == 2 && g.stride == 2 && g.padding == 0; }

template <class Operation>
void pool_pairs(const Pool2dGeometry& g, const float* x, float scale, float* y) {
  const long height = g.out_height(), width = g.out_width();
  for (long i = 0; i < height; ++i, x += 2 * g.width, y += width) {
    const auto columns = [&](long c) {
      return Operation::combine(load_some(x + c, 2 * width - c), load_some(x + g.width + c, 2 * width - c));
    };
    for (long j = 0; j < width; j += vector_width) {
      const Vector a = columns(2 * j),
                   b = 2 * j + vector_width < 2 * width ? columns(2 * j + vector_width) : zero_lanes();
      store_some(y + j, scale * Operation::combine(even_places(a, b), odd_places(a, b)), width - j);
    }
  }
}

/// The way back of the mean: every element of a window gets `scale` times the window's gradient.
inline void spread_pairs(const Pool2dGeometry& g, const float* from, float scale, float* to) {
  const long height = g.out_height(), width = g.out_width();
  for (long i = 0; i < height; ++i, from += width, to += 2 * g.width) {
    for (long j = 0; j < width; j += vector_width) {
      const Vector share = scale * load_some(from + j, width - j);
      for (const long c : {2 * j, 2 * j + vector_width}) {
        const Vector pairs = c > 2 * j ? upper_twice(share) : lower_twice(share);
        store_some(to + c, pairs, 2 * width - c);
        store_some(to + g.width + c, pairs, 2 * width - c);
      }
    }
    if (g.width % 2 != 0) to[g.width - 1] = to[2 * g.width - 1] = 0;
  }
  if (g.height % 2 != 0) fill_floats(to, 0, g.width);
}

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

/// What pools one plane.
using PoolPlane = void (*)(const Pool2dGeometry&, const float* x, float scale, float* y);

template <class Operation>
constexpr PoolPlane pool_plane_for(const Pool2dGeometry& g) {
  return pools_pairs(g) ? &pool_pairs<Operation> : &pool_plane<Operation>;
}

inline void run_pool2d(Workers& workers, const Pool2dGeometry& g, int batch, const float* x, float scale, float* y,
                       Epilogue epilogue, PoolPlane plane) {
  const long size = long{1} * g.height * g.width, result = long{1} * g.out_height() * g.out_width();
  run_ranges(workers, long{batch} * g.channels, 2 * size, [&](long first, long last) {
    for (long p = first; p < last; ++p) plane(g, x + p * size, scale, y + p * result);
    epilogue(first * result, last * result);
  });
}

constexpr float mean_scale(const Pool2dGeometry& g) { return 1.0f / static_cast<float>(g.kernel * g.kernel); }

/// The part of the window (i, j) that lies in the image: rows [y0, y1), columns [x0, x1).
struct PoolWindow {
  int y0, y1, x0, x1;

  PoolWindow(const Pool2dGeometry& g, int i, int j) {
    const int top = i * g.stride - g.padding, left = j * g.stride - g.padding;
    y0 = top > 0 ? top : 0, y1 = top + g.kernel < g.height ? top + g.kernel : g.height;
    x0 = left > 0 ? left : 0, x1 = left + g.kernel < g.width ? left + g.kernel : g.width;
  }
  /// Calls at(index) for the pixels of the window in row-major order; pixels are `pixel` floats apart.
  template <class At>
  [[gnu::always_inline]] void for_each(const Pool2dGeometry& g, long pixel, const At& at) const {
    for (int y = y0; y < y1; ++y)
      for (int x = x0; x < x1; ++x) at((long{y} * g.width + x) * pixel);
  }
};

/// The gradient of one plane by the mean: every element gets its share of each window that it lies in.
inline void spread_plane(const Pool2dGeometry& g, const float* from, float scale, float* to) {
  fill_floats(to, 0, long{1} * g.height * g.width);
  for (int i = 0; i < g.out_height(); ++i) {
    for (int j = 0; j < g.out_width(); ++j) {
      const float share = *from++ * scale;
      PoolWindow(g, i, j).for_each(g, 1, [&](long at) { to[at] += share; });
    }
  }
}

constexpr PoolPlane spread_plane_for(const Pool2dGeometry& g) { return pools_pairs(g) ? &spread_pairs : &spread_plane; }

inline void run_pool2d_gradient(Workers& workers, const Pool2dGeometry& g, int batch, const float* dy, float* dx,
                                Epilogue epilogue, PoolPlane plane) {
  const long size = long{1} * g.height * g.width, result = long{1} * g.out_height() * g.out_width();
  run_ranges(workers, long{batch} * g.channels, 2 * size, [&](long first, long last) {
    for (long p = first; p < last; ++p) plane(g, dy + p * result, mean_scale(g), dx + p * size);
    epilogue(first * size, last * size);
  });
}

}  // namespace detail

/// y = the largest element of each window (padding never wins); NaN if the window holds one.
template <Pool2dGeometry g>
void run_max_pool2d(Workers& workers, Known<g>, int batch, const float* x, float* y, Epilogue epilogue = {}) {
  constexpr detail::PoolPlane plane = detail::pool_plane_for<detail::PoolMaximum>(g);
  detail::run_pool2d(workers, g, batch, x, 1, y, epilogue, plane);
}

/// y = the sum of each window divided by kernel * kernel: padding counts as zeros.
template <Pool2dGeometry g>
void run_avg_pool2d(Workers& workers, Known<g>, int batch, const float* x, float* y, Epilogue epilogue = {}) {
  constexpr detail::PoolPlane plane = detail::pool_plane_for<detail::PoolSum>(g);
  detail::run_pool2d(workers, g, batch, x, detail::mean_scale(g), y, epilogue, plane);
}

/// The gradient of `run_avg_pool2d`.
template <Pool2dGeometry g>
void run_avg_pool2d_gradient(Workers& workers, Known<g>, int batch, const float* dy, float* dx,
                             Epilogue epilogue = {}) {
  constexpr detail::PoolPlane plane = detail::spread_plane_for(g);
  detail::run_pool2d_gradient(workers, g, batch, dy, dx, epilogue, plane);
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
        for (int j = 0; j < width; ++j, ++r) {
          const bool nan = y[r] != y[r];
          float rest = dy[r];  // without branches on the data: which element wins is unpredictable
          detail::PoolWindow(g, i, j).for_each(g, 1, [&](long at) {
            const bool wins = (plane[at] == y[r]) | (nan & (plane[at] != plane[at]));
            gradient[at] += wins ? rest : 0.0f;
            rest = wins ? 0.0f : rest;
          });
        }
      }
    }
    epilogue(first * size, last * size);
  });
}

}  // namespace tenet::cpu
