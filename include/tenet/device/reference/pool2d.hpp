#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/epilogue.hpp"
#include "tenet/device/reference/serial.hpp"

namespace tenet::reference {

namespace detail {

/// Calls visit(input index, result index) for every element of every window, windows and elements in row-major order.
template <class Visit>
void for_each_window_element(const Pool2dGeometry& g, int batch, Visit visit) {
  long r = 0;
  for (long plane = 0; plane < long{batch} * g.channels; ++plane) {
    for (int i = 0; i < g.out_height(); ++i) {
      for (int j = 0; j < g.out_width(); ++j, ++r) {
        for (int y = i * g.stride - g.padding; y < i * g.stride - g.padding + g.kernel; ++y) {
          for (int x = j * g.stride - g.padding; x < j * g.stride - g.padding + g.kernel; ++x) {
            if (y >= 0 && y < g.height && x >= 0 && x < g.width) visit((plane * g.height + y) * g.width + x, r);
          }
        }
      }
    }
  }
}

}  // namespace detail

/// y = the largest element of each window (padding never wins); NaN if the window holds one.
inline void run_max_pool2d(Serial&, const Pool2dGeometry& g, int batch, const float* x, float* y,
                           Epilogue epilogue = {}) {
  const long size = batch * g.result_size();
  for (long r = 0; r < size; ++r) y[r] = -__builtin_inff();
  detail::for_each_window_element(g, batch, [&](long i, long r) {
    if (x[i] > y[r] || x[i] != x[i]) y[r] = x[i];
  });
  epilogue(0, size);
}

/// dx: each dy goes to the first element in row-major order, in its window, that equals y (NaN equals NaN here).
inline void run_max_pool2d_gradient(Serial&, const Pool2dGeometry& g, int batch, const float* x, const float* y,
                                    const float* dy, float* dx, Epilogue epilogue = {}) {
  const long size = batch * g.input_size();
  for (long i = 0; i < size; ++i) dx[i] = 0;
  long given = -1;  // the last window that has passed its gradient on
  detail::for_each_window_element(g, batch, [&](long i, long r) {
    if (given != r && (x[i] == y[r] || (x[i] != x[i] && y[r] != y[r]))) {
      dx[i] += dy[r];
      given = r;
    }
  });
  epilogue(0, size);
}

/// y = the sum of each window divided by kernel * kernel: padding counts as zeros.
inline void run_avg_pool2d(Serial&, const Pool2dGeometry& g, int batch, const float* x, float* y,
                           Epilogue epilogue = {}) {
  const long size = batch * g.result_size();
  for (long r = 0; r < size; ++r) y[r] = 0;
  detail::for_each_window_element(g, batch, [&](long i, long r) { y[r] += x[i]; });
  for (long r = 0; r < size; ++r) y[r] /= static_cast<float>(g.kernel * g.kernel);
  epilogue(0, size);
}

/// The gradient of `run_avg_pool2d`.
inline void run_avg_pool2d_gradient(Serial&, const Pool2dGeometry& g, int batch, const float* dy, float* dx,
                                    Epilogue epilogue = {}) {
  const long size = batch * g.input_size();
  for (long i = 0; i < size; ++i) dx[i] = 0;
  detail::for_each_window_element(g, batch,
                                  [&](long i, long r) { dx[i] += dy[r] / static_cast<float>(g.kernel * g.kernel); });
  epilogue(0, size);
}

}  // namespace tenet::reference
