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
/// They are static, as for clang no object whose class has a failed assertion is one of its base.
template <class Net, class Optimizer>
struct BrokenTrainer {
  explicit BrokenTrainer(Optimizer = {}, std::uint64_t = 0) {}
  static StepResult step(const auto&, const auto&, int) { return {}; }
  static PendingStep step_async(const auto&, const auto&, int, const Awaited& = {}) { return {}; }
  static void synchronize() {}
  static void queue_limits(QueueLimits) {}
  static FitReport fit(const auto&, const FitOptions& = {}) { return {}; }
  static Evaluation evaluate(const auto&) { return {}; }
  static std::span<const float> predict(const auto&, int) { return {}; }
  static void save(const std::string&) {}
  static void load(const std::string&) {}
  static Weights<Net>& weights();
  static Optimizer& optimizer();
  static std::span<const float> gradient(const std::string&) { return {}; }
  static const float* gradients() { return nullptr; }
  static std::string summary() { return {}; }
  static std::string graph() { return {}; }
  static NoReport timeline() { return {}; }
  static long activation_floats() { return 0; }
};

}  // namespace tenet::detail
