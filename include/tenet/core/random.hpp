#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <tenet/core/host_device.hpp>

namespace tenet {

/// Philox4x32-10: four random words as a pure function of a counter and a key (Salmon et al., "Parallel random numbers:
/// as easy as 1, 2, 3", SC 2011); the upper 64 bits of the 128-bit counter are `stream`.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t counter, std::uint64_t key, std::uint64_t stream = 0) {
  auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  std::array<std::uint32_t, 4> x{low(counter), high(counter), low(stream), high(stream)};
  std::uint32_t key0 = low(key), key1 = high(key);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * x[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * x[2];
    x = {high(product1) ^ x[1] ^ key0, low(product1), high(product0) ^ x[3] ^ key1, low(product0)};
    key0 += 0x9E3779B9;  // Weyl sequences: the golden ratio, and sqrt(3) - 1
    key1 += 0xBB67AE85;
  }
  return x;
}

/// A seed that lies in memory as its lower and its upper half.
TENET_HOST_DEVICE constexpr std::uint64_t seed_of(const std::int32_t* halves) {
  return std::uint64_t{static_cast<std::uint32_t>(halves[1])} << 32 | static_cast<std::uint32_t>(halves[0]);
}

/// The float in [0, 1) that a random word stands for: its upper 24 bits.
TENET_HOST_DEVICE constexpr float unit_float(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// Random numbers from Philox: a seed and a stream give the same integers and uniform floats on every platform.
/// Streams of one seed are independent of each other.
class Random {
 public:
  constexpr explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  /// The next 32 random bits.
  constexpr std::uint32_t next() {
    if (used_ == 4) {
      words_ = philox(counter_++, seed_, stream_);
      used_ = 0;
    }
    return words_[used_++];
  }

  /// Uniform in [0, 1), a multiple of 2^-24.
  constexpr float uniform() { return unit_float(next()); }

  /// Uniform in [low, high).
  constexpr float uniform(float low, float high) {
    const float value = low + (high - low) * uniform();
    return value < high ? value : low;  // rounding may reach `high`
  }

  /// Normal with mean 0 and variance 1, by Box and Muller's transform in double precision.
  float normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double u = (next() + 1.0) * 0x1p-32;  // in (0, 1]: the logarithm is finite
    const double angle = 6.283185307179586 * 0x1p-32 * next();
    const double radius = std::sqrt(-2 * std::log(u));
    spare_ = static_cast<float>(radius * std::sin(angle));
    has_spare_ = true;
    return static_cast<float>(radius * std::cos(angle));
  }

  /// Uniform in {0, …, n - 1} without bias (Lemire's multiplication with rejection); 0 for n = 0.
  constexpr std::uint32_t below(std::uint32_t n) {
    if (n == 0) return 0;
    std::uint64_t product = std::uint64_t{next()} * n;
    const std::uint32_t threshold = (0u - n) % n;
    while (static_cast<std::uint32_t>(product) < threshold) product = std::uint64_t{next()} * n;
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  std::uint64_t seed_, stream_, counter_ = 0;
  std::array<std::uint32_t, 4> words_{};
  std::uint32_t used_ = 4;
  float spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace tenet
