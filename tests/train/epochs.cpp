#include "tenet/train/epochs.hpp"

#include <catch2/catch.hpp>
#include <csignal>

using namespace tenet;

namespace {

struct NoRow {};

/// Batches of 4, 4 and 2 samples.
std::vector<Batch> batches() {
  std::vector<Batch> result(3);
  for (Batch& batch : result) batch.size = 4;
  result[2].size = 2;
  return result;
}

}  // namespace

TEST_CASE("a batch counts by its samples, in training and in evaluation", "[train][epochs]") {
  NoRow executor;
  float factor = 1;
  int taken = 0;
  const auto step = [&](const Batch& batch) {
    return StepResult{static_cast<float>(++taken), batch.size == 2 ? 1.f : 0.f};
  };
  const FitReport report = detail::run_epochs(
      {.epochs = 2, .progress = nullptr}, 3, executor, factor, [](long) { return batches(); }, step);
  REQUIRE(report.epochs.size() == 2);
  CHECK(report.epochs[0].loss == Approx((4 * 1 + 4 * 2 + 2 * 3) / 10.0));
  CHECK(report.epochs[1].loss == Approx((4 * 4 + 4 * 5 + 2 * 6) / 10.0));
  CHECK(report.epochs[1].accuracy == Approx(0.2));
  CHECK(report.epochs[1].samples == 10);
  CHECK(report.epochs[1].epoch == 2);
  taken = 0;
  const Evaluation found = detail::evaluate_all(executor, batches(), step);
  CHECK(found.loss == Approx(1.8));
  CHECK(found.accuracy == Approx(0.2));
  CHECK(found.samples == 10);
}

TEST_CASE("a schedule knows the step's position, and leaves no factor behind", "[train][epochs]") {
  NoRow executor;
  float factor = 1;
  std::vector<float> factors;
  FitOptions options{.epochs = 2, .progress = nullptr};
  options.schedule = [](const TrainingPosition& at) {
    return static_cast<float>(at.step) / static_cast<float>(at.total_steps);
  };
  detail::run_epochs(
      options, 3, executor, factor, [](long) { return batches(); },
      [&](const Batch&) {
        factors.push_back(factor);
        return StepResult{};
      });
  REQUIRE(factors.size() == 6);
  CHECK(factors[4] == Approx(4 / 6.0));
  CHECK(factor == 1);
}

TEST_CASE("Ctrl-C ends the loop after the step under way", "[train][epochs]") {
  NoRow executor;
  float factor = 1;
  int taken = 0;
  const FitReport report = detail::run_epochs(
      {.epochs = 5, .progress = nullptr}, 3, executor, factor, [](long) { return batches(); },
      [&](const Batch&) {
        if (++taken == 2) std::raise(SIGINT);
        return StepResult{};
      });
  CHECK(taken == 2);
  CHECK(report.interrupted);
  CHECK(report.epochs.size() == 1);
}
