#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tenet/tenet.hpp>
#include <vector>

/// Golden values of PyTorch, written by make_golden.py, and the formula that weights, inputs and targets come from.
namespace golden {

inline constexpr int input_stream = 1000, target_stream = 2000;

/// Random integers in [0, 2^32): a mix of the bits of the element's number and the stream's.
inline std::uint32_t random_bits(std::uint32_t stream, std::uint32_t element) {
  std::uint32_t x = element + stream * 0x9E3779B9u;
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

/// Uniform in [-1, 1), a multiple of 2^-23.
inline float uniform(int stream, long element) {
  const std::uint32_t bits = random_bits(static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(element));
  return static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f;
}

/// A batch of floats; of integers below `limit`.
inline std::vector<float> floats(int stream, long size) {
  std::vector<float> result(static_cast<std::size_t>(size));
  for (long i = 0; i < size; ++i) result[static_cast<std::size_t>(i)] = uniform(stream, i);
  return result;
}
inline std::vector<std::int32_t> integers(int stream, long size, int limit) {
  std::vector<std::int32_t> result(static_cast<std::size_t>(size));
  for (long i = 0; i < size; ++i) {
    const auto bits = random_bits(static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(i));
    result[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(bits % static_cast<std::uint32_t>(limit));
  }
  return result;
}

inline bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// Tensor k of the network's state_dict, counters not counted: matrices and kernels uniform in ±1/sqrt(fan in), vectors
/// in ±0.1, weights of norms in 1 ± 0.1; running statistics stay as they are.
template <class Net>
void initialize(tenet::Weights<Net>& weights) {
  Net net = tenet::numbered<Net>();
  int stream = 0;
  tenet::for_each_slot(net, tenet::Text{}, [&](const tenet::Text& path, auto& member) {
    const tenet::SlotInfo slot = member.info();
    if (slot.type == nullptr) return;
    ++stream;
    if (slot.kind != tenet::SlotKind::parameter) return;
    const std::string name(path.view());
    const auto values = weights[name];
    const tenet::TensorInfo& type = *slot.type;
    if (type.rank >= 2) {
      const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(type.size() / type.extents[0])));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = uniform(stream, static_cast<long>(i)) * scale;
    } else {
      const float centre = ends_with(name, "weight") ? 1.0f : 0.0f;
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = uniform(stream, static_cast<long>(i)) * 0.1f + centre;
    }
  });
}

/// The numbers of golden.txt under `key`.
inline const std::vector<double>& values(const std::string& key) {
  static const auto all = [] {
    std::map<std::string, std::vector<double>> result;
    std::ifstream file(TENET_TEST_DATA "/golden/golden.txt");
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string name;
      words >> name;
      for (double value = 0; words >> value;) result[name].push_back(value);
    }
    return result;
  }();
  const auto found = all.find(key);
  if (found == all.end()) FAIL("golden.txt has no line '" << key << "'");
  return found->second;
}

inline bool has(const std::string& key) {
  std::ifstream file(TENET_TEST_DATA "/golden/golden.txt");
  for (std::string line; std::getline(file, line);)
    if (line.rfind(key + " ", 0) == 0) return true;
  return false;
}

/// Compares a tensor with its digest: the sum, the sum of magnitudes, and six elements. Errors are relative to the mean
/// magnitude, so that neither a small element nor a sum that cancels asks for more than float has.
inline void check_digest(const std::string& key, const float* tensor, long size, double tolerance) {
  const std::vector<double>& expected = values(key);
  double sum = 0, magnitude = 0;
  for (long i = 0; i < size; ++i) {
    sum += tensor[i];
    magnitude += std::fabs(tensor[i]);
  }
  INFO(key);
  CHECK(expected[1] > 0);  // a digest of zeros tests nothing
  CHECK(std::fabs(sum - expected[0]) <= tolerance * expected[1]);
  CHECK(std::fabs(magnitude - expected[1]) <= tolerance * expected[1]);
  const double mean = expected[1] / static_cast<double>(size);
  for (long i = 0; i < 6; ++i) {
    const double element = expected[static_cast<std::size_t>(2 + i)];
    INFO("element " << (i * 7919 + 3) % size << ": expected " << element << ", found "
                    << tensor[(i * 7919 + 3) % size]);
    CHECK(std::fabs(tensor[(i * 7919 + 3) % size] - element) <= tolerance * (std::fabs(element) + mean));
  }
}

/// The batch of a case: inputs and targets.
template <class Trainer>
struct Samples {
  std::vector<typename Trainer::InputElement> inputs;
  std::vector<typename Trainer::TargetElement> targets;

  Samples(int batch, int input_limit, int target_limit)
      : inputs(make<typename Trainer::InputElement>(input_stream, Trainer::Input::size * batch, input_limit)),
        targets(make<typename Trainer::TargetElement>(target_stream, Trainer::Target::size * batch, target_limit)) {}

 private:
  template <class Element>
  static std::vector<Element> make(int stream, long size, int limit) {
    if constexpr (std::is_same_v<Element, float>)
      return floats(stream, size);
    else
      return integers(stream, size, limit);
  }
};

/// How close a case has to come.
struct Tolerance {
  double losses = 1e-5, gradients = 1e-5, weights = 1e-5, outputs = 1e-5;
};

/// Trains `steps` steps as make_golden.py does and compares losses, gradients of the first step, weights and statistics
/// at the end and the outputs in evaluation mode.
template <class Net, class Loss, class Input, class Device, class Optimizer>
void run(const std::string& name, int batch, int steps, Optimizer optimizer, Tolerance tolerance = {},
         int input_limit = 0, int target_limit = 0) {
  using Trainer = tenet::Trainer<Net, Loss, Optimizer, Input, Device>;
  Trainer trainer{optimizer};
  initialize(trainer.weights());
  const Samples<Trainer> samples(batch, input_limit, target_limit);
  INFO(name << " on " << Device::Kernels::name);

  const std::vector<double>& losses = values(name + "/losses");
  REQUIRE(losses.size() == static_cast<std::size_t>(steps));
  for (int step = 0; step < steps; ++step) {
    const tenet::StepResult result = trainer.step(samples.inputs.data(), samples.targets.data(), batch);
    const double expected = losses[static_cast<std::size_t>(step)];
    INFO("step " << step + 1 << ": expected " << expected << ", found " << result.loss << ", relative error "
                 << std::fabs(result.loss - expected) / expected);
    CHECK(std::fabs(result.loss - expected) <= tolerance.losses * expected);
    if (step > 0) continue;
    Net net = tenet::numbered<Net>();
    tenet::for_each_slot(net, tenet::Text{}, [&](const tenet::Text& path, auto& member) {
      const std::string key = name + "/gradient/" + std::string(path.view());
      const tenet::SlotInfo& slot = tenet::slot_table<Net>.slots[member.slot];
      if (slot.kind == tenet::SlotKind::parameter && has(key))
        check_digest(key, trainer.gradients() + slot.offset, slot.type->size(), tolerance.gradients);
    });
  }
  int compared = 0;
  for (const std::string& tensor : trainer.weights().names()) {
    const std::string key = name + "/final/" + tensor;
    if (!has(key)) continue;
    ++compared;
    const auto found = trainer.weights()[tensor];
    check_digest(key, found.data(), static_cast<long>(found.size()), tolerance.weights);
  }
  CHECK(compared > 0);
  const auto outputs = trainer.predict(samples.inputs.data(), batch);
  check_digest(name + "/outputs", outputs.data(), static_cast<long>(outputs.size()), tolerance.outputs);
}

}  // namespace golden
