#pragma once

#include <tenet/core/geometry.hpp>
#include <tenet/device/cuda/element.hpp>
#include <tenet/device/cuda/index.hpp>

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

/// Part p of the sum of number c is row p·count + c.
struct StridedSum {
  StridedLoop kept, summed;
  long count, terms, parts;
  const float* from;
  float* to;
  bool to_rows;  ///< write to to[row], for another sum

  StridedSum(const StridedLoop& kept_dimensions, const StridedLoop& summed_dimensions, const float* source,
             float* target)
      : kept(kept_dimensions),
        summed(summed_dimensions),
        count(kept.size()),
        terms(summed.size()),
        parts(1),
        from(source),
        to(target),
        to_rows(false) {}

  /// For each row one team.
  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    const Divided at = divided(row, count);
    const StridedLoop::Offsets number = kept.offsets(at.rest);
    const long first = terms * at.quotient / parts, last = terms * (at.quotient + 1) / parts;
    float sum = 0;
    for (long j = first + team.rank(); j < last; j += Members::size) sum += from[number.from + summed.offsets(j).from];
    sum = team.sum(sum);
    if (team.rank() == 0) to[to_rows ? row : number.to] = sum;
  }
  /// For each row one thread: neighbours read neighbours where numbers lie side by side.
  TENET_HOST_DEVICE void operator()(long row) const { (*this)(Alone{}, row); }
};

}  // namespace detail

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
  detail::StridedSum sum(kept.loop(), summed.loop(), from + g.from_offset, to + g.to_offset);
  const bool is_empty = g.size(batch) == 0;
  if (is_empty || sum.count < to_size) executor.zero(to, 4 * to_size);
  if (is_empty) return;
  // One thread for each number if they lie side by side, or if there are few terms.
  const bool side_by_side = sum.kept.rank > 0 && sum.kept.from[sum.kept.rank - 1] <= 1;
  const Role role = side_by_side || sum.terms < 32 ? Role::sum_rows : Role::sum;
  sum.parts = parts_of_sum(role, sum.count, sum.terms);
  if (sum.parts > 1) sum.to = static_cast<float*>(executor.workspace()), sum.to_rows = true;
  if (role == Role::sum_rows)
    for_each(executor, sum.parts * sum.count, sum);
  else
    for_each_row(executor, sum.parts * sum.count, sum.terms / sum.parts, sum);
  if (sum.parts == 1) return;
  detail::StridedLoop numbers = sum.kept, parts;  // of a matrix [parts, count]
  long stride = 1;
  for (int d = numbers.rank - 1; d >= 0; --d) numbers.from[d] = stride, stride *= numbers.extents[d].by;
  parts.add(sum.parts, sum.count, 0);
  for_each_sum(executor, sum.count, sum.parts, detail::StridedSum(numbers, parts, sum.to, to + g.to_offset));
}

}  // namespace tenet::gpu
