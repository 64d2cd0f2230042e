#pragma once

#include <span>
#include <tenet/core/geometry.hpp>
#include <tenet/device/cuda/index.hpp>
#include <tenet/device/cuda/sums.hpp>
#include <tenet/device/own_memory.hpp>

/// Copies between strided views, and sums over dimensions of one.
namespace tenet::gpu {

namespace detail {

/// Extents and strides of some dimensions of a strided copy, outermost first.
struct StridedLoop {
  static constexpr int max_rank = StridedCopyGeometry::max_rank;
  int rank = 0;
  Divisor extents[max_rank] = {};
  long from[max_rank] = {}, to[max_rank] = {};

  /// Makes a dimension the innermost one.
  void add(long extent, long from_stride, long to_stride) {
    if (extent == 1) return;
    if (rank > 0 && from[rank - 1] == extent * from_stride && to[rank - 1] == extent * to_stride)
      --rank, extent *= extents[rank].by;  // the two are one dimension
    extents[rank] = Divisor(extent), from[rank] = from_stride, to[rank] = to_stride;
    ++rank;
  }
  long size() const {
    long result = 1;
    for (int d = 0; d < rank; ++d) result *= extents[d].by;
    return result;
  }

  struct Offsets {
    long from, to;
  };
  /// Of element i in row-major order.
  TENET_HOST_DEVICE Offsets offsets(long i) const {
    Offsets result{0, 0};
    for (int d = rank - 1; d >= 0; --d) {
      const Divided at = d > 0 ? divided(i, extents[d]) : Divided{0, i};
      result.from += at.rest * from[d];
      result.to += at.rest * to[d];
      i = at.quotient;
    }
    return result;
  }
};

/// Dimensions in the order of their strides, which the threads of a kernel follow.
class StridedDimensions {
 public:
  void add(long extent, long from, long to, long stride) {
    int at = count_++;
    for (; at > 0 && all_[at - 1].stride < stride; --at) all_[at] = all_[at - 1];
    all_[at] = {extent, from, to, stride};
  }
  StridedLoop loop() const {
    StridedLoop result;
    for (int d = 0; d < count_; ++d) result.add(all_[d].extent, all_[d].from, all_[d].to);
    return result;
  }

 private:
  struct Dimension {
    long extent, from, to, stride;
  };
  Dimension all_[StridedCopyGeometry::max_rank];
  int count_ = 0;
};

inline long strided_extent(const StridedCopyGeometry& g, int batch, int dimension) {
  return dimension == 0 && g.batched ? long{g.extents[0]} * batch : g.extents[dimension];
}

struct StridedCopy {
  StridedLoop loop;
  const float* from;
  float* to;

  TENET_HOST_DEVICE void operator()(long i) const {
    const StridedLoop::Offsets at = loop.offsets(i);
    to[at.to] = from[at.from];
  }
};

/// Some copies, one behind the other.
struct Copies {
  static constexpr int most = 4;
  NumbersToCopy each[most];
  int count;

  TENET_HOST_DEVICE void operator()(long i) const {
    for (int k = 0; k < count; i -= each[k++].count)
      if (i < each[k].count) {
        each[k].to[i] = each[k].from[i];
        return;
      }
  }
};

/// The terms of each number that is kept.
struct StridedTerms {
  static constexpr int numbers = 1;
  StridedLoop kept, summed;
  const float* from;
  float* to;

  TENET_HOST_DEVICE void of(long row, long number, float* term) const {
    term[0] = from[kept.offsets(number).from + summed.offsets(row).from];
  }
  TENET_HOST_DEVICE void store(long number, const float* sum) const { to[kept.offsets(number).to] = sum[0]; }
};

}  // namespace detail

/// Up to four copies by one kernel, in the device's memory or page-locked memory of the host, which kernels reach
/// as well. In a recording such a kernel runs right behind the one before it; a copy by the device's copying engine
/// begins 4 to 18 us later (H200).
template <class Executor>
void run_copies(Executor& executor, std::span<const NumbersToCopy> copies) {
  detail::Copies work{};
  long numbers = 0;
  for (const NumbersToCopy& copy : copies) {
    work.each[work.count++] = copy;
    numbers += copy.count;
  }
  for_each(executor, numbers, work);
}

/// to[…] = from[…] for every element of the extents.
template <class Executor>
void run_strided_copy(Executor& executor, const StridedCopyGeometry& g, int batch, const float* from, float* to) {
  detail::StridedDimensions dimensions;  // neighbours write neighbours
  for (int d = 0; d < g.rank; ++d)
    dimensions.add(detail::strided_extent(g, batch, d), g.from_strides[d], g.to_strides[d], g.to_strides[d]);
  const detail::StridedLoop loop = dimensions.loop();
  for_each(executor, g.size(batch) == 0 ? 0 : loop.size(),
           detail::StridedCopy{loop, from + g.from_offset, to + g.to_offset});
}

/// Zeroes to[0 … to_size), then to[…] += from[…] for every element of the extents.
///
/// Strides of `to` may be 0: those dimensions are summed. The others must lead to different elements.
template <class Executor>
void run_strided_sum(Executor& executor, const StridedCopyGeometry& g, int batch, const float* from, float* to,
                     long to_size) {
  detail::StridedDimensions kept, summed;  // neighbours read neighbours
  for (int d = 0; d < g.rank; ++d)
    (g.to_strides[d] == 0 ? summed : kept)
        .add(detail::strided_extent(g, batch, d), g.from_strides[d], g.to_strides[d], g.from_strides[d]);
  if (g.rank == 0 && g.batched) summed.add(batch, 0, 0, 0);
  const detail::StridedTerms terms{kept.loop(), summed.loop(), from + g.from_offset, to + g.to_offset};
  const bool is_empty = g.size(batch) == 0;
  if (is_empty || terms.kept.size() < to_size) executor.zero(to, 4 * to_size);
  if (is_empty) return;
  const bool side_by_side = terms.kept.rank > 0 && terms.kept.from[terms.kept.rank - 1] <= 1;
  run_sums(executor, terms, terms.summed.size(), terms.kept.size(), side_by_side);
}

}  // namespace tenet::gpu
