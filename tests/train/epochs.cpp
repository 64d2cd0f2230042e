#include "tenet/train/epochs.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <string>

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
  for (const int ahead : {0, 1, 2}) {
    float factor = 1;
    int started = 0, finished = 0;
    const FitReport report = detail::run_epochs(
        {.epochs = 2, .progress = nullptr}, 3, executor, factor, ahead, [](long) { return batches(); },
        [&](const Batch&) { ++started; },
        [&] {
          return StepResult{static_cast<float>(++finished), finished % 3 == 0 ? 1.0f : 0.0f};
        });
    REQUIRE(report.epochs.size() == 2);
    CHECK(started == 6);
    CHECK(finished == 6);
    CHECK(report.epochs[0].loss == Approx((4 * 1 + 4 * 2 + 2 * 3) / 10.0));
    CHECK(report.epochs[1].loss == Approx((4 * 4 + 4 * 5 + 2 * 6) / 10.0));
    CHECK(report.epochs[1].accuracy == Approx(0.2));
    CHECK(report.epochs[1].samples == 10);
    CHECK(report.epochs[1].epoch == 2);
  }
  float taken = 0;
  const Evaluation found = detail::evaluate_all(executor, batches(), [&](const Batch& batch) {
    return StepResult{++taken, batch.size == 2 ? 1.0f : 0.0f};
  });
  CHECK(found.loss == Approx(1.8));
  CHECK(found.accuracy == Approx(0.2));
  CHECK(found.samples == 10);
}

TEST_CASE("steps are started ahead of the results of those before, but not beyond an epoch", "[train][epochs]") {
  NoRow executor;
  const auto order = [&](int ahead) {
    float factor = 1;
    std::string result;
    FitOptions options{.epochs = 2, .progress = nullptr};
    options.on_step = [&](long step, const StepResult&) { result += std::to_string(step); };
    options.on_epoch = [&](const EpochReport&) { result += "|"; };
    detail::run_epochs(
        options, 3, executor, factor, ahead, [](long) { return batches(); }, [&](const Batch&) { result += "s"; },
        [&] {
          result += "f";
          return StepResult{};
        });
    return result;
  };
  CHECK(order(0) == "sf1sf2sf3|sf4sf5sf6|");
  CHECK(order(1) == "ssf1sf2f3|ssf4sf5f6|");
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
      options, 3, executor, factor, 1, [](long) { return batches(); }, [&](const Batch&) { factors.push_back(factor); },
      [] { return StepResult{}; });
  REQUIRE(factors.size() == 6);
  CHECK(factors[4] == Approx(4 / 6.0));
  CHECK(factor == 1);
}

TEST_CASE("Ctrl-C ends the loop after the steps under way", "[train][epochs]") {
  NoRow executor;
  for (const int ahead : {0, 1}) {
    float factor = 1;
    int started = 0, finished = 0;
    const FitReport report = detail::run_epochs(
        {.epochs = 5, .progress = nullptr}, 3, executor, factor, ahead, [](long) { return batches(); },
        [&](const Batch&) {
          if (++started == 2) std::raise(SIGINT);
        },
        [&] {
          ++finished;
          return StepResult{};
        });
    CHECK(started == 2);
    CHECK(finished == 2);
    CHECK(report.interrupted);
    CHECK(report.epochs.size() == 1);
  }
}

TEST_CASE("more steps ahead than there is room for are refused", "[train][epochs]") {
  float factor = 1;
  NoRow executor;
  CHECK_THROWS_WITH(detail::run_epochs(
                        {.progress = nullptr}, 3, executor, factor, 4, [](long) { return batches(); },
                        [](const Batch&) {}, [] { return StepResult{}; }),
                    Catch::Contains("at most 3, found 4"));
}
