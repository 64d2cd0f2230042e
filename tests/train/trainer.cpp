#include "tenet/train/trainer.hpp"

#include <signal.h>

#include <tenet/nn/activation.hpp>
#include <tenet/nn/batch_norm.hpp>
#include <tenet/nn/dropout.hpp>
#include <tenet/nn/linear.hpp>
#include <tenet/nn/sequential.hpp>
#include <tenet/optim/adam.hpp>
#include <tenet/optim/sgd.hpp>

#include "../support/network.hpp"
#include "../temporary_folder.hpp"

using namespace tenet;

namespace {
using Net = Sequential<Linear<6, 16>, Tanh, Dropout<10>, Linear<16, 3>>;
using Learner = Trainer<Net, CrossEntropy, Sgd, Features<6>, Cpu<0, 1>>;
using Catch::Contains;
using Set = TensorDataset<float, std::int32_t>;

// Points about three centres; the label is the centre.
Set points(int count, std::uint64_t stream = 0) {
  network::Floats x = network::numbers(6L * count, stream);
  std::vector<std::int32_t> labels;
  for (int i = 0; i < count; ++i) {
    labels.push_back(i % 3);
    x[static_cast<std::size_t>(6 * i + i % 3)] += 1.5f;
  }
  return {x, {6}, labels};
}
auto loader(int count, int batch_size, bool shuffle = true, int workers = 0) {
  return DataLoader{points(count), {.batch_size = batch_size, .shuffle = shuffle, .workers = workers, .seed = 4}};
}
FitOptions quiet(int epochs = 1) {
  FitOptions options;
  options.epochs = epochs;
  options.progress = nullptr;
  return options;
}
network::Floats parameters(auto& trainer) {
  return {trainer.weights().parameters(),
          trainer.weights().parameters() + std::decay_t<decltype(trainer.weights())>::table.parameter_floats};
}
}  // namespace

TEST_CASE("fit learns, and evaluate agrees") {
  Learner trainer{{.learning_rate = 0.3f, .momentum = 0.9f}};
  auto data = loader(150, 25);
  const double before = trainer.evaluate(data).loss;
  const FitReport report = trainer.fit(data, quiet(8));
  REQUIRE(report.epochs.size() == 8);
  CHECK_FALSE(report.interrupted);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(report.epochs[i].epoch == static_cast<int>(i) + 1);
    CHECK(report.epochs[i].samples == 150);
    CHECK(report.epochs[i].seconds > 0);
  }
  CHECK(report.epochs[7].loss < 0.6 * report.epochs[0].loss);
  CHECK(report.epochs[7].accuracy > 0.8);
  const Evaluation after = trainer.evaluate(data);
  CHECK(after.loss < 0.5 * before);
  CHECK(after.accuracy > 0.85);
  CHECK(after.samples == 150);
  const Evaluation unseen = trainer.evaluate(DataLoader{points(90, 1), {.batch_size = 90}});
  CHECK(unseen.accuracy > 0.7);
}

TEST_CASE("a prediction's highest scores are what evaluation counts, neither changes the network") {
  Learner trainer{{.learning_rate = 0.1f}, 2};
  trainer.fit(loader(60, 10), quiet());
  const network::Floats before = parameters(trainer);
  const Set set = points(60);
  network::Floats x(360);
  std::vector<std::int32_t> labels(60);
  for (std::size_t i = 0; i < 60; ++i) set.read(static_cast<long>(i), &x[6 * i], &labels[i]);
  const auto scores = trainer.predict(x.data(), 60);
  REQUIRE(scores.size() == 180);
  int right = 0;
  for (std::size_t i = 0; i < 60; ++i) {
    const float* const row = &scores[3 * i];
    right += std::max_element(row, row + 3) - row == labels[i];
  }
  const network::Floats first(scores.begin(), scores.end());
  CHECK(trainer.evaluate(loader(60, 10)).accuracy == Approx(right / 60.0));
  const auto again = trainer.predict(x.data(), 60);
  CHECK(network::Floats(again.begin(), again.end()) == first);
  const auto one = trainer.predict(x.data() + 6 * 7, 1);  // a smaller batch after a larger one
  CHECK(one[0] == Approx(first[21]));
  CHECK(parameters(trainer) == before);
  CHECK(trainer.weights().steps() == 6);
}

TEST_CASE("the last, smaller batch counts by its samples") {
  Learner trainer;
  const Evaluation whole = trainer.evaluate(loader(50, 50)), uneven = trainer.evaluate(loader(50, 16));
  CHECK(uneven.samples == 50);
  CHECK(uneven.loss == Approx(whole.loss).epsilon(1e-5));
  CHECK(uneven.accuracy == Approx(whole.accuracy));

  double loss = 0, accuracy = 0;
  FitOptions options = quiet();
  options.on_step = [&](long step, const StepResult& result) {
    loss += static_cast<double>(result.loss) * (step <= 3 ? 16 : 2);
    accuracy += static_cast<double>(result.accuracy) * (step <= 3 ? 16 : 2);
  };
  const FitReport report = trainer.fit(loader(50, 16), options);
  CHECK(report.epochs[0].samples == 50);
  CHECK(report.epochs[0].loss == Approx(loss / 50));
  CHECK(report.epochs[0].accuracy == Approx(accuracy / 50));
}

TEST_CASE("the gradient of a step is that of the batch's mean loss, whatever its size") {
  using Plain = Trainer<Linear<6, 3>, CrossEntropy, Sgd, Features<6>, Reference>;
  Plain trainer{{.learning_rate = 0}};
  const Set set = points(4);
  network::Floats x(24);
  std::vector<std::int32_t> labels(4);
  for (std::size_t i = 0; i < 4; ++i) set.read(static_cast<long>(i), &x[6 * i], &labels[i]);
  network::Floats mean(18);
  double loss = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    loss += trainer.step(&x[6 * i], &labels[i], 1).loss / 4.0;
    for (std::size_t j = 0; j < 18; ++j) mean[j] += trainer.gradients()[j] / 4;
  }
  CHECK(trainer.step(x.data(), labels.data(), 4).loss == Approx(loss));
  CHECK(trainer.gradient("weight").data() == trainer.gradients());
  CHECK(trainer.gradient("bias").size() == 3);
  CHECK_THROWS_AS(trainer.gradient("weights"), Error);
  for (std::size_t j = 0; j < 18; ++j) CHECK(trainer.gradients()[j] == Approx(mean[j]).margin(1e-6));
}

TEST_CASE("one seed gives one result, bit for bit, also from worker threads") {
  const auto train = [](std::uint64_t seed, int workers) {
    Learner trainer{{.learning_rate = 0.2f, .momentum = 0.5f}, seed};
    trainer.fit(loader(70, 16, true, workers), quiet(2));
    return parameters(trainer);
  };
  const network::Floats first = train(5, 0);
  CHECK(train(5, 0) == first);
  CHECK(train(5, 2) == first);
  CHECK(train(6, 0) != first);
}

TEST_CASE("a training reads one epoch of its loader after the other") {
  std::vector<long> epochs;
  struct Recorder {
    std::vector<long>* asked;
    long size() const { return 4; }
    void order(long epoch, std::span<long> indices) const {
      asked->push_back(epoch);
      std::fill(indices.begin(), indices.end(), 0L);
    }
  };
  Learner trainer;
  trainer.fit(DataLoader{points(4), Recorder{&epochs}, {.batch_size = 4}}, quiet(3));
  CHECK(epochs == std::vector<long>{0, 1, 2});
}

TEST_CASE("callbacks see every step and every epoch") {
  Learner trainer;
  std::vector<long> steps;
  std::vector<int> epochs;
  FitOptions options = quiet(2);
  options.on_step = [&](long step, const StepResult& result) {
    steps.push_back(step);
    CHECK(result.loss > 0);
    CHECK(result.accuracy >= 0);
  };
  options.on_epoch = [&](const EpochReport& report) {
    epochs.push_back(report.epoch);
    CHECK(steps.size() == 3 * epochs.size());
  };
  trainer.fit(loader(30, 10), options);
  CHECK(steps == std::vector<long>{1, 2, 3, 4, 5, 6});
  CHECK(epochs == std::vector<int>{1, 2});
  CHECK(trainer.weights().steps() == 6);
}

TEST_CASE("a schedule is asked before each step, and its factor is that of the learning rate") {
  std::vector<std::array<long, 3>> asked;
  FitOptions options = quiet(2);
  options.schedule = [&](const TrainingPosition& at) {
    asked.push_back({at.step, at.total_steps, at.epoch});
    return 0.25f;
  };
  Learner scheduled{{.learning_rate = 0.4f}}, slower{{.learning_rate = 0.1f}};
  scheduled.fit(loader(20, 10), options);
  slower.fit(loader(20, 10), quiet(2));
  CHECK(asked == std::vector<std::array<long, 3>>{{0, 4, 0}, {1, 4, 0}, {2, 4, 1}, {3, 4, 1}});
  CHECK(parameters(scheduled) == parameters(slower));

  // Afterwards a step has the optimizer's own rate again.
  const Set set = points(1);
  network::Floats x(6);
  std::int32_t label = 0;
  set.read(0, x.data(), &label);
  slower.optimizer().learning_rate = 0.4f;
  scheduled.step(x.data(), &label, 1);
  slower.step(x.data(), &label, 1);
  CHECK(parameters(scheduled) == parameters(slower));
}

TEST_CASE("a callback that throws ends the training and leaves no factor behind") {
  Learner trainer{{.learning_rate = 0.1f}};
  FitOptions options = quiet();
  options.schedule = ConstantLR{0};
  options.on_step = [](long, const StepResult&) { throw std::runtime_error("enough"); };
  auto data = loader(20, 10);
  CHECK_THROWS_WITH(trainer.fit(data, options), "enough");
  CHECK(trainer.weights().steps() == 1);
  const network::Floats before = parameters(trainer);
  const float x[6] = {1, 2, 3, 4, 5, 6};
  const std::int32_t label = 0;
  trainer.step(x, &label, 1);
  CHECK(parameters(trainer) != before);
  CHECK(trainer.fit(data, quiet()).epochs[0].samples == 20);  // the loader is free again
}

TEST_CASE("training ends after the epoch that is enough") {
  Learner trainer;
  std::vector<int> asked;
  FitOptions options = quiet(5);
  options.on_epoch = [&](const EpochReport& report) { asked.push_back(-report.epoch); };
  options.stop_after = [&](const EpochReport& report) {
    asked.push_back(report.epoch);
    return report.epoch == 2;
  };
  const FitReport report = trainer.fit(loader(30, 10), options);
  CHECK(asked == std::vector<int>{-1, 1, -2, 2});
  CHECK(report.epochs.size() == 2);
  CHECK_FALSE(report.interrupted);
  CHECK(trainer.weights().steps() == 6);
}

TEST_CASE("Ctrl-C ends the training after the step under way") {
  Learner trainer;
  int epochs = 0;
  FitOptions options = quiet(5);
  options.on_step = [&](long step, const StepResult&) {
    if (step == 4) raise(SIGINT);
  };
  options.on_epoch = [&](const EpochReport&) { ++epochs; };
  auto data = loader(30, 10);
  const FitReport report = trainer.fit(data, options);
  CHECK(report.interrupted);
  REQUIRE(report.epochs.size() == 2);
  CHECK(report.epochs[0].samples == 30);
  CHECK(report.epochs[1].samples == 10);
  CHECK(report.epochs[1].loss > 0);
  CHECK(epochs == 2);
  CHECK(trainer.weights().steps() == 4);
  CHECK_FALSE(trainer.fit(data, quiet()).interrupted);
}

TEST_CASE("a label that is no class is an error, before anything is changed") {
  Learner trainer;
  const network::Floats before = parameters(trainer), x = network::numbers(12);
  const std::int32_t high[] = {0, 3}, low[] = {-1, 0};
  CHECK_THROWS_AS(trainer.step(x.data(), high, 2), Error);
  CHECK_THROWS_WITH(trainer.step(x.data(), high, 2), Contains("sample 1") && Contains("0 to 2") && Contains("found 3"));
  CHECK_THROWS_WITH(trainer.step(x.data(), low, 2), Contains("sample 0") && Contains("found -1"));
  CHECK_THROWS_WITH(trainer.evaluate(DataLoader{Set{x, {6}, {0, 7}}, {.batch_size = 2}}), Contains("found 7"));
  CHECK_THROWS_WITH(trainer.step(x.data(), high, 0), Contains("at least one sample"));
  CHECK(parameters(trainer) == before);
  CHECK(trainer.weights().steps() == 0);
}

TEST_CASE("a data set that does not fit the network is an error that shows both shapes") {
  Learner trainer;
  CHECK_THROWS_WITH(trainer.fit(DataLoader{Set{network::numbers(10), {5}, {0, 1}}, {.batch_size = 2}}, quiet()),
                    Contains("inputs") && Contains("expected float32 x 6") && Contains("found float32 x 5"));
  CHECK_THROWS_WITH(trainer.evaluate(DataLoader{Set{network::numbers(12), {2, 3}, {0, 1}}, {.batch_size = 2}}),
                    Contains("inputs") && Contains("found float32 x 2 x 3"));
  CHECK_THROWS_WITH(trainer.evaluate(DataLoader{Set{network::numbers(12), {6}, {0, 1, 1, 0}, {2}}, {.batch_size = 2}}),
                    Contains("targets") && Contains("expected int32,") && Contains("found int32 x 2"));
  CHECK(trainer.weights().steps() == 0);
}

TEST_CASE("a trained network goes through a file") {
  const TemporaryFolder folder;
  Learner one{{.learning_rate = 0.1f}, 1}, two{{}, 2};
  one.fit(loader(30, 10), quiet());
  one.save(folder / "net.safetensors");
  two.load(folder / "net.safetensors");
  auto data = loader(30, 10);
  CHECK(one.evaluate(data).loss == two.evaluate(data).loss);
}

TEST_CASE("after each step, predictions and evaluations are those of a trainer that begins with the new weights") {
  using Normed =
      Trainer<Sequential<BatchNorm2d<2>, Flatten, Linear<6, 3>>, CrossEntropy, Sgd, Image<2, 1, 3>, Cpu<0, 1>>;
  const TemporaryFolder folder;
  const network::Floats x = network::numbers(48);
  const std::vector<std::int32_t> labels{0, 1, 2, 0, 1, 2, 0, 1};
  DataLoader data{Set{x, {2, 1, 3}, labels}, {.batch_size = 8}};
  Normed trainer{{.learning_rate = 0.1f}};
  for (int step = 0; step < 3; ++step) {
    trainer.step(x.data(), labels.data(), 8);
    trainer.save(folder / "net.safetensors");
    Normed fresh;
    fresh.load(folder / "net.safetensors");
    const auto found = trainer.predict(x.data(), 8), expected = fresh.predict(x.data(), 8);
    CHECK(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
    CHECK(trainer.evaluate(data).loss == fresh.evaluate(data).loss);
  }
}

TEST_CASE("activations are planned for the largest batch") {
  Learner trainer;
  CHECK(trainer.activation_floats() == 0);
  const network::Floats x = network::numbers(60);
  const std::vector<std::int32_t> labels(10, 1);
  trainer.step(x.data(), labels.data(), 2);
  const long small = trainer.activation_floats();
  trainer.step(x.data(), labels.data(), 10);
  const long large = trainer.activation_floats();
  CHECK(large > small);
  trainer.step(x.data(), labels.data(), 2);
  CHECK(trainer.activation_floats() == large);
}
