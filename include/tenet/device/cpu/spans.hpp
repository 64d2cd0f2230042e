#pragma once

#include "tenet/device/cpu/product.hpp"

/// Which taps and which positions of a convolution lie inside the image, in one dimension: kernels that go over these
/// only never multiply the padding.
namespace tenet::cpu::detail {

/// A range of indices.
struct Span {
  long first, last;
};
/// The part of [0, taps) whose `position + tap` lies in [0, size).
constexpr Span taps_inside(long position, long taps, long size) {
  const long first = position < 0 ? -position : 0, last = smaller(taps, size - position);
  return first < last ? Span{first, last} : Span{0, 0};
}
/// The indices i < count all of whose taps are inside: 0 <= i * stride + offset, i * stride + offset + taps <= size.
constexpr Span interior(long offset, long stride, long taps, long size, long count) {
  const long room = size - taps - offset;
  const long first = offset < 0 ? blocks_of(-offset, stride) : 0,
             last = room < 0 ? 0 : smaller(room / stride + 1, count);
  return first < last ? Span{first, last} : Span{count, count};
}
/// Calls visit(index) for the indices in [part.first, part.last) outside `inner`.
template <class Visit>
void for_each_outside(Span part, Span inner, Visit&& visit) {
  for (long i = part.first; i < part.last; ++i) {
    if (i < inner.first || i >= inner.last) visit(i);
  }
}

}  // namespace tenet::cpu::detail
