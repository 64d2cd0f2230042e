#include "tenet/exec/resident_execution.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "../support/far_device.hpp"
#include "../support/laned_device.hpp"
#include "../temporary_folder.hpp"
#include "tenet/data/resident.hpp"
#include "tenet/tenet.hpp"

using namespace tenet;

namespace {

/// With everything that is kept from step to step: parameters, running statistics, optimizer states, dropout's seed.
struct Net : Sequential<Conv2d<1, 4, 3>, BatchNorm2d<4>, ReLU, MaxPool2d<2>, Dropout<25>, Flatten, Linear<36, 3>> {};
using Shape = Image<1, 8, 8>;
template <class Device>
using TrainerOn = Trainer<Net, CrossEntropy, Adam, Shape, Device>;

struct Samples {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  explicit Samples(int count) : images(static_cast<std::size_t>(count) * 64), labels(static_cast<std::size_t>(count)) {
    Random random(5);
    for (float& pixel : images) pixel = random.uniform(-1, 1);
    for (std::int32_t& label : labels) label = static_cast<int>(random.below(3));
  }
};

void check_same(Weights<Net>& a, Weights<Net>& b) {
  for (const std::string& name : a.names()) {
    if (name.ends_with("num_batches_tracked")) continue;
    CAPTURE(name);
    const auto left = a[name], right = b[name];
    CHECK(std::equal(left.begin(), left.end(), right.begin(), right.end()));
  }
}

/// A trainer on the reference device and one on a device with a memory of its own, that do the same.
struct Pair {
  TrainerOn<Reference> here{{.learning_rate = 0.05f}, 3};
  TrainerOn<far::Device> there{{.learning_rate = 0.05f}, 3};
  Samples samples{12};

  void step(int batch) {
    const StepResult a = here.step(samples.images.data(), samples.labels.data(), batch),
                     b = there.step(samples.images.data(), samples.labels.data(), batch);
    CHECK(a.loss == b.loss);
    CHECK(a.accuracy == b.accuracy);
  }
};

}  // namespace

TEST_CASE("training in a device's memory gives the same numbers", "[exec][resident_execution]") {
  Pair pair;
  for (const int batch : {4, 4, 12, 4, 3, 12, 4}) pair.step(batch);
  check_same(pair.here.weights(), pair.there.weights());
  pair.step(4);
  CHECK(pair.here.gradient("6.weight")[5] == pair.there.gradient("6.weight")[5]);
  CHECK(std::memcmp(pair.here.gradients(), pair.there.gradients(), 4 * 36) == 0);
}

TEST_CASE("updates in the backward pass, narrow activations and several states work in a device's memory",
          "[exec][resident_execution]") {
  const Samples samples(8);
  const auto check = [&]<class... Policies>(std::tuple<Policies...>*) {
    Trainer<Net, CrossEntropy, Adam, Shape, Reference, Policies...> here{{.learning_rate = 0.05f}, 3};
    Trainer<Net, CrossEntropy, Adam, Shape, far::Device, Policies...> there{{.learning_rate = 0.05f}, 3};
    for (int i = 0; i < 4; ++i)
      CHECK(here.step(samples.images.data(), samples.labels.data(), 8).loss ==
            there.step(samples.images.data(), samples.labels.data(), 8).loss);
    check_same(here.weights(), there.weights());
  };
  check(static_cast<std::tuple<UpdateInBackward>*>(nullptr));
  check(static_cast<std::tuple<BFloat16>*>(nullptr));
}

TEST_CASE("the host reads what the last step has made, and its changes are brought there",
          "[exec][resident_execution]") {
  Pair pair;
  pair.step(4);
  Weights<Net>& here = pair.here.weights();
  Weights<Net>& there = pair.there.weights();  // kept over steps
  pair.step(4);
  CHECK(there["6.bias"][0] == here["6.bias"][0]);
  pair.step(4);
  here["6.bias"][1] = there["6.bias"][1] = 0.75f;  // the other numbers are those of the last step, too
  pair.step(4);
  check_same(here, there);
  here.initialize(9), there.initialize(9);
  pair.step(12);
  check_same(here, there);
}

TEST_CASE("evaluation and prediction between steps use the newest parameters", "[exec][resident_execution]") {
  Pair pair;
  const TensorDataset images(pair.samples.images, {1, 8, 8}, pair.samples.labels);
  DataLoader loader{images, {.batch_size = 5}};
  for (int round = 0; round < 3; ++round) {
    pair.step(4);
    const Evaluation a = pair.here.evaluate(loader), b = pair.there.evaluate(loader);
    CHECK(a.loss == b.loss);
    const auto left = pair.here.predict(pair.samples.images.data(), 7);
    const auto right = pair.there.predict(pair.samples.images.data(), 7);
    CHECK(std::equal(left.begin(), left.end(), right.begin(), right.end()));
  }
}

TEST_CASE("what is saved is what was trained, and what is loaded is used", "[exec][resident_execution]") {
  const TemporaryFolder folder;
  const std::string path = folder / "far.safetensors";
  Pair pair;
  pair.step(4), pair.step(4);
  pair.there.save(path);
  pair.step(12);  // beside what was saved
  pair.here.load(path), pair.there.load(path);
  check_same(pair.here.weights(), pair.there.weights());
  Model<Net, Shape, far::Device> model(path);
  const auto scores = model(pair.samples.images.data(), 2);
  const auto expected = pair.here.predict(pair.samples.images.data(), 2);
  CHECK(std::equal(expected.begin(), expected.end(), scores.begin(), scores.end()));
}

TEST_CASE("a step copies its batch in and its results out, and no parameters", "[exec][resident_execution]") {
  Pair pair;
  far::Executor& executor = pair.there.executor();
  for (int i = 0; i < 3; ++i) pair.step(4);
  const long in = executor.bytes_in, out = executor.bytes_out, allocations = far::Executor::allocations;
  pair.step(4);
  const long numbers = static_cast<long>(TrainerOn<far::Device>::Training::numbers.size());
  CHECK(executor.bytes_in - in == 4 * (4 * 64 + 4 + numbers));
  CHECK(executor.bytes_out - out == 4 * 2);
  CHECK(far::Executor::allocations == allocations);
}

TEST_CASE("a recorded step is one call behind the copies of its batch", "[exec][resident_execution]") {
  Pair pair;
  far::Executor& executor = pair.there.executor();
  for (int i = 0; i < 2; ++i) pair.step(4);
  const long calls = executor.calls;
  pair.step(4);  // with another seed
  CHECK(executor.calls - calls == 3);
}

TEST_CASE("recordings are dropped whose results would be copied to where there is no room for a batch any more",
          "[exec][resident_execution]") {
  using P = TrainerOn<far::Device>::Predicting;
  ResidentDevice<far::Device, far::Kernels> device;
  ResidentExecution<P> execution(device);
  Weights<Net> weights(3);
  execution.bind(Arena::parameters, weights.parameters());
  execution.bind(Arena::buffers, weights.buffers());
  execution.use_weights(1);
  const Samples samples(12);
  execution.give(0, samples.images.data());
  const far::Executor& executor = device.executor();
  execution.run_there(12);  // the device's memory has room for 12 samples from here on, the host's has not
  for (int i = 0; i < 3; ++i) execution.run(4);
  CHECK(executor.recorded == 1);
  const std::vector<float> scores(execution.result(0), execution.result(0) + 4 * 3);
  execution.run(12);
  execution.run(4);
  CHECK(executor.recorded == 2);
  CHECK(std::equal(scores.begin(), scores.end(), execution.result(0)));
  execution.run(4);
  CHECK(executor.recorded == 2);
}

namespace {

/// A device that does what it is given when it is waited for, and no earlier, from its first recording on.
struct LateExecutor : far::Executor {
  using far::Executor::Executor;
  void copy_in(void* to, const void* from, long bytes) {
    give_later([=, this] { far::Executor::copy_in(to, from, bytes); });
  }
  void copy_out(void* to, const void* from, long bytes) {
    give_later([=, this] { far::Executor::copy_out(to, from, bytes); });
  }
  void replay(const Recording& recording) {
    give_later([=, this] {
      is_at_work_ = true;
      far::Executor::replay(recording);
      is_at_work_ = false;
    });
  }
  void synchronize() {
    for (const auto& task : std::exchange(tasks_, {})) task();
    far::Executor::synchronize();
  }

 private:
  void give_later(std::function<void()> task) {
    if (is_at_work_ || recorded == 0) return task();
    tasks_.push_back(std::move(task));
  }
  std::vector<std::function<void()>> tasks_;
  bool is_at_work_ = false;
};
struct LateKernels : ReferenceKernels {
  using Executor = LateExecutor;
  using Kernel = void (*)(Executor&, const Arguments&);
};
struct LateDevice {
  using Kernels = LateKernels;
  static constexpr int index = 0;
  static constexpr int threads() { return 1; }
};

/// The parameters behind some runs, of which each has another learning rate; the host waits for each, or for none.
template <class Device, class Kernels>
std::vector<float> after_runs(bool waits) {
  using P = Trainer<Net, CrossEntropy, PlainSgd, Shape, Device>::Training;
  ResidentDevice<Device, Kernels> device;
  ResidentExecution<P> execution(device);
  Weights<Net> weights(3);
  std::vector<float> parameters(weights.parameters(), weights.parameters() + P::slots.parameter_floats);
  std::vector<float> gradients(static_cast<std::size_t>(P::slots.parameter_floats));
  execution.bind(Arena::parameters, parameters.data());
  execution.bind(Arena::buffers, weights.buffers());
  execution.bind(Arena::gradients, gradients.data());
  execution.use_weights(1);
  const Samples samples(12);
  execution.give(0, samples.images.data());
  execution.give(1, samples.labels.data());
  for (int i = 0; i < 5; ++i) {
    const auto scalars = PlainSgd{.learning_rate = 0.05f * static_cast<float>(1 + i)}.scalars(i);
    execution.set_scalars(scalars.data(), static_cast<std::uint64_t>(i));
    execution.run(4);
    if (waits || i == 0) execution.await();  // the first one is not recorded
  }
  execution.await();
  device.has_changed(2);
  device.bring_back();
  return parameters;
}

}  // namespace

TEST_CASE("numbers that a run has not read yet are not written over", "[exec][resident_execution]") {
  const auto expected = after_runs<far::Device, far::Kernels>(true);
  CHECK(after_runs<LateDevice, LateKernels>(true) == expected);
  CHECK(after_runs<LateDevice, LateKernels>(false) == expected);
}

TEST_CASE("steps are recorded once a size of batch, and again where the memory has moved",
          "[exec][resident_execution]") {
  Pair pair;
  far::Executor& executor = pair.there.executor();
  pair.step(4);
  CHECK(executor.recorded == 0);  // the first run is not
  pair.step(4);
  CHECK(executor.recorded == 1);
  pair.step(4), pair.step(3), pair.step(4), pair.step(3), pair.step(3);
  CHECK(executor.recorded == 2);
  CHECK(executor.replayed == 5);
  pair.step(12);  // a larger batch: activations lie elsewhere
  pair.step(4);
  CHECK(executor.recorded == 2);
  CHECK(executor.replayed == 5);
  pair.step(4), pair.step(12);
  CHECK(executor.recorded == 4);
}

TEST_CASE("recordings are kept of a few sizes only", "[exec][resident_execution]") {
  Pair pair;
  far::Executor& executor = pair.there.executor();
  pair.step(12);
  for (int round = 0; round < 2; ++round)
    for (const int batch : {1, 2, 3, 4, 5}) pair.step(batch);
  CHECK(executor.recorded == 5);
  for (const int batch : {6, 7, 8, 9}) pair.step(batch);  // the ninth further size: all start anew
  pair.step(1), pair.step(1);
  CHECK(executor.recorded == 6);
}

TEST_CASE("what fails on a device is an error that names the program, and one by one the step",
          "[exec][resident_execution]") {
  const auto message = [](bool one_by_one, long after) {
    Pair pair;
    pair.step(4);
    far::Executor& executor = pair.there.executor();
    executor.one_by_one = one_by_one;
    executor.fails_at = executor.waits + after;
    try {
      pair.there.step(pair.samples.images.data(), pair.samples.labels.data(), 4);
    } catch (const Error& error) {
      executor.fails_at = executor.waits + 1;  // and once more, while the trainer ends
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(message(false, 1) == "training: far: running it; expected success, found an illegal address");
  const auto& steps = TrainerOn<far::Device>::Training::lowered.steps;
  for (const int s : {0, 3, 7})
    CHECK(message(true, s + 1) == std::string("training, step ") + steps[s].name +
                                      ": far: running it; expected success, found an illegal address");
}

TEST_CASE("one by one steps give the same numbers", "[exec][resident_execution]") {
  Pair pair;
  pair.there.executor().one_by_one = true;
  for (const int batch : {4, 4, 12, 3}) pair.step(batch);
  CHECK(pair.there.executor().recorded == 0);
  check_same(pair.here.weights(), pair.there.weights());
}

TEST_CASE("a run is in a range named as its program, each step that is started by itself in one within",
          "[exec][resident_execution]") {
  Pair pair;
  pair.step(4);
  far::Executor& executor = pair.there.executor();
  const auto taken = [&](const auto& work) {
    executor.ranges.clear();
    work();
    CHECK(executor.depth == 0);
    return std::exchange(executor.ranges, {});
  };
  const auto expected = []<class Program>(std::type_identity<Program>) {
    std::vector<std::string> names{Program::Definition::name};
    for (int s = 0; s < Program::lowered.used.steps; ++s) names.push_back(" " + step_name<Program>(s));
    return names;
  };
  using Training = TrainerOn<far::Device>::Training;
  using Predicting = TrainerOn<far::Device>::Predicting;
  const auto first = taken([&] { pair.step(3); });
  CHECK(first == expected(std::type_identity<Training>{}));
  CHECK(std::count(first.begin(), first.end(), " conv2d 0") == 1);
  auto recorded = taken([&] { pair.step(3); });
  REQUIRE(recorded.size() == first.size() + 1);
  CHECK(recorded[1] == " recording");
  recorded.erase(recorded.begin() + 1);  // what is recorded is started when it is replayed first
  CHECK(recorded == first);
  CHECK(taken([&] { pair.there.predict(pair.samples.images.data(), 2); }) ==
        expected(std::type_identity<Predicting>{}));
  executor.one_by_one = true;
  CHECK(taken([&] { pair.step(3); }) == first);
  executor.fails_at = executor.waits + 3;  // an error leaves no range open
  CHECK_THROWS_AS(pair.there.step(pair.samples.images.data(), pair.samples.labels.data(), 3), Error);
  CHECK(executor.depth == 0);
}

TEST_CASE("data that stays on a device trains as a loader on the host does, and is not copied by steps",
          "[exec][resident_execution]") {
  Pair pair;
  const Samples many(30);
  const Map images(TensorDataset(many.images, {1, 8, 8}, many.labels), RandomCrop{2});
  DataLoader here{images, {.batch_size = 8, .shuffle = true, .seed = 2}};
  DataLoader there{Resident{images}, {.batch_size = 8, .shuffle = true, .seed = 2}};
  std::vector<float> expected, found;
  FitOptions options{.epochs = 3, .progress = nullptr};
  options.on_step = [&](long, const StepResult& result) { expected.push_back(result.loss); };
  pair.here.fit(here, options);
  long in = 0, step_bytes = 0;
  far::Executor& executor = pair.there.executor();
  options.on_step = [&](long, const StepResult& result) {
    found.push_back(result.loss);
    step_bytes = executor.bytes_in - std::exchange(in, executor.bytes_in);
  };
  pair.there.fit(there, options);
  CHECK(found.size() == 12);
  CHECK(found == expected);
  CHECK(executor.recorded == 3);  // 8 samples, with each side of the host, and 6 at the end of an epoch
  const long numbers = static_cast<long>(TrainerOn<far::Device>::Training::numbers.size());
  CHECK(step_bytes == 4 * (numbers + 2 + 6));  // a seed, and which samples
  pair.step(12), pair.step(8);                 // from the host between
  const Evaluation a = pair.here.evaluate(here), b = pair.there.evaluate(there);
  CHECK(a.loss == b.loss);
  CHECK(a.accuracy == b.accuracy);
  CHECK(a.samples == b.samples);
  options.on_step = {};
  pair.here.fit(here, options), pair.there.fit(there, options);
  check_same(pair.here.weights(), pair.there.weights());
  pair.step(8);
}

TEST_CASE("labels of data that stays on a device are checked, and its transforms", "[exec][resident_execution]") {
  Pair pair;
  Samples wrong(10);
  const auto fit = [&](const auto& dataset) {
    pair.there.fit(DataLoader{Resident{dataset}, {.batch_size = 4}}, {.progress = nullptr});
  };
  const auto data = [&] { return TensorDataset(wrong.images, {1, 8, 8}, wrong.labels); };
  CHECK_NOTHROW(fit(data()));
  wrong.labels[7] = 3;
  CHECK_THROWS_WITH(fit(data()), "Trainer: label of sample 7 of the data set; expected 0 to 2, found 3");
  wrong.labels[7] = 0, wrong.labels[0] = -1;
  CHECK_THROWS_WITH(fit(data()), "Trainer: label of sample 0 of the data set; expected 0 to 2, found -1");
  CHECK_THROWS_WITH(pair.there.evaluate(DataLoader{Resident{data()}, {.batch_size = 4}}),
                    "Trainer: label of sample 0 of the data set; expected 0 to 2, found -1");
  CHECK_THROWS_WITH(fit(TensorDataset(wrong.images, {8, 8}, wrong.labels)),
                    Catch::Matchers::Contains("the data set's inputs do not fit the network"));
  pair.there.executor().fails_at = pair.there.executor().waits + 2;  // behind the copy
  wrong.labels[0] = 0;
  CHECK_THROWS_WITH(fit(data()), "training: far: running it; expected success, found an illegal address");
}

TEST_CASE("queued steps run in a device's memory, too", "[exec][resident_execution]") {
  Pair pair;
  for (int i = 0; i < 5; ++i) {
    pair.here.step(pair.samples.images.data(), pair.samples.labels.data(), 4);
    pair.there.step_async(pair.samples.images.data(), pair.samples.labels.data(), 4);
  }
  pair.there.synchronize();
  check_same(pair.here.weights(), pair.there.weights());
}

namespace {

/// Batches of a size each, in the same memory: whatever was read of the last one is gone.
struct SharedMemory {
  const Samples* samples;
  std::vector<int> sizes;
  mutable std::vector<float> images = std::vector<float>(64 * 12);
  mutable std::vector<std::int32_t> labels = std::vector<std::int32_t>(12);

  long size() const { return static_cast<long>(sizes.size()); }
  SampleLayout layout() const { return {{1, 8, 8}, DataKind::float32, {}, DataKind::int32}; }
  TensorDataset<float, std::int32_t> dataset() const { return {samples->images, {1, 8, 8}, samples->labels}; }

  struct Iterator {
    const SharedMemory* from;
    std::size_t at;
    Batch operator*() const {
      const int size = from->sizes[at], first = static_cast<int>(at) % 3;
      std::copy_n(from->samples->images.data() + 64 * first, 64 * size, from->images.data());
      std::copy_n(from->samples->labels.data() + first, size, from->labels.data());
      Batch batch;
      batch.input = from->images.data();
      batch.target = from->labels.data();
      batch.size = size;
      return batch;
    }
    Iterator& operator++() {
      std::fill(from->images.begin(), from->images.end(), 1e30f);
      std::fill(from->labels.begin(), from->labels.end(), -1);
      ++at;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at != other.at; }
  };
  struct Range {
    const SharedMemory* from;
    Iterator begin() const { return {from, 0}; }
    Iterator end() const { return {from, from->sizes.size()}; }
  };
  Range epoch(long) const { return {this}; }
};

}  // namespace

TEST_CASE("a training starts steps before the results of those before, with the same numbers",
          "[exec][resident_execution]") {
  const Samples samples(16);
  const SharedMemory loader{&samples, {4, 4, 12, 4, 3, 4, 4}};
  const auto train = [&]<class Device>(std::type_identity<Device>, bool watched) {
    TrainerOn<Device> trainer{{.learning_rate = 0.05f}, 3};
    FitOptions options{.epochs = 3, .progress = nullptr};
    long steps = 0;
    if (watched) options.on_step = [&](long step, const StepResult&) { CHECK(step == ++steps); };
    std::vector<double> numbers;
    for (const EpochReport& epoch : trainer.fit(loader, options).epochs)
      numbers.insert(numbers.end(), {epoch.loss, epoch.accuracy, static_cast<double>(epoch.samples)});
    CHECK(steps == (watched ? 21 : 0));
    if constexpr (std::is_same_v<Device, laned::Device>) CHECK(trainer.executor().awaited_copies == 21);
    numbers.push_back(trainer.step(samples.images.data(), samples.labels.data(), 4).loss);  // and goes on as ever
    numbers.push_back(trainer.predict(samples.images.data(), 2)[1]);
    return numbers;
  };
  const auto expected = train(std::type_identity<Reference>{}, true);
  for (const bool watched : {false, true}) {
    CHECK(train(std::type_identity<far::Device>{}, watched) == expected);
    CHECK(train(std::type_identity<laned::Device>{}, watched) == expected);
  }
}

TEST_CASE("results of two runs that were started ahead are kept apart", "[exec][resident_execution]") {
  using P = TrainerOn<laned::Device>::Training;
  ResidentDevice<laned::Device, laned::Kernels> device;
  ResidentExecution<P> execution(device);
  Weights<Net> weights(3);
  std::vector<float> gradients(static_cast<std::size_t>(P::slots.parameter_floats));
  execution.bind(Arena::parameters, weights.parameters());
  execution.bind(Arena::buffers, weights.buffers());
  execution.bind(Arena::gradients, gradients.data());
  execution.bind(Arena::states, nullptr);
  execution.use_weights(1);
  const auto scalars = Adam{.learning_rate = 0.05f}.scalars(1);
  Samples samples(12);
  execution.give(1, samples.labels.data());
  std::vector<float> losses;
  for (int i = 0; i < 4; ++i) {
    execution.set_scalars(scalars.data(), static_cast<std::uint64_t>(i));
    execution.give(0, samples.images.data() + 64 * i);
    execution.give(1, samples.labels.data() + i);
    const long run = execution.run_ahead(4);
    CHECK(run == i);
    execution.await_inputs();
    losses.push_back(*execution.ahead_result(run, 0));
    if (i > 0) CHECK(*execution.ahead_result(run - 1, 0) == losses[static_cast<std::size_t>(i) - 1]);
  }
  CHECK(losses[0] != losses[1]);
  CHECK(losses[2] != losses[3]);
}
