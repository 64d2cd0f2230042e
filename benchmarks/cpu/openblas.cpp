// Square products through OpenBLAS; the number of threads is that of OPENBLAS_NUM_THREADS.
#include <cblas.h>

#include <memory>

#include "../serve.hpp"
#include "kernels.hpp"

int main() {
  struct Data {
    kernels::Floats lhs, rhs, result;
  };
  std::vector<Case> cases;
  for (const int size : kernels::sizes) {
    const auto data = std::make_shared<Data>();
    const auto run = [=] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1, data->lhs.data(), size,
                  data->rhs.data(), size, 0, data->result.data(), size);
    };
    cases.push_back({"product " + std::to_string(size),
                     [=] {
                       const long count = long{size} * size;
                       *data = {kernels::random_numbers(count, 1), kernels::random_numbers(count, 2),
                                kernels::Floats(static_cast<std::size_t>(count))};
                       run();
                       return kernels::sample(2.0 * static_cast<double>(count) * size, data->result);
                     },
                     [=](long calls) { return seconds_of(run, calls); }});
  }
  return serve(cases);
}
