// The products of the CPU device, on one thread.
#include <tenet/device/cpu.hpp>

#include "shapes.hpp"

int main() {
  tenet::cpu::Workers workers(1);
  measure([&](const Shape& shape, const float* lhs, const float* rhs, float* result) {
    const tenet::MatmulGeometry geometry{
        1, shape.rows, shape.columns, shape.inner, shape.transpose_lhs, shape.transpose_rhs, 0, 0};
    run_matmul(workers, geometry, lhs, rhs, result, {});
  });
}
