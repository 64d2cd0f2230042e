// The same products through Eigen's maps, on one thread.
#include <Eigen/Core>

#include "shapes.hpp"

int main() {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  measure([](const Shape& shape, const float* lhs, const float* rhs, float* result) {
    Eigen::Map<Matrix> to(result, shape.rows, shape.columns);
    const Eigen::Map<const Matrix> b(rhs, shape.transpose_rhs ? shape.columns : shape.inner,
                                     shape.transpose_rhs ? shape.inner : shape.columns);
    const Eigen::Map<const Matrix> a(lhs, shape.transpose_lhs ? shape.inner : shape.rows,
                                     shape.transpose_lhs ? shape.rows : shape.inner);
    if (shape.transpose_lhs)
      to.noalias() = a.transpose() * b;
    else if (shape.transpose_rhs)
      to.noalias() = a * b.transpose();
    else
      to.noalias() = a * b;
  });
}
