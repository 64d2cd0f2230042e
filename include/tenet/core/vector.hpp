#pragma once

#include <cmath>
#include <tenet/core/host_device.hpp>

/// The one abstraction over vector registers: a raw vector type, and free functions overloaded for it and for `float`,
/// so that an element-wise expression is written once as a template over T in {float, Vector}.
///
/// Raw vector types have arithmetic and comparison operators built in (`x * y + 1`, `x > 0`), but no namespace and so
/// no argument-dependent lookup: a template finds only those functions of this header that were declared before it.
namespace tenet {

/// Floats in one vector register: 16 with AVX-512, 8 with AVX, 4 otherwise (SSE2, NEON).
#if defined(__AVX512F__)
inline constexpr int vector_width = 16;
#elif defined(__AVX__)
inline constexpr int vector_width = 8;
#else
inline constexpr int vector_width = 4;
#endif

/// How many such registers a processor has: sums that a kernel keeps in more of them would go through memory.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int vector_registers = 32;
#else
inline constexpr int vector_registers = 16;
#endif

/// `vector_width` floats in one register.
typedef float Vector __attribute__((vector_size(4 * vector_width)));
/// What comparing two vectors gives: all bits of a lane are set where it holds; also the integers of `Vector`'s lanes.
typedef int VectorMask __attribute__((vector_size(4 * vector_width)));

/// All lanes zero. nvcc 13 crashes at `Vector{}` in what may run at compile time, element functions and lambdas among
/// it; so it is written like this, or as `broadcast<T>(0.0f)`, everywhere.
inline Vector zero_lanes() { return Vector{}; }

/// T with all lanes equal to `value`.
template <class T>
inline T broadcast(float value) {  // not constexpr for vectors: nvcc 13 crashes folding 64-byte vectors
  return value - T{};              // not value + T{}: -0 + 0 is 0, -0 - 0 is -0
}
template <>
TENET_HOST_DEVICE constexpr float broadcast<float>(float value) {
  return value;
}

/// Lanes from unaligned memory.
inline Vector load(const float* from) {
  Vector result;
  __builtin_memcpy(&result, from, sizeof result);
  return result;
}

/// The first `count` lanes from memory, zero in the others; memory beyond them is not read.
inline Vector load_partial(const float* from, int count) {
#if defined(__AVX512F__) && \
    !defined(__CUDACC__)  // one instruction; the builtin, as its header costs every includer 0.3 s
  return __builtin_ia32_loadups512_mask(from, zero_lanes(), static_cast<unsigned short>((1u << count) - 1u));
#else
  float lanes[vector_width] = {};
  for (int i = 0; i < count; ++i) lanes[i] = from[i];
  return load(lanes);
#endif
}

/// Lanes to unaligned memory.
inline void store(float* to, Vector value) { __builtin_memcpy(to, &value, sizeof value); }

/// The first `count` lanes to memory; memory beyond them is not written.
inline void store_partial(float* to, Vector value, int count) {
#if defined(__AVX512F__) && !defined(__CUDACC__)
  __builtin_ia32_storeups512_mask(to, value, static_cast<unsigned short>((1u << count) - 1u));
#else
  float lanes[vector_width];
  store(lanes, value);
  for (int i = 0; i < count; ++i) to[i] = lanes[i];
#endif
}

/// Mask of the first `count` lanes.
inline VectorMask first_lanes(int count) {
  VectorMask lane;
  for (int i = 0; i < vector_width; ++i) lane[i] = i;
  return lane < count;
}

/// Per lane: mask ? if_true : if_false.
TENET_HOST_DEVICE constexpr float select(bool mask, float if_true, float if_false) { return mask ? if_true : if_false; }
inline Vector select(VectorMask mask, Vector if_true, Vector if_false) { return mask ? if_true : if_false; }

/// Per lane the larger one; NaN if either is NaN.
TENET_HOST_DEVICE constexpr float maximum(float a, float b) { return a > b || a != a ? a : b; }
inline Vector maximum(Vector a, Vector b) { return select((a > b) | (a != a), a, b); }

/// Per lane the smaller one; NaN if either is NaN.
TENET_HOST_DEVICE constexpr float minimum(float a, float b) { return a < b || a != a ? a : b; }
inline Vector minimum(Vector a, Vector b) { return select((a < b) | (a != a), a, b); }

/// Absolute value (clears the sign bit).
TENET_HOST_DEVICE constexpr float abs(float x) { return __builtin_fabsf(x); }
inline Vector abs(Vector x) { return (Vector)((VectorMask)x & 0x7fffffff); }

/// Square root, correctly rounded.
TENET_HOST_DEVICE inline float sqrt(float x) { return std::sqrt(x); }
inline Vector sqrt(Vector x) {
#if defined(__AVX512F__)  // the instruction itself: <immintrin.h> would cost every includer 0.3 s
  asm("vsqrtps %1, %0" : "=v"(x) : "v"(x));
#elif defined(__AVX__)
  asm("vsqrtps %1, %0" : "=x"(x) : "x"(x));
#elif defined(__SSE2__)
  asm("sqrtps %1, %0" : "=x"(x) : "x"(x));
#else
  for (int i = 0; i < vector_width; ++i) x[i] = std::sqrt(x[i]);
#endif
  return x;
}

/// Four floats: lanes 4q to 4q + 3 of a vector are its quarter q.
typedef float Quarter __attribute__((vector_size(16)));

/// The sum of a vector's quarters, by halving; the order depends on `vector_width` only.
inline Quarter sum_quarters(Vector x) {
#if defined(__AVX512F__)
  const auto half = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                    __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
  return __builtin_shufflevector(half, half, 0, 1, 2, 3) + __builtin_shufflevector(half, half, 4, 5, 6, 7);
#elif defined(__AVX__)
  return __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
#else
  return x;
#endif
}

/// Sum of all lanes.
inline float horizontal_sum(Vector x) {
  const Quarter sum = sum_quarters(x);
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/// Largest lane; NaN if any lane is NaN.
inline float horizontal_max(Vector x) {
  float lanes[vector_width];
  store(lanes, x);
  float result = lanes[0];
  for (int i = 1; i < vector_width; ++i) result = maximum(result, lanes[i]);
  return result;
}

}  // namespace tenet
