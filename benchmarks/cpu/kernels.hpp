#pragma once

#include <new>
#include <string>
#include <vector>

#include "tenet/core/geometry.hpp"

/// What the competitors' kernels compute alone: square products, and the convolutions of ResNet-18 with `batch` images.
namespace kernels {

constexpr int sizes[]{128, 192, 256, 384, 512, 768, 1024};
constexpr int batch = 32;

struct Convolution {
  const char* name;
  tenet::Conv2dGeometry geometry;
};
constexpr Convolution convolutions[]{
    {"3x3 1-64 at 28", {1, 28, 28, 64, 3, 3, 1, 1}},         {"3x3 64-64 at 28", {64, 28, 28, 64, 3, 3, 1, 1}},
    {"3x3 128-128 at 14", {128, 14, 14, 128, 3, 3, 1, 1}},   {"3x3 256-256 at 7", {256, 7, 7, 256, 3, 3, 1, 1}},
    {"3x3 512-512 at 4", {512, 4, 4, 512, 3, 3, 1, 1}},      {"3x3/2 64-128 at 28", {64, 28, 28, 128, 3, 3, 2, 1}},
    {"3x3/2 128-256 at 14", {128, 14, 14, 256, 3, 3, 2, 1}}, {"3x3/2 256-512 at 7", {256, 7, 7, 512, 3, 3, 2, 1}},
    {"1x1/2 64-128 at 28", {64, 28, 28, 128, 1, 1, 2, 0}},   {"1x1/2 128-256 at 14", {128, 14, 14, 256, 1, 1, 2, 0}},
    {"1x1/2 256-512 at 7", {256, 7, 7, 512, 1, 1, 2, 0}}};

/// Memory as libraries give it to themselves, PyTorch and ours among them: from the beginning of a cache line.
template <class T>
struct Aligned {
  using value_type = T;
  Aligned() = default;
  template <class Other>
  Aligned(const Aligned<Other>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* memory, std::size_t) { ::operator delete(memory, std::align_val_t{64}); }
  friend bool operator==(Aligned, Aligned) { return true; }
};
using Floats = std::vector<float, Aligned<float>>;

/// Numbers from -1/2 to 1/2, the same for the same seed.
inline Floats random_numbers(long count, unsigned seed) {
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-24f - 0.5f;
  return values;
}

/// The operands of a convolution's three passes, in the standard layout.
struct Operands {
  Floats input, weight, gradient;

  explicit Operands(const tenet::Conv2dGeometry& g)
      : input(random_numbers(batch * g.input_size(), 1)),
        weight(random_numbers(g.weight_size(), 2)),
        gradient(random_numbers(batch * g.result_size(), 3)) {}
};

/// Some hundred of the numbers, and what they cost: first the multiplications and additions of one call.
inline std::vector<double> sample(double flops, const Floats& values) {
  std::vector<double> result{flops};
  for (std::size_t i = 0; i < values.size(); i += values.size() / 331 + 1)
    result.push_back(static_cast<double>(values[i]));
  return result;
}

}  // namespace kernels
