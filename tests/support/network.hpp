#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <tenet/device/reference.hpp>
#include <tenet/train/model.hpp>
#include <vector>

/// What tests of networks share: names, shapes and outputs on the reference device, and statistics of initial values.
namespace network {

using Strings = std::vector<std::string>;
using Floats = std::vector<float>;

/// The type of a network's output.
template <class Net, class Input>
using Output = typename tenet::InferenceProgram<Net, Input, tenet::ReferenceKernels>::Output;

/// Names of parameters and buffers, in the order of `state_dict`.
template <class Net>
Strings names() {
  return tenet::Weights<Net>().names();
}

/// Uniform numbers in [-1, 1), the same for the same stream.
inline Floats numbers(long size, std::uint64_t stream = 0) {
  tenet::Random random(11, stream);
  Floats result(static_cast<std::size_t>(size));
  for (float& value : result) value = random.uniform(-1, 1);
  return result;
}

/// What steps of a trainer take: uniform numbers or a few tokens, and the classes 0, 1, 2 in turn.
template <class Trainer>
struct Samples {
  std::vector<typename Trainer::InputElement> inputs;
  std::vector<typename Trainer::TargetElement> targets;

  explicit Samples(int count) : targets(static_cast<std::size_t>(count * Trainer::Target::size)) {
    using Element = typename Trainer::InputElement;
    for (const float x : numbers(count * Trainer::Input::size, 1))
      inputs.push_back(static_cast<Element>(std::is_integral_v<Element> ? 4 + 3 * x : x));
    for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<typename Trainer::TargetElement>(i % 3);
  }
};

/// A network in evaluation mode on the reference device, every parameter and buffer uniform in [-1, 1).
template <class Net, class Input>
struct Evaluated {
  tenet::Model<Net, Input, tenet::Reference> model;

  Evaluated() {
    std::uint64_t stream = 100;
    for (const std::string& name : model.weights().names())
      if (name.find("num_batches_tracked") == std::string::npos) set(name, numbers(size(name), stream++));
  }
  long size(const std::string& name) { return static_cast<long>(model.weights()[name].size()); }
  void set(const std::string& name, const Floats& values) {
    REQUIRE(size(name) == static_cast<long>(values.size()));
    std::copy(values.begin(), values.end(), model.weights()[name].begin());
  }
  Floats operator[](const std::string& name) {
    const auto values = model.weights()[name];
    return {values.begin(), values.end()};
  }
  Floats operator()(const std::vector<typename Input::Element>& inputs, int batch) {
    REQUIRE(static_cast<long>(inputs.size()) == Input::size * batch);
    const auto values = model(inputs.data(), batch);
    return {values.begin(), values.end()};
  }
};

/// Compares tensors element by element; the error is relative to 1 or the element, whichever is larger.
inline void check_close(std::span<const float> found, const std::vector<double>& expected, double tolerance = 1e-5) {
  REQUIRE(found.size() == expected.size());
  std::size_t worst = 0;
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double here = std::fabs(found[i] - expected[i]) / std::fmax(1.0, std::fabs(expected[i]));
    if (!(here <= error) && !std::isnan(error)) error = here, worst = i;
  }
  INFO("element " << worst << ": expected " << expected[worst] << ", found " << found[worst]);
  CHECK(error <= tolerance);
}

struct Statistics {
  double least = 1e30, greatest = -1e30, mean = 0, deviation = 0;
};
inline Statistics statistics(std::span<const float> values) {
  Statistics result;
  double squares = 0;
  for (const float value : values) {
    result.least = std::fmin(result.least, value);
    result.greatest = std::fmax(result.greatest, value);
    result.mean += value;
    squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(values.size());
  result.mean /= count;
  result.deviation = std::sqrt(squares / count - result.mean * result.mean);
  return result;
}

/// Values uniform in ±bound: the bound is nearly reached and never passed; mean and deviation within five deviations of
/// their own.
inline void check_uniform(std::span<const float> values, double bound) {
  const Statistics found = statistics(values);
  const double root = std::sqrt(static_cast<double>(values.size()));
  CHECK(found.least >= -bound * 1.00001);
  CHECK(found.greatest <= bound * 1.00001);
  CHECK(found.least < -bound * (1 - 20 / (root * root)));
  CHECK(found.greatest > bound * (1 - 20 / (root * root)));
  CHECK(std::fabs(found.mean) < 5 * bound / std::sqrt(3.0) / root);
  CHECK(std::fabs(found.deviation / (bound / std::sqrt(3.0)) - 1) < 5 / root);
}

inline void check_all(std::span<const float> values, float value) {
  for (const float found : values) CHECK(found == value);
}

}  // namespace network
