#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <tenet/tenet.hpp>
#include <vector>

/// The law of every differentiable operation: its gradient is that of a central finite difference.
///
/// A test network is a struct with parameters and a `forward`; x passes through a linear map or is multiplied by a
/// parameter before the operation under test, and the loss is a weighted sum of the result, so that the upstream
/// gradient differs from element to element.
namespace law {

/// Σ output·target / (elements of output, batch included): a loss whose gradient is the target, so no two elements of
/// the upstream gradient are equal.
struct WeightedSum {
  template <class Output>
  static constexpr bool fits = true;
  template <class Output>
  using Target = Output;
  static constexpr bool has_accuracy = false;
  static constexpr auto loss(tenet::AnySymbol auto output, tenet::AnySymbol auto target) {
    return tenet::mean(output * target);
  }
};

/// An optimizer that leaves the parameters as they are, so that a step computes the gradients only.
struct Nothing {
  float learning_rate = 0;
  static constexpr const char* name = "nothing";
  static constexpr int state_count = 0;
  static constexpr int scalar_count = 1;
  std::array<float, scalar_count> scalars(long) const { return {learning_rate}; }
  static constexpr auto update(auto parameters, auto, const auto&, const auto&) { return std::array{parameters}; }
};

/// How the check is done.
struct Options {
  float low = -1, high = 1;    ///< parameters and inputs are uniform in between
  float step = 1e-2f;          ///< of the finite difference
  double tolerance = 2e-3;     ///< error relative to the largest element of the tensor's gradient, plus 2e-5
  int token_limit = 1;         ///< inputs that are integers are below
  bool zero_gradient = false;  ///< the law is that no gradient flows to parameters named unused…
};

template <class Element>
std::vector<Element> sample(long size, std::uint64_t stream, const Options& options) {
  tenet::Random random(7, stream);
  std::vector<Element> result(static_cast<std::size_t>(size));
  for (Element& value : result)
    if constexpr (std::is_same_v<Element, float>)
      value = random.uniform(options.low, options.high);
    else
      value = static_cast<Element>(random.below(static_cast<std::uint32_t>(options.token_limit)));
  return result;
}

/// Checks every parameter of Net, for batches of 1 and 3: gradients against (loss(p + h) - loss(p - h)) / 2h. A
/// gradient must not be zero throughout; that of a parameter whose name begins with "unused" must be.
template <class Net, class Input, class Loss = WeightedSum, class Device = tenet::Reference, class Optimizer = Nothing>
void check_gradients(const Options& options = {}) {
  using Trainer = tenet::Trainer<Net, Loss, Optimizer, Input, Device>;
  Trainer trainer;
  for (const int batch : {1, 3}) {
    using TargetElement = typename Trainer::TargetElement;
    const auto inputs = sample<typename Trainer::InputElement>(Input::size * batch, 1, options);
    Options of_targets{-1, 1};
    if constexpr (std::is_same_v<TargetElement, std::int32_t>)
      of_targets.token_limit = Trainer::Output::info.extents[Trainer::Output::rank - 1];
    const auto targets = sample<TargetElement>(Trainer::Target::size * batch, 2, of_targets);
    const auto loss = [&] { return static_cast<double>(trainer.step(inputs.data(), targets.data(), batch).loss); };

    const std::vector<std::string> names = trainer.weights().names();
    std::uint64_t stream = 3;
    for (const std::string& name : names)
      if (name.find("running") == std::string::npos && name.find("tracked") == std::string::npos) {
        const auto values = trainer.weights()[name];
        const auto fresh = sample<float>(static_cast<long>(values.size()), stream++, options);
        std::copy(fresh.begin(), fresh.end(), values.begin());
      }
    loss();
    Net net = tenet::numbered<Net>();
    tenet::for_each_slot(net, tenet::Text{}, [&](const tenet::Text& path, auto& member) {
      const tenet::SlotInfo& slot = tenet::slot_table<Net>.slots[member.slot];
      if (slot.kind != tenet::SlotKind::parameter) return;
      const std::string name(path.view());
      const auto values = trainer.weights()[name];
      loss();
      const std::vector<float> gradient(trainer.gradients() + slot.offset,
                                        trainer.gradients() + slot.offset + values.size());
      double largest = 0, worst = 0;
      std::size_t where = 0;
      for (const float g : gradient) largest = std::fmax(largest, std::fabs(g));
      std::vector<double> difference(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float middle = values[i];
        values[i] = middle + options.step;
        const double above = loss(), width = static_cast<double>(values[i]);
        values[i] = middle - options.step;
        const double below = loss();
        difference[i] = (above - below) / (width - static_cast<double>(values[i]));
        values[i] = middle;
        const double error = std::fabs(difference[i] - gradient[i]);
        if (!(error <= worst)) worst = error, where = i;
      }
      INFO(name << " with a batch of " << batch << ", element " << where << ": gradient " << gradient[where]
                << ", finite difference " << difference[where]);
      CHECK(worst <= options.tolerance * largest + 2e-5);
      if (name.rfind("unused", 0) == 0)
        CHECK(largest == 0);
      else
        CHECK(largest > 1e-4);
    });
  }
}

/// A network that gives the operation under test a layer before it: x·a + b, a and b of one sample's shape.
template <class Operation, class Shape>
struct Behind;
template <class Operation, int... Extents>
struct Behind<Operation, tenet::Batched<Extents...>> {
  tenet::Parameter<tenet::Fixed<Extents...>, tenet::Constant<1>> a, b;
  constexpr auto forward(auto x) const { return tenet::tanh(Operation::apply(x * a.in(x) + b.in(x))); }
};

}  // namespace law
