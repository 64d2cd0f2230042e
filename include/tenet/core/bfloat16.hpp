#pragma once

#include <cstdint>
#include <tenet/core/vector.hpp>

/// Numbers of two bytes: the upper half of a `float`, so the same range with 8 binary digits. Loading one gives a
/// `float`, storing rounds to the nearest, ties to even. Pairs of them are multiplied and added to floats.
namespace tenet {

struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  TENET_HOST_DEVICE explicit constexpr bfloat16(float value) : bits(rounded(value)) {}
  TENET_HOST_DEVICE constexpr operator float() const {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }

 private:
  /// Half of the last place is added, a little less where the number is even; NaN would become a number.
  TENET_HOST_DEVICE static constexpr std::uint16_t rounded(float value) {
#if defined(__CUDA_ARCH__)  // a GPU has an instruction for it
    if (!__builtin_is_constant_evaluated()) return rounded_there(value);
#endif
    const auto whole = __builtin_bit_cast(std::uint32_t, value);
    if (value != value) return static_cast<std::uint16_t>(whole >> 16 | 0x40);
    return static_cast<std::uint16_t>((whole + 0x7fff + (whole >> 16 & 1)) >> 16);
  }
#if defined(__CUDA_ARCH__)
  __device__ static std::uint16_t rounded_there(float value) {
    std::uint16_t result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
    return result;
  }
#endif
};
static_assert(sizeof(bfloat16) == 2);

namespace detail {

typedef std::uint32_t Words __attribute__((vector_size(4 * vector_width)));
typedef std::uint16_t HalfWords __attribute__((vector_size(2 * vector_width)));

// With AVX-512 the instructions themselves: g++ 12 halves these vectors.
inline Words widened(HalfWords bits) {
#if defined(__AVX512F__)
  Words words;
  asm("vpmovzxwd %1, %0" : "=v"(words) : "v"(bits));
  return words;
#else
  return __builtin_convertvector(bits, Words);
#endif
}
inline HalfWords narrowed(Words words) {
#if defined(__AVX512F__)
  HalfWords bits;
  asm("vpmovdw %1, %0" : "=v"(bits) : "v"(words));
  return bits;
#else
  return __builtin_convertvector(words, HalfWords);
#endif
}

}  // namespace detail

inline Vector load(const bfloat16* from) {
  detail::HalfWords bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return (Vector)(detail::widened(bits) << 16);
}

/// The first `count` lanes, zero in the others; memory beyond them is not read.
inline Vector load_partial(const bfloat16* from, int count) {
  bfloat16 lanes[vector_width]{};
  for (int i = 0; i < count; ++i) lanes[i] = from[i];
  return load(lanes);
}

inline void store(bfloat16* to, Vector value) {
  const auto whole = (detail::Words)value;
  const detail::Words number = (whole + 0x7fff + (whole >> 16 & 1)) >> 16, nan = whole >> 16 | 0x40;
  const detail::HalfWords bits = detail::narrowed(value == value ? number : nan);
  __builtin_memcpy(static_cast<void*>(to), &bits, sizeof bits);
}

/// Whether the processor has instructions for `add_products`.
#if defined(__AVX512BF16__) && defined(__AVX512F__)
inline constexpr bool multiplies_bfloat16 = true;
#else
inline constexpr bool multiplies_bfloat16 = false;
#endif

/// Pairs of bfloat16, one in the bits of each lane: x[2i] in the lower half of lane i, x[2i + 1] in the upper one.
/// These are x[2i] = a[i] and x[2i + 1] = b[i].
inline Vector load_pairs(const bfloat16* a, const bfloat16* b) {
  detail::HalfWords low, high;
  __builtin_memcpy(&low, a, sizeof low);
  __builtin_memcpy(&high, b, sizeof high);
  return (Vector)(detail::widened(low) | detail::widened(high) << 16);
}

/// The numbers in the lower halves of pairs, and those in the upper ones.
[[gnu::always_inline]] inline Vector lower_of_pairs(Vector pairs) { return (Vector)((detail::Words)pairs << 16); }
[[gnu::always_inline]] inline Vector upper_of_pairs(Vector pairs) {
  return (Vector)((detail::Words)pairs & 0xffff0000u);
}

/// sum[i] + a[2i] b[2i] + a[2i + 1] b[2i + 1] of pairs, in `float`; in which order the additions are rounded, and
/// whether numbers below 2^-126 count, is the processor's.
[[gnu::always_inline]] inline Vector add_products(Vector sum, Vector a, Vector b) {
#if defined(__AVX512BF16__) && defined(__AVX512F__)
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
#else
  return sum + upper_of_pairs(a) * upper_of_pairs(b) + lower_of_pairs(a) * lower_of_pairs(b);
#endif
}

/// The first `count` lanes; memory beyond them is not written.
inline void store_partial(bfloat16* to, Vector value, int count) {
  bfloat16 lanes[vector_width];
  store(lanes, value);
  for (int i = 0; i < count; ++i) to[i] = lanes[i];
}

}  // namespace tenet
