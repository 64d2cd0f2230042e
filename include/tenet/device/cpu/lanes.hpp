#pragma once

#include "tenet/core/bfloat16.hpp"

/// Runs of numbers, `float` or `bfloat16`, as vectors, of which the last may be shorter.
namespace tenet::cpu::detail {

template <class Number>
[[gnu::always_inline]] inline Vector load_lanes(const Number* from, int lanes) {
  return lanes == vector_width ? load(from) : load_partial(from, lanes);
}

template <class Number>
[[gnu::always_inline]] inline void store_lanes(Number* to, Vector value, int lanes) {
  if (lanes == vector_width) {
    store(to, value);
  } else {
    store_partial(to, value, lanes);
  }
}

/// Calls visit(offset, lanes) for all vectors of a row, the last one shorter.
template <class Visit>
inline void for_each_vector(int columns, Visit visit) {
  int c = 0;
  for (; c + vector_width <= columns; c += vector_width) visit(c, vector_width);
  if (c < columns) visit(c, columns - c);
}

}  // namespace tenet::cpu::detail
