// n training steps one after the other with their front end, and queued: prints {"network": {"alone": seconds, …}, …}.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "../../examples/models/lenet.hpp"

using namespace tenet;

struct Mlp : Sequential<Linear<784, 256>, ReLU, Linear<256, 10>> {};
struct Small : Sequential<Linear<32, 64>, ReLU, Linear<64, 64>, ReLU, Linear<64, 10>> {};

namespace {

double seconds_of(auto call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A trainer on one core, and a front end on another: it makes each batch by some passes over it, and has some more
/// work with each result.
template <class Net, class Input>
struct Case {
  using Learner = Trainer<Net, CrossEntropy, Sgd, Input, Cpu<0, 1>>;
  static constexpr int batch = 64;

  int steps, passes = 1;
  Learner trainer{{.learning_rate = 0.01f, .momentum = 0.9f}};
  std::vector<float> inputs = std::vector<float>(static_cast<std::size_t>(batch * Input::size)), other = inputs;
  std::vector<std::int32_t> targets = std::vector<std::int32_t>(batch);
  double taken = 0;

  /// The batch of a step: smoothed again and again, until it takes the time that is wanted.
  void prepare(int step) {
    Random random(1, static_cast<std::uint64_t>(step));
    for (float& x : inputs) x = random.uniform(-1, 1);
    for (std::int32_t& target : targets) target = static_cast<std::int32_t>(random.below(10));
    for (int pass = 0; pass < passes; ++pass) {
      for (std::size_t i = 0; i < inputs.size(); ++i)
        other[i] = 0.5f * inputs[i] + 0.5f * inputs[i == 0 ? inputs.size() - 1 : i - 1];
      std::swap(inputs, other);
    }
  }
  void take(const StepResult& result) {
    for (int i = 0; i < passes; ++i) taken = std::sqrt(taken + static_cast<double>(result.loss));
  }

  /// t1, t2, t3 and the time of all steps, one after the other.
  std::array<double, 4> one_by_one() {
    double t1 = 0, t2 = 0, t3 = 0;
    const double all = seconds_of([&] {
      for (int step = 0; step < steps; ++step) {
        StepResult result;
        t1 += seconds_of([&] { prepare(step); });
        t2 += seconds_of([&] { result = trainer.step(inputs.data(), targets.data(), batch); });
        t3 += seconds_of([&] { take(result); });
      }
    });
    return {t1 / steps, t2 / steps, t3 / steps, all};
  }
  /// The least of each, over some rounds: other programs may disturb a few.
  std::array<double, 4> least(int rounds) {
    auto best = one_by_one();
    for (int round = 1; round < rounds; ++round) {
      const auto found = one_by_one();
      for (std::size_t i = 0; i < 4; ++i) best[i] = std::min(best[i], found[i]);
    }
    return best;
  }
  double queued() {
    return seconds_of([&] {
      std::deque<PendingStep> pending;
      for (int step = 0; step < steps; ++step) {
        prepare(step);
        pending.push_back(trainer.step_async(inputs.data(), targets.data(), batch));
        for (; !pending.empty() && pending.front().ready(); pending.pop_front()) take(pending.front().get());
      }
      for (const PendingStep& step : pending) take(step.get());
    });
  }

  std::vector<float> parameters() {
    const float* const first = trainer.weights().parameters();
    return {first, first + Weights<Net>::table.parameter_floats};
  }
};

template <class Net, class Input>
void measure(const char* name, int steps, bool first) {
  using One = Case<Net, Input>;
  One one{steps};
  // A batch takes the front end about three quarters of the time that the step takes.
  const auto before = one.least(10);
  one.passes = 21;
  const double of_twenty = one.least(10)[0] - before[0];
  one.passes = std::max(1, static_cast<int>(20 * (0.75 * before[1] - before[0]) / of_twenty));

  One alone{steps, one.passes}, queued{steps, one.passes};
  alone.one_by_one();
  queued.queued();
  if (alone.taken != queued.taken || alone.parameters() != queued.parameters()) {
    std::fprintf(stderr, "%s: queued steps compute something else\n", name);
    std::exit(1);
  }
  auto best = alone.one_by_one();
  double overlapped = queued.queued();
  for (int round = 1; round < 40; ++round) {  // in turns
    const auto found = alone.one_by_one();
    for (std::size_t i = 0; i < 4; ++i) best[i] = std::min(best[i], found[i]);
    overlapped = std::min(overlapped, queued.queued());
  }
  std::printf("%s\"%s\": {\"steps\": %d, \"t1\": %.9f, \"t2\": %.9f, \"t3\": %.9f, \"alone\": %.9f, \"queued\": %.9f}",
              first ? "{" : ", ", name, steps, best[0], best[1], best[2], best[3], overlapped);
}

}  // namespace

int main() {
  measure<LeNet, Image<1, 28, 28>>("LeNet", 30, true);
  measure<Mlp, Features<784>>("784-256-10", 100, false);
  measure<Small, Features<32>>("32-64-64-10", 1000, false);
  std::printf("}\n");
}
