#pragma once

#include "tenet/core/vector.hpp"

/// Runs of floats as vectors, of which the last may be shorter.
namespace tenet::cpu::detail {

[[gnu::always_inline]] inline Vector load_lanes(const float* from, int lanes) {
  return lanes == vector_width ? load(from) : load_partial(from, lanes);
}

[[gnu::always_inline]] inline void store_lanes(float* to, Vector value, int lanes) {
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
