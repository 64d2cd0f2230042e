#include "tenet/train/given.hpp"

#include <catch2/catch.hpp>
#include <tenet/parallel/data_parallel.hpp>

#include "../support/far_device.hpp"
#include "../support/message.hpp"
#include "tenet/exec/resident_execution.hpp"
#include "tenet/parallel/resident_replicas.hpp"
#include "tenet/tenet.hpp"

using namespace tenet;

namespace {

struct Net : Sequential<Linear<6, 8>, ReLU, Linear<8, 3>> {};
template <class... Policies>
using TrainerOn = Trainer<Net, CrossEntropy, Sgd, Features<6>, Policies...>;

/// A list in the memory of a device, whose pointers are of a type of their own: as a thrust::device_vector.
template <class T>
class ThereVector {
 public:
  using value_type = T;
  explicit ThereVector(const std::vector<T>& numbers)
      : memory_(static_cast<T*>(far::Executor::allocate(static_cast<long>(numbers.size() * sizeof(T)), "a test"))),
        size_(numbers.size()) {
    std::copy(numbers.begin(), numbers.end(), memory_);
  }
  ThereVector(const ThereVector&) = delete;
  ~ThereVector() { far::Executor::free(memory_); }
  struct Pointer {
    T* at;
    T* get() const { return at; }
  };
  Pointer data() const { return {memory_}; }
  std::size_t size() const { return size_; }

 private:
  T* memory_;
  std::size_t size_;
};

struct Samples {
  std::vector<float> inputs = std::vector<float>(10 * 6);
  std::vector<std::int32_t> labels = std::vector<std::int32_t>(10);
  Samples() {
    Random random(5);
    for (float& input : inputs) input = random.uniform(-1, 1);
    for (std::int32_t& label : labels) label = static_cast<int>(random.below(3));
  }
};

}  // namespace

TEST_CASE("data that lies on the device trains as that of the host does, and is not copied from it", "[train][given]") {
  const Samples samples;
  const ThereVector inputs(samples.inputs);
  const ThereVector labels(samples.labels);
  TrainerOn<far::Device> expected{{.learning_rate = 0.1f}, 3}, found{{.learning_rate = 0.1f}, 3};
  TrainerOn<far::Device, DataParallel<2>> two{{.learning_rate = 0.1f}, 3};
  for (int step = 0; step < 6; ++step) {
    const int batch = step % 2 == 0 ? 10 : 4;
    const long in = found.executor().bytes_in, there = found.executor().bytes_there;
    const float loss = expected.step(samples.inputs.data(), samples.labels.data(), batch).loss;
    const float* const host = samples.inputs.data();
    CHECK(found.step(OnDevice{inputs}, OnDevice{labels}, batch).loss == loss);
    CHECK(two.step(OnDevice{inputs}, OnDevice<std::int32_t>(labels.data().get()), batch).loss == Approx(loss));
    CHECK(found.executor().bytes_there - there == 4 * (6 + 1) * batch);
    if (step > 0)
      CHECK(found.executor().bytes_in - in <= 4 * static_cast<long>(decltype(found)::Training::numbers.size()));
    // One of both in the host's memory.
    const float next = expected.step(host, samples.labels.data(), 3).loss;
    if (step % 2 == 0)
      CHECK(found.step(host, OnDevice{labels}, 3).loss == next);
    else
      CHECK(found.step(OnDevice{inputs}, samples.labels.data(), 3).loss == next);
    CHECK(two.step(host, samples.labels.data(), 3).loss == Approx(next));
  }
}

TEST_CASE("what is computed of data on the device stays there", "[train][given]") {
  const Samples samples;
  const ThereVector inputs(samples.inputs);
  TrainerOn<far::Device> trainer{{}, 3};
  Model<Net, Features<6>, far::Device> model(3);
  for (const int batch : {10, 4, 10}) {
    const auto expected = trainer.predict(samples.inputs.data(), batch);
    const std::vector<float> scores(expected.begin(), expected.end());
    const long of_trainer = trainer.executor().bytes_out, of_model = model.executor().bytes_out;
    const OnDevice<float> predicted = trainer.predict(OnDevice{inputs}, batch), found = model(OnDevice{inputs}, batch);
    CHECK(trainer.executor().bytes_out == of_trainer);
    CHECK(model.executor().bytes_out == of_model);
    CHECK(predicted.size == 3 * batch);
    CHECK(std::equal(scores.begin(), scores.end(), predicted.data));
    CHECK(std::equal(scores.begin(), scores.end(), found.data));
  }
  model.weights()["0.bias"][0] = 5;
  trainer.weights()["0.bias"][0] = 5;
  CHECK(model(OnDevice{inputs}, 1).data[2] == trainer.predict(samples.inputs.data(), 1)[2]);
}

TEST_CASE("labels on the device are looked at, and whether a container has enough", "[train][given]") {
  Samples samples;
  samples.labels[2] = 3;
  const ThereVector inputs(samples.inputs);
  const ThereVector labels(samples.labels);
  TrainerOn<far::Device> trainer{{.learning_rate = 0.1f}, 3};
  const auto step = [&](int batch) {
    return message_of([&] { trainer.step(OnDevice{inputs}, OnDevice{labels}, batch); });
  };
  CHECK(step(4) == "Trainer: label of sample 2 of the batch; expected 0 to 2, found 3");
  CHECK(step(2).empty());
  CHECK(step(11) == "inputs: on the device, for 11 samples; expected at least 66 numbers, found 60");
  CHECK(step(0) == "Trainer: batch; expected at least one sample, found 0");
  CHECK(message_of([&] { trainer.step(OnDevice<float>(inputs.data().get(), 66), OnDevice{labels}, 11); }) ==
        "targets: on the device, for 11 samples; expected at least 11 numbers, found 10");
  CHECK(message_of([&] { trainer.predict(OnDevice{inputs}, 11); }) ==
        "inputs: on the device, for 11 samples; expected at least 66 numbers, found 60");
}
