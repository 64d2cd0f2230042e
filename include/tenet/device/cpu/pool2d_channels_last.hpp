#pragma once

#include "tenet/device/cpu/pool2d.hpp"

/// Pooling of images with their channels last: windows of vectors of channels.
namespace tenet::cpu {

/// Whether images that a pooling reads lie so: beside convolutions of that many channels they do (convolution.hpp).
constexpr bool pools_channels_last(const Pool2dGeometry& g) {
  return g.channels > 16 && g.channels % vector_width == 0;
}

template <class Executor, Pool2dGeometry g>
concept PoolsChannelsLast = std::is_base_of_v<Workers, Executor> && pools_channels_last(g);

namespace detail {

/// y = what `Operation` makes of each window, times `scale`. A task is some rows of results.
template <class Operation>
void pool_channels_last(Workers& workers, const Pool2dGeometry& g, int batch, const float* images, float scale,
                        float* result, Epilogue epilogue) {
  const long height = g.out_height(), row = long{1} * g.out_width() * g.channels;
  run_ranges(workers, batch * height, 2 * long{1} * g.stride * g.width * g.channels, [&](long first, long last) {
    for (long r = first; r < last; ++r) {
      const float* const image = images + r / height * g.input_size();
      float* to = result + r * row;
      for (int j = 0; j < g.out_width(); ++j, to += g.channels) {
        const PoolWindow window(g, static_cast<int>(r % height), j);
        for (long c = 0; c < g.channels; c += vector_width) {
          Vector value = broadcast<Vector>(Operation::start);
          window.for_each(g, g.channels,
                          [&](long pixel) { value = Operation::combine(value, load(image + pixel + c)); });
          store(to + c, value * scale);
        }
      }
    }
    epilogue(first * row, last * row);
  });
}

/// Calls add(window, at, from, to) for the windows of each sample and each vector of channels: `at` is the sample's
/// first pixel in the image, `to` the same in its gradient, zero before; `from` the window in the result. Windows may
/// overlap, so a task is a sample.
template <class Add>
void spread_channels_last(Workers& workers, const Pool2dGeometry& g, int batch, float* gradients, Epilogue epilogue,
                          const Add& add) {
  const long size = g.input_size();
  run_tasks(workers, batch, static_cast<double>(batch * size) < inline_elements, [&](int n, int) {
    float* const gradient = gradients + n * size;
    fill_floats(gradient, 0, size);
    long pixel = n * g.result_size();
    for (int i = 0; i < g.out_height(); ++i)
      for (int j = 0; j < g.out_width(); ++j, pixel += g.channels) {
        const PoolWindow window(g, i, j);
        for (long c = 0; c < g.channels; c += vector_width) add(window, n * size + c, pixel + c, gradient + c);
      }
    epilogue(n * size, (n + 1) * size);
  });
}

}  // namespace detail

template <class Executor, Pool2dGeometry g>
  requires PoolsChannelsLast<Executor, g>
void run_max_pool2d(Executor& workers, ImagesChannelsLast, Known<g>, int batch, const float* x, float* y,
                    Epilogue epilogue = {}) {
  detail::pool_channels_last<detail::PoolMaximum>(workers, g, batch, x, 1, y, epilogue);
}

template <class Executor, Pool2dGeometry g>
  requires PoolsChannelsLast<Executor, g>
void run_avg_pool2d(Executor& workers, ImagesChannelsLast, Known<g>, int batch, const float* x, float* y,
                    Epilogue epilogue = {}) {
  detail::pool_channels_last<detail::PoolSum>(workers, g, batch, x, detail::mean_scale(g), y, epilogue);
}

template <class Executor, Pool2dGeometry g>
  requires PoolsChannelsLast<Executor, g>
void run_avg_pool2d_gradient(Executor& workers, ImagesChannelsLast, Known<g>, int batch, const float* dy, float* dx,
                             Epilogue epilogue = {}) {
  using namespace detail;
  const float scale = mean_scale(g);
  spread_channels_last(workers, g, batch, dx, epilogue, [&](const PoolWindow& window, long, long from, float* to) {
    const Vector share = load(dy + from) * scale;
    window.for_each(g, g.channels, [&](long pixel) { store(to + pixel, load(to + pixel) + share); });
  });
}

inline void run_max_pool2d_gradient(Workers& workers, ImagesChannelsLast, const Pool2dGeometry& g, int batch,
                                    const float* x, const float* y, const float* dy, float* dx,
                                    Epilogue epilogue = {}) {
  using namespace detail;
  spread_channels_last(workers, g, batch, dx, epilogue, [&](const PoolWindow& window, long at, long from, float* to) {
    const Vector largest = load(y + from);
    Vector rest = load(dy + from);  // of the lanes whose first largest element was not met yet
    window.for_each(g, g.channels, [&](long pixel) {
      const Vector value = load(x + at + pixel);
      const VectorMask wins = (value == largest) | ((largest != largest) & (value != value));
      store(to + pixel, load(to + pixel) + select(wins, rest, zero_lanes()));
      rest = select(wins, zero_lanes(), rest);
    });
  });
}

}  // namespace tenet::cpu
