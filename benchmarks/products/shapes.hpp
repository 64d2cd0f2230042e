#pragma once

#include <chrono>
#include <cstdio>
#include <vector>

/// What both competitors compute: result (rows x columns) = lhs (rows x inner) · rhs, in the forms that a training step
/// has: y = x·wᵀ (nt), dx = dy·w (nn), dw = dyᵀ·x (tn).
struct Shape {
  const char* name;
  long rows, columns, inner;
  bool transpose_lhs, transpose_rhs;
};

inline constexpr Shape shapes[]{{"784-256 forward, batch 256", 256, 256, 784, false, true},
                                {"784-256 weights, batch 256", 256, 784, 256, true, false},
                                {"84-120 forward, batch 256", 256, 84, 120, false, true},
                                {"128 cubed", 128, 128, 128, false, false},
                                {"256 cubed", 256, 256, 256, false, false},
                                {"512 cubed", 512, 512, 512, false, false},
                                {"1024 cubed", 1024, 1024, 1024, false, false}};

/// Times product(shape, lhs, rhs, result) for every shape; prints GFLOP/s and a checksum of each result as JSON.
template <class Product>
void measure(Product product) {
  std::printf("{");
  for (const Shape& shape : shapes) {
    std::vector<float> lhs(static_cast<std::size_t>(shape.rows * shape.inner)),
        result(static_cast<std::size_t>(shape.rows * shape.columns));
    std::vector<float> rhs(static_cast<std::size_t>(shape.columns * shape.inner));
    unsigned state = 1;
    for (std::vector<float>* values : {&lhs, &rhs})
      for (float& value : *values)
        value = static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f - 0.5f;
    const double flops = 2.0 * static_cast<double>(shape.rows * shape.columns * shape.inner);
    const int calls = static_cast<int>(2e8 / flops) + 1;
    double least = 1e30;
    for (int round = 0; round < 5; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < calls; ++i) product(shape, lhs.data(), rhs.data(), result.data());
      const double each = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls;
      if (each < least) least = each;
    }
    double sum = 0;
    for (std::size_t i = 0; i < result.size(); ++i)
      sum += static_cast<double>(result[i]) * static_cast<double>(i % 7 + 1);
    std::printf("%s\"%s\": [%.2f, %.6f]", &shape == shapes ? "" : ", ", shape.name, flops / least * 1e-9, sum);
  }
  std::printf("}\n");
}
