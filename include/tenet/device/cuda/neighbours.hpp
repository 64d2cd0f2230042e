#pragma once

#include <cstddef>
#include <cstdint>
#include <tenet/core/host_device.hpp>

/// Numbers that lie side by side in memory, read or written at once: at most 16 bytes by one instruction.
namespace tenet::gpu::detail {

/// The largest power of two, up to 16, by which so many bytes can be divided.
constexpr std::size_t alignment_of(std::size_t bytes) {
  std::size_t alignment = 1;
  while (alignment < 16 && bytes % (2 * alignment) == 0) alignment *= 2;
  return alignment;
}

template <class Number, int count>
struct alignas(alignment_of(count * sizeof(Number))) Neighbours {
  Number at[count];

  TENET_HOST_DEVICE void widen(float* to) const {
    TENET_UNROLL
    for (int k = 0; k < count; ++k) to[k] = static_cast<float>(at[k]);
  }
};

/// Whether memory from there on can be read and written so.
template <class Number, int count>
bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Neighbours<Number, count>) == 0;
}

/// Whether each row of `length` numbers from there on can be read `count` at once.
template <int count, class Number>
bool rows_are_aligned(const Number* from, long length) {
  return length % count == 0 && is_aligned<Number, count>(from);
}

template <int count, class Number>
TENET_HOST_DEVICE void load_neighbours(const Number* from, float* to) {
  const auto numbers = *reinterpret_cast<const Neighbours<Number, count>*>(from);
  numbers.widen(to);
}

template <int count, class Number>
TENET_HOST_DEVICE void store_neighbours(Number* to, const float* from) {
  Neighbours<Number, count> numbers;
  TENET_UNROLL
  for (int k = 0; k < count; ++k) numbers.at[k] = Number(from[k]);
  *reinterpret_cast<Neighbours<Number, count>*>(to) = numbers;
}

}  // namespace tenet::gpu::detail
