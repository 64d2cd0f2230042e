#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <tenet/device/cpu.hpp>
#include <tenet/nn/parameter.hpp>
#include <tenet/ops/reduce.hpp>
#include <tenet/train/trainer.hpp>

#include "network.hpp"

/// Optimizers against their formulas: several steps with gradients that the test chooses.
namespace update_rule {

inline constexpr int count = 37;  // not a multiple of any vector's width

/// Its gradient is the target: loss = Σ parameters·target.
struct Bare {
  tenet::Parameter<tenet::Fixed<count>, tenet::Normal<>> parameters;
  constexpr auto forward(auto x) const { return x + parameters.in(x); }
};
struct Sum {
  template <class Output>
  static constexpr bool fits = true;
  template <class Output>
  using Target = Output;
  static constexpr bool has_accuracy = false;
  static constexpr auto loss(tenet::AnySymbol auto output, tenet::AnySymbol auto target) {
    return tenet::sum(output * target);
  }
};

/// What the formula keeps of one number: the parameter and two states.
struct Number {
  double parameter = 0, first = 0, second = 0;
};

/// Six steps; `rule(number, gradient, step)` is the formula, step from 1.
template <class Optimizer, class Device, class Update>
void check_on(const Optimizer& optimizer, const std::function<void(Number&, double, int)>& rule) {
  tenet::Trainer<Bare, Sum, Optimizer, tenet::Features<count>, Device, Update> trainer{optimizer, 5};
  const auto parameters = trainer.weights()["parameters"];
  std::vector<Number> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i].parameter = parameters[i];
  const network::Floats zero(count, 0.0f);
  for (int step = 1; step <= 6; ++step) {
    network::Floats gradient = network::numbers(count, static_cast<std::uint64_t>(step));
    if (step == 4)
      for (float& g : gradient) g *= 100;  // momentum and second moment move far
    trainer.step(zero.data(), gradient.data(), 1);
    std::vector<double> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      rule(numbers[i], gradient[i], step);
      expected[i] = numbers[i].parameter;
    }
    INFO("step " << step);
    network::check_close(parameters, expected, 3e-6);
  }
}

template <class Optimizer>
void check(const Optimizer& optimizer, const std::function<void(Number&, double, int)>& rule) {
  check_on<Optimizer, tenet::Reference, tenet::UpdateAfterBackward>(optimizer, rule);
  check_on<Optimizer, tenet::Cpu<0, 2>, tenet::UpdateAfterBackward>(optimizer, rule);
  check_on<Optimizer, tenet::Cpu<0, 2>, tenet::UpdateInBackward>(optimizer, rule);
}

}  // namespace update_rule
