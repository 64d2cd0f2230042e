#include "tenet/train/broken_trainer.hpp"

#include <catch2/catch.hpp>
#include <tenet/tenet.hpp>
#include <tenet/train/timeline.hpp>

using namespace tenet;

namespace {

using Net = Sequential<Linear<4, 2>>;

/// All that a program may call of a trainer.
template <class T>
concept TakesAllCalls = requires(T& trainer, const float* inputs, const std::int32_t* targets, int& loader) {
  T{Sgd{.learning_rate = 0.1f}, 3};
  { trainer.step(inputs, targets, 2) } -> std::same_as<StepResult>;
  { trainer.step_async(inputs, targets, 2) } -> std::same_as<PendingStep>;
  trainer.synchronize();
  trainer.queue_limits({.tasks = 2});
  { trainer.predict(inputs, 2) } -> std::same_as<std::span<const float>>;
  trainer.save("a file");
  trainer.load("a file");
  { trainer.weights() } -> std::same_as<Weights<Net>&>;
  { trainer.optimizer() } -> std::same_as<Sgd&>;
  { trainer.gradient("weight") } -> std::same_as<std::span<const float>>;
  { trainer.gradients() } -> std::same_as<const float*>;
  { trainer.summary() } -> std::same_as<std::string>;
  { T::graph() } -> std::same_as<std::string>;
  trainer.timeline().write("a file");
  { trainer.timeline().text() } -> std::same_as<std::string>;
  { trainer.activation_floats() } -> std::same_as<long>;
};

using Broken = detail::BrokenTrainer<Net, Sgd>;
static_assert(TakesAllCalls<Trainer<Net, CrossEntropy, Sgd, Features<4>, Timeline<>>>);
static_assert(TakesAllCalls<Broken>);

}  // namespace

TEST_CASE("what stands in for a trainer takes its calls and does nothing", "[broken_trainer]") {
  Broken broken;
  CHECK(broken.fit(0, {.epochs = 3}).epochs.empty());
  CHECK(broken.evaluate(0).samples == 0);
  CHECK(broken.step(nullptr, nullptr, 1).loss == 0);
}
