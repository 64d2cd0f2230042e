// The kernels of the CPU device alone; the number of threads is that of TENET_NUM_THREADS.
#include <memory>
#include <tenet/device/cpu.hpp>
#include <utility>

#include "../serve.hpp"
#include "kernels.hpp"

using namespace tenet;

namespace {

cpu::Workers workers(Cpu<>::threads());

Case product(long size) {
  struct Data {
    kernels::Floats lhs, rhs, result;
  };
  const auto data = std::make_shared<Data>();
  const auto run = [=] {
    const MatmulGeometry geometry{1, size, size, size, false, false, 0, 0};
    run_matmul(workers, geometry, data->lhs.data(), data->rhs.data(), data->result.data(), {});
  };
  return {"product " + std::to_string(size),
          [=] {
            *data = {kernels::random_numbers(size * size, 1), kernels::random_numbers(size * size, 2),
                     kernels::Floats(static_cast<std::size_t>(size * size))};
            run();
            const auto cube = static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
            return kernels::sample(2 * cube, data->result);
          },
          [=](long calls) { return seconds_of(run, calls); }};
}

/// One pass of a convolution: run(operands, result).
template <class Run>
Case convolution(const std::string& name, const Conv2dGeometry& g, long results, Run run_pass) {
  struct Data {
    std::unique_ptr<kernels::Operands> operands;
    kernels::Floats result;
  };
  const auto data = std::make_shared<Data>();
  const auto run = [=] { run_pass(*data->operands, data->result.data()); };
  return {name,
          [=] {
            data->operands = std::make_unique<kernels::Operands>(g);
            data->result.resize(static_cast<std::size_t>(results));
            run();
            return kernels::sample(kernels::batch * g.flops(), data->result);
          },
          [=](long calls) { return seconds_of(run, calls); }};
}

template <int index>
void add_convolution(std::vector<Case>& cases) {
  static constexpr Conv2dGeometry g = kernels::convolutions[index].geometry;
  const std::string name = kernels::convolutions[index].name;
  using kernels::batch, kernels::Operands;
  cases.push_back(
      convolution(name + " forward", g, batch * g.result_size(), [](const Operands& operands, float* result) {
        run_conv2d(workers, Known<g>{}, batch, operands.input.data(), operands.weight.data(), result);
      }));
  if (g.channels > 1)  // the first layer's input has no gradient
    cases.push_back(
        convolution(name + " backward-data", g, batch * g.input_size(), [](const Operands& operands, float* result) {
          run_conv2d_input_gradient(workers, Known<g>{}, batch, operands.gradient.data(), operands.weight.data(),
                                    result);
        }));
  cases.push_back(
      convolution(name + " backward-weights", g, g.weight_size(), [](const Operands& operands, float* result) {
        run_conv2d_weight_gradient(workers, Known<g>{}, batch, operands.input.data(), operands.gradient.data(), result);
      }));
}

}  // namespace

int main() {
  std::vector<Case> cases;
  for (const int size : kernels::sizes) cases.push_back(product(size));
  [&]<int... index>(std::integer_sequence<int, index...>) {
    (add_convolution<index>(cases), ...);
  }(std::make_integer_sequence<int, std::size(kernels::convolutions)>());
  return serve(cases);
}
