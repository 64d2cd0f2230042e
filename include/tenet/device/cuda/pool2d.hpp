#pragma once

#include <tenet/core/geometry.hpp>
#include <tenet/device/cuda/index.hpp>
#include <tenet/device/cuda/team.hpp>
#include <tenet/device/epilogue.hpp>

/// Pooling of images with channels last: small windows have one thread each, large ones a team. Gradients are gathered:
/// each element of the input goes over the windows that hold it, in their order.
namespace tenet::gpu {

namespace detail {

/// Indices from `first` to before `last`.
struct Span {
  int first, last;
};

/// Element `index` of [images, height, width, channels].
struct ImageElement {
  long image;
  int y, x, channel;

  TENET_HOST_DEVICE ImageElement(long index, const Divisor& height, const Divisor& width, const Divisor& channels) {
    const Divided pixel = divided(index, channels), row = divided(pixel.quotient, width),
                  of_image = divided(row.quotient, height);
    image = of_image.quotient, y = static_cast<int>(of_image.rest), x = static_cast<int>(row.rest);
    channel = static_cast<int>(pixel.rest);
  }
};

/// Where windows and elements meet; along one of the two dimensions where no other is named.
struct Windows {
  Pool2dGeometry g;
  int out_height, out_width;
  Divisor by_channels, by_height, by_width, by_out_height, by_out_width;

  explicit Windows(const Pool2dGeometry& given)
      : g(given),
        out_height(given.out_height()),
        out_width(given.out_width()),
        by_channels(g.channels),
        by_height(g.height),
        by_width(g.width),
        by_out_height(out_height),
        by_out_width(out_width) {}

  TENET_HOST_DEVICE ImageElement window_at(long index) const {
    return {index, by_out_height, by_out_width, by_channels};
  }
  TENET_HOST_DEVICE ImageElement element_at(long index) const { return {index, by_height, by_width, by_channels}; }
  /// The element, or the window, at (y, x) of the image and channel of another.
  TENET_HOST_DEVICE long element(const ImageElement& of, int y, int x) const {
    return ((of.image * g.height + y) * g.width + x) * g.channels + of.channel;
  }
  TENET_HOST_DEVICE long window(const ImageElement& of, int y, int x) const {
    return ((of.image * out_height + y) * out_width + x) * g.channels + of.channel;
  }
  /// The elements of a window, without padding.
  TENET_HOST_DEVICE Span elements(int window, int size) const {
    const int first = window * g.stride - g.padding, last = first + g.kernel;
    return {first > 0 ? first : 0, last < size ? last : size};
  }
  /// The windows that hold an element.
  TENET_HOST_DEVICE Span holding(int element, int windows) const {
    const int behind = element + g.padding - g.kernel, last = (element + g.padding) / g.stride + 1;
    return {behind < 0 ? 0 : behind / g.stride + 1, last < windows ? last : windows};
  }
};

/// The largest element of a window, padding never is; NaN if the window holds one.
struct Largest {
  static constexpr float initial = -__builtin_inff();
  static TENET_HOST_DEVICE float of(float a, float b) { return b > a || b != b ? b : a; }
  template <class Members>
  static TENET_HOST_DEVICE float of_team(const Members& team, float value, int) {
    return team.largest(value);
  }
};

/// The sum of a window divided by all of its elements.
struct Average {
  static constexpr float initial = 0;
  static TENET_HOST_DEVICE float of(float a, float b) { return a + b; }
  template <class Members>
  static TENET_HOST_DEVICE float of_team(const Members& team, float value, int kernel) {
    return team.sum(value) / static_cast<float>(kernel * kernel);
  }
};

template <class Kind>
struct Pool : Windows {
  const float* x;
  float* y;

  Pool(const Pool2dGeometry& geometry, const float* from, float* to) : Windows(geometry), x(from), y(to) {}

  /// A window by a team.
  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long r) const {
    const ImageElement at = window_at(r);
    const Span rows = elements(at.y, g.height), columns = elements(at.x, g.width);
    const int width = columns.last - columns.first, size = (rows.last - rows.first) * width;
    float value = Kind::initial;
    for (int e = team.rank(); e < size; e += Members::size)
      value = Kind::of(value, x[element(at, rows.first + e / width, columns.first + e % width)]);
    value = Kind::of_team(team, value, g.kernel);
    if (team.rank() == 0) y[r] = value;
  }
  /// A window by one thread.
  TENET_HOST_DEVICE void operator()(long r) const {
    const ImageElement at = window_at(r);
    const Span rows = elements(at.y, g.height), columns = elements(at.x, g.width);
    float value = Kind::initial;
    for (int v = rows.first; v < rows.last; ++v)
      for (int u = columns.first; u < columns.last; ++u) value = Kind::of(value, x[element(at, v, u)]);
    y[r] = Kind::of_team(Alone{}, value, g.kernel);
  }
};

template <class Kind, class Executor>
void run_pool(Executor& executor, const Pool2dGeometry& g, int batch, const float* x, float* y, Epilogue epilogue) {
  constexpr int most_of_thread = 64;  // elements of a window
  const long size = batch * g.result_size();
  const Pool<Kind> work(g, x, y);
  if (g.kernel * g.kernel <= most_of_thread)
    for_each(executor, size, work);
  else
    for_each_row(executor, size, long{g.kernel} * g.kernel, work);
  epilogue(0, size);
}

struct MaxPoolGradient : Windows {
  const float *x, *y, *dy;
  float* dx;

  MaxPoolGradient(const Pool2dGeometry& geometry, const float* from, const float* to, const float* upstream,
                  float* gradient)
      : Windows(geometry), x(from), y(to), dy(upstream), dx(gradient) {}

  /// NaN equals NaN here.
  static TENET_HOST_DEVICE bool same(float a, float b) { return a == b || (a != a && b != b); }

  /// Whether a window that begins in `rows` and `columns` holds `value` before an element.
  TENET_HOST_DEVICE bool holds_before(const ImageElement& at, Span rows, Span columns, float value) const {
    for (int v = rows.first; v <= at.y; ++v) {
      const int end = v < at.y ? columns.last : at.x;
      for (int u = columns.first; u < end; ++u)
        if (same(x[element(at, v, u)], value)) return true;
    }
    return false;
  }

  TENET_HOST_DEVICE void operator()(long i) const {
    const ImageElement at = element_at(i);
    const Span down = holding(at.y, out_height), across = holding(at.x, out_width);
    const float here = x[i];
    float sum = 0;
    for (int v = down.first; v < down.last; ++v)
      for (int u = across.first; u < across.last; ++u) {
        const long index = window(at, v, u);
        if (same(here, y[index]) && !holds_before(at, elements(v, g.height), elements(u, g.width), here))
          sum += dy[index];
      }
    dx[i] = sum;
  }
};

struct AvgPoolGradient : Windows {
  const float* dy;
  float* dx;

  AvgPoolGradient(const Pool2dGeometry& geometry, const float* upstream, float* gradient)
      : Windows(geometry), dy(upstream), dx(gradient) {}

  TENET_HOST_DEVICE void operator()(long i) const {
    const ImageElement at = element_at(i);
    const Span down = holding(at.y, out_height), across = holding(at.x, out_width);
    float sum = 0;
    for (int v = down.first; v < down.last; ++v)
      for (int u = across.first; u < across.last; ++u) sum += dy[window(at, v, u)];
    dx[i] = sum / static_cast<float>(g.kernel * g.kernel);
  }
};

}  // namespace detail

/// y = the largest element of each window (padding never wins); NaN if the window holds one.
template <class Executor>
void run_max_pool2d(Executor& executor, ChannelsLast, const Pool2dGeometry& g, int batch, const float* x, float* y,
                    Epilogue epilogue = {}) {
  detail::run_pool<detail::Largest>(executor, g, batch, x, y, epilogue);
}

/// dx: each dy goes to the first element in row-major order, in its window, that equals y (NaN equals NaN here).
template <class Executor>
void run_max_pool2d_gradient(Executor& executor, ChannelsLast, const Pool2dGeometry& g, int batch, const float* x,
                             const float* y, const float* dy, float* dx, Epilogue epilogue = {}) {
  const long size = batch * g.input_size();
  for_each(executor, size, detail::MaxPoolGradient(g, x, y, dy, dx));
  epilogue(0, size);
}

/// y = the sum of each window divided by kernel * kernel: padding counts as zeros.
template <class Executor>
void run_avg_pool2d(Executor& executor, ChannelsLast, const Pool2dGeometry& g, int batch, const float* x, float* y,
                    Epilogue epilogue = {}) {
  detail::run_pool<detail::Average>(executor, g, batch, x, y, epilogue);
}

/// The gradient of `run_avg_pool2d`.
template <class Executor>
void run_avg_pool2d_gradient(Executor& executor, ChannelsLast, const Pool2dGeometry& g, int batch, const float* dy,
                             float* dx, Epilogue epilogue = {}) {
  const long size = batch * g.input_size();
  for_each(executor, size, detail::AvgPoolGradient(g, dy, dx));
  epilogue(0, size);
}

}  // namespace tenet::gpu
