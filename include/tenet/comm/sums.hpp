#pragma once

#include <tenet/core/vector.hpp>

/// What collectives compute: sums of numbers of several ranks, with weights.
namespace tenet::detail {

/// Calls vectors(i) for whole vectors of `count` numbers, and numbers(i) for those that are left.
template <class Vectors, class Numbers>
[[gnu::always_inline]] inline void by_vectors(long count, Vectors vectors, Numbers numbers) {
  const long whole = count / vector_width * vector_width;
  const int rest = static_cast<int>(count - whole);
  for (long i = 0; i < whole; i += vector_width) vectors(i);
  for (int i = 0; i < rest; ++i) numbers(whole + i);
}

/// to = scale · to + from
inline void scale_and_add(float* to, float scale, const float* from, long count) {
  by_vectors(
      count, [&](long i) { store(to + i, scale * load(to + i) + load(from + i)); },
      [&](long i) { to[i] = scale * to[i] + from[i]; });
}
/// to = a + b
inline void add_floats(float* to, const float* a, const float* b, long count) {
  by_vectors(
      count, [&](long i) { store(to + i, load(a + i) + load(b + i)); }, [&](long i) { to[i] = a[i] + b[i]; });
}
/// Both become a + b.
inline void add_to_both(float* a, float* b, long count) {
  by_vectors(
      count,
      [&](long i) {
        const auto sum = load(a + i) + load(b + i);
        store(a + i, sum);
        store(b + i, sum);
      },
      [&](long i) { a[i] = b[i] = a[i] + b[i]; });
}
inline void scale_floats(float* to, float scale, long count) {
  if (scale == 1) return;
  by_vectors(
      count, [&](long i) { store(to + i, scale * load(to + i)); }, [&](long i) { to[i] *= scale; });
}

/// to = scale · to + from where products are rounded before they are added, as by `scale_floats` and `add_floats`: all
/// ranks add up the same numbers. By blocks that stay in the first cache.
inline void add_to_scaled(float* to, float scale, const float* from, long count) {
  constexpr long block = 2048;
  for (long first = 0; first < count; first += block) {
    const long size = count - first < block ? count - first : block;
    scale_floats(to + first, scale, size);
    add_floats(to + first, to + first, from + first, size);
  }
}

}  // namespace tenet::detail
