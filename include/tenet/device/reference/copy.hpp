#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/reference/serial.hpp"

namespace tenet::reference {

namespace detail {

/// Calls visit(from index, to index) for every element, in row-major order of the extents.
template <class Visit>
void for_each_strided(const StridedCopyGeometry& g, int batch, Visit visit) {
  const long size = g.size(batch);
  for (long element = 0; element < size; ++element) {
    long rest = element, from = g.from_offset, to = g.to_offset;
    for (int d = g.rank - 1; d >= 0; --d) {
      const long i = d == 0 ? rest : rest % g.extents[d];
      rest /= g.extents[d];
      from += i * g.from_strides[d];
      to += i * g.to_strides[d];
    }
    visit(from, to);
  }
}

}  // namespace detail

/// to[…] = from[…] for every element of the extents.
inline void run_strided_copy(Serial&, const StridedCopyGeometry& g, int batch, const float* from, float* to) {
  detail::for_each_strided(g, batch, [&](long source, long target) { to[target] = from[source]; });
}

/// Zeroes to[0 … to_size), then to[…] += from[…] for every element of the extents; strides of `to` may be 0.
inline void run_strided_sum(Serial&, const StridedCopyGeometry& g, int batch, const float* from, float* to,
                            long to_size) {
  for (long i = 0; i < to_size; ++i) to[i] = 0;
  detail::for_each_strided(g, batch, [&](long source, long target) { to[target] += from[source]; });
}

}  // namespace tenet::reference
