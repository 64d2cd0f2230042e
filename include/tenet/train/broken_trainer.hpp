#pragma once

#include <tenet/exec/device_queue.hpp>
#include <tenet/train/fit_options.hpp>
#include <tenet/train/pending_step.hpp>
#include <tenet/train/weights.hpp>

namespace tenet::detail {

/// Stands in for a report where there is none.
struct NoReport {
  void write(const std::string&) const {}
  std::string text() const { return {}; }
};

/// Stands in for the trainer of a network that has a mistake: it takes all calls, so that nothing follows the message.
template <class Net, class Optimizer>
struct BrokenTrainer {
  explicit BrokenTrainer(Optimizer = {}, std::uint64_t = 0) {}
  StepResult step(const auto&, const auto&, int) { return {}; }
  PendingStep step_async(const auto&, const auto&, int) { return {}; }
  void synchronize() {}
  void queue_limits(QueueLimits) {}
  FitReport fit(const auto&, const FitOptions& = {}) { return {}; }
  Evaluation evaluate(const auto&) { return {}; }
  std::span<const float> predict(const auto&, int) { return {}; }
  void save(const std::string&) {}
  void load(const std::string&) {}
  Weights<Net>& weights();
  Optimizer& optimizer();
  std::span<const float> gradient(const std::string&) const { return {}; }
  const float* gradients() const { return nullptr; }
  std::string summary() { return {}; }
  static std::string graph() { return {}; }
  NoReport timeline() const { return {}; }
  long activation_floats() const { return 0; }
};

}  // namespace tenet::detail
