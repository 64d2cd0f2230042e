#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

namespace tenet {

/// Numbers that several threads read and write at the same time. Each is a whole number at any time, but nothing is
/// said about the order in which others see them. Two neighbours move at a time where nothing speaks against it:
/// compilers leave atomic accesses one by one, and half as many take half the time.
class RelaxedAccess {
 public:
  static void load(const float* from, float* to, long count) {
    long i = 0;
    const auto one = [&] {
      to[i] = of<float>(from + i).load(std::memory_order_relaxed);
      ++i;
    };
    if (count > 0 && !begins_pair(from)) one();
    for (; has_pairs && i + 2 <= count; i += 2) {
      const Pair both = of<Pair>(from + i).load(std::memory_order_relaxed);
      std::memcpy(to + i, &both, sizeof both);
    }
    while (i < count) one();
  }

  /// Only what has changed: other cores keep the lines of the cache in which nothing has, and what they have written
  /// meanwhile to a number beside one that has changed stays.
  static void store(const float* before, const float* now, float* to, long count) {
    long i = 0;
    float nowhere;  // takes what has not changed: a processor guesses wrong at every second branch where half has
    const auto one = [&] {
      of<float>(either(has_changed(before + i, now + i), to + i, &nowhere)).store(now[i], std::memory_order_relaxed);
      ++i;
    };
    if (count > 0 && !begins_pair(to)) one();
    while (has_pairs && i + line <= count) {
      const long end = i + line;
      long changed = 0;
      for (long k = i; k < end; ++k) changed += has_changed(before + k, now + k);
      if (changed == line)
        for (; i < end; i += 2) of<Pair>(to + i).store({now[i], now[i + 1]}, std::memory_order_relaxed);
      else if (changed > 0)
        while (i < end) one();
      i = end;
    }
    while (i < count) one();
  }

 private:
  struct alignas(2 * sizeof(float)) Pair {
    float first, second;
  };
  static constexpr bool has_pairs = std::atomic_ref<Pair>::is_always_lock_free;
  static constexpr long line = 16;

  template <class Value>
  static std::atomic_ref<Value> of(const float* at) {
    return std::atomic_ref<Value>(*reinterpret_cast<Value*>(const_cast<float*>(at)));
  }
  static bool begins_pair(const float* at) { return reinterpret_cast<std::uintptr_t>(at) % alignof(Pair) == 0; }
  static bool has_changed(const float* before, const float* now) {
    std::uint32_t bits[2];
    std::memcpy(&bits[0], before, sizeof(float));
    std::memcpy(&bits[1], now, sizeof(float));
    return bits[0] != bits[1];
  }
  /// By arithmetic whose origin compilers do not see: they make a branch of a conditional expression, and of this one.
  static float* either(bool first, float* one, float* other) {
    std::uintptr_t mask = std::uintptr_t{0} - static_cast<std::uintptr_t>(first);
    asm("" : "+r"(mask));
    const auto from = reinterpret_cast<std::uintptr_t>(other);
    return reinterpret_cast<float*>(from + ((reinterpret_cast<std::uintptr_t>(one) - from) & mask));
  }
};

}  // namespace tenet
