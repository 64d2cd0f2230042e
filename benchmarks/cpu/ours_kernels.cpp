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

/// Matrices [rows, columns], each transposed.
kernels::Floats transposed(const kernels::Floats& from, long rows, long columns) {
  kernels::Floats to(from.size());
  for (std::size_t first = 0; first < from.size(); first += static_cast<std::size_t>(rows * columns))
    cpu::detail::transpose(from.data() + first, columns, rows, columns, to.data() + first, rows);
  return to;
}

/// One pass of a convolution, run(operands, result), on images as programs have them: with their channels last.
/// `channels`: of the result, 0 if it is no image.
template <class Run>
Case convolution(const std::string& name, const Conv2dGeometry& g, long results, long channels, Run run_pass) {
  struct Data {
    std::unique_ptr<kernels::Operands> operands;
    kernels::Floats result;
  };
  const auto data = std::make_shared<Data>();
  const auto run = [=] { run_pass(*data->operands, data->result.data()); };
  return {name,
          [=] {
            data->operands = std::make_unique<kernels::Operands>(g);
            kernels::Operands& operands = *data->operands;
            operands.input = transposed(operands.input, g.channels, long{1} * g.height * g.width);
            operands.gradient = transposed(operands.gradient, g.out_channels, g.positions());
            data->result.resize(static_cast<std::size_t>(results));
            run();
            const long positions = channels > 0 ? results / (kernels::batch * channels) : 1;
            return kernels::sample(kernels::batch * g.flops(),
                                   channels > 0 ? transposed(data->result, positions, channels) : data->result);
          },
          [=](long calls) { return seconds_of(run, calls); }};
}

template <int index>
void add_convolution(std::vector<Case>& cases) {
  static constexpr Conv2dGeometry g = kernels::convolutions[index].geometry;
  static_assert(cpu::takes_channels_last(g));
  static constexpr ImagesChannelsLast order{};
  const std::string name = kernels::convolutions[index].name;
  using kernels::batch, kernels::Operands;
  cases.push_back(convolution(
      name + " forward", g, batch * g.result_size(), g.out_channels, [](const Operands& operands, float* result) {
        run_conv2d(workers, order, Known<g>{}, batch, operands.input.data(), operands.weight.data(), result);
      }));
  if (g.channels > 1)  // the first layer's input has no gradient
    cases.push_back(convolution(name + " backward-data", g, batch * g.input_size(), g.channels,
                                [](const Operands& operands, float* result) {
                                  run_conv2d_input_gradient(workers, order, Known<g>{}, batch, operands.gradient.data(),
                                                            operands.weight.data(), result);
                                }));
  cases.push_back(
      convolution(name + " backward-weights", g, g.weight_size(), 0, [](const Operands& operands, float* result) {
        run_conv2d_weight_gradient(workers, order, Known<g>{}, batch, operands.input.data(), operands.gradient.data(),
                                   result);
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
