#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/core/vector.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/workers.hpp"

namespace tenet::cpu {

namespace detail {

/// Extents and strides of some dimensions of a strided copy, outermost first.
struct StridedLoop {
  int rank = 0;
  long extents[StridedCopyGeometry::max_rank + 1] = {}, from[StridedCopyGeometry::max_rank + 1] = {},
                                               to[StridedCopyGeometry::max_rank + 1] = {};

  constexpr void add(long extent, long from_stride, long to_stride) {
    if (extent == 1) return;
    if (rank > 0 && from[rank - 1] == extent * from_stride && to[rank - 1] == extent * to_stride) {
      extents[rank - 1] *= extent;  // the two are one dimension
      from[rank - 1] = from_stride;
      to[rank - 1] = to_stride;
      return;
    }
    extents[rank] = extent;
    from[rank] = from_stride;
    to[rank] = to_stride;
    ++rank;
  }

  constexpr long size() const {
    long result = 1;
    for (int d = 0; d < rank; ++d) result *= extents[d];
    return result;
  }

  /// Removes the innermost dimension and returns it; an extent of 1 if there is none.
  constexpr StridedLoop split_innermost() {
    StridedLoop inner;
    inner.rank = 1;
    inner.extents[0] = 1;
    if (rank > 0) {
      --rank;
      inner.extents[0] = extents[rank];
      inner.from[0] = from[rank];
      inner.to[0] = to[rank];
    }
    return inner;
  }

  /// Calls visit(from offset, to offset) for elements [first, last) in row-major order.
  template <class Visit>
  void run(long first, long last, Visit&& visit) const {
    long index[StridedCopyGeometry::max_rank + 1] = {}, source = 0, target = 0, rest = first;
    for (int d = rank - 1; d >= 0; --d) {
      index[d] = rest % extents[d];
      rest /= extents[d];
      source += index[d] * from[d];
      target += index[d] * to[d];
    }
    for (long element = first; element < last; ++element) {
      visit(source, target);
      for (int d = rank - 1; d >= 0; --d) {
        source += from[d];
        target += to[d];
        if (++index[d] < extents[d]) break;
        source -= extents[d] * from[d];
        target -= extents[d] * to[d];
        index[d] = 0;
      }
    }
  }
};

constexpr long strided_extent(const StridedCopyGeometry& g, int batch, int dimension) {
  return dimension == 0 && g.batched ? long{g.extents[0]} * batch : g.extents[dimension];
}

}  // namespace detail

/// to[…] = from[…] for every element of the extents.
inline void run_strided_copy(Workers& workers, const StridedCopyGeometry& g, int batch, const float* from, float* to) {
  if (g.size(batch) == 0) return;
  detail::StridedLoop outer;
  for (int d = 0; d < g.rank; ++d) outer.add(detail::strided_extent(g, batch, d), g.from_strides[d], g.to_strides[d]);
  if (g.rank == 0 && g.batched) outer.add(batch, 0, 0);
  from += g.from_offset;
  to += g.to_offset;
  const detail::StridedLoop inner = outer.split_innermost();
  const long length = inner.extents[0], from_stride = inner.from[0], to_stride = inner.to[0];
  if (outer.rank == 0 && from_stride == 1 && to_stride == 1) {  // one contiguous range
    detail::run_ranges(workers, length, 1,
                       [&](long first, long last) { detail::copy_floats(to + first, from + first, last - first); });
    return;
  }
  detail::run_ranges(workers, outer.size(), length, [&](long first, long last) {
    outer.run(first, last, [&](long source, long target) {
      if (from_stride == 1 && to_stride == 1) {
        detail::copy_floats(to + target, from + source, length);
      } else if (from_stride == 0 && to_stride == 1) {
        detail::fill_floats(to + target, from[source], length);
      } else {
        for (long i = 0; i < length; ++i) to[target + i * to_stride] = from[source + i * from_stride];
      }
    });
  });
}

/// Zeroes to[0 … to_size), then to[…] += from[…] for every element of the extents.
///
/// Strides of `to` may be 0: those dimensions are summed. The others must lead to different elements.
inline void run_strided_sum(Workers& workers, const StridedCopyGeometry& g, int batch, const float* from, float* to,
                            long to_size) {
  detail::run_ranges(workers, to_size, 1,
                     [&](long first, long last) { detail::fill_floats(to + first, 0, last - first); });
  if (g.size(batch) == 0) return;
  detail::StridedLoop kept, summed;
  for (int d = 0; d < g.rank; ++d) {
    (g.to_strides[d] == 0 ? summed : kept).add(detail::strided_extent(g, batch, d), g.from_strides[d], g.to_strides[d]);
  }
  if (g.rank == 0 && g.batched) summed.add(batch, 0, 0);
  from += g.from_offset;
  to += g.to_offset;
  const long terms = summed.size();
  if (kept.rank > 0 && kept.from[kept.rank - 1] == 1 && kept.to[kept.rank - 1] == 1) {
    // Rows lie next to each other: sum them as vectors, in blocks of columns.
    constexpr long block = 64;
    const detail::StridedLoop columns = kept.split_innermost();
    const long blocks = detail::blocks_of(columns.extents[0], block);
    detail::run_ranges(workers, kept.size() * blocks, block * terms, [&](long first, long last) {
      for (long index = first; index < last; ++index) {
        const long c0 = index % blocks * block, count = detail::smaller(block, columns.extents[0] - c0);
        kept.run(index / blocks, index / blocks + 1, [&](long kept_source, long target) {
          float* sum = to + target + c0;
          const float* start = from + kept_source + c0;
          summed.run(0, terms, [&](long source, long) {
            long c = 0;
            for (; c + vector_width <= count; c += vector_width)
              store(sum + c, load(sum + c) + load(start + source + c));
            for (; c < count; ++c) sum[c] += start[source + c];
          });
        });
      }
    });
    return;
  }
  const detail::StridedLoop row = summed.split_innermost();
  const long length = row.extents[0], stride = row.from[0];
  detail::run_ranges(workers, kept.size(), terms, [&](long first, long last) {
    kept.run(first, last, [&](long kept_source, long target) {
      Vector lanes = zero_lanes();
      float sum = 0;
      summed.run(0, summed.size(), [&](long source, long) {
        const float* start = from + kept_source + source;
        long i = 0;
        if (stride == 1) {
          for (; i + vector_width <= length; i += vector_width) lanes += load(start + i);
        }
        for (; i < length; ++i) sum += start[i * stride];
      });
      to[target] += sum + horizontal_sum(lanes);
    });
  });
}

}  // namespace tenet::cpu
