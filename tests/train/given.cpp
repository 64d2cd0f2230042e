#include "tenet/train/given.hpp"

#include <catch2/catch.hpp>
#include <tenet/parallel/data_parallel.hpp>

#include "../support/far_device.hpp"
#include "../support/message.hpp"
#include "tenet/exec/copy_async.hpp"
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

namespace {

/// A batch in arrays of a device, which come there by copies in its queue.
template <class Device>
struct Arrays {
  DeviceArray<float, Device> inputs{60};
  DeviceArray<std::int32_t, Device> labels{10};
  Event copied;
  explicit Arrays(const Samples& samples) {
    copy_async(samples.inputs, inputs);
    copied = copy_async(samples.labels, labels);
  }
};

/// Steps, queued steps and predictions with arrays give the bits of those with the host's memory.
template <class Device, class ArraysDevice, class... Policies>
void check_arrays() {
  const Samples samples;
  const Arrays<ArraysDevice> arrays(samples);
  TrainerOn<Device, Policies...> expected{{.learning_rate = 0.1f}, 3}, found{{.learning_rate = 0.1f}, 3};
  for (const int batch : {10, 4, 10}) {
    const auto step = [&] { return expected.step(samples.inputs.data(), samples.labels.data(), batch).loss; };
    CHECK(found.step(arrays.inputs, arrays.labels, batch).loss == step());
    CHECK(found.step_async(arrays.inputs, arrays.labels, batch, arrays.copied).get().loss == step());
    CHECK(found.step_async(arrays.inputs, samples.labels.data(), batch).get().loss == step());
    CHECK(found.step_async(samples.inputs.data(), arrays.labels, batch).get().loss == step());
    CHECK(found.step_async(OnDevice<float, ArraysDevice>(arrays.inputs.data(), 60), arrays.labels, batch).get().loss ==
          step());
    CHECK(found.step_async(samples.inputs.data(), samples.labels.data(), batch, arrays.copied).get().loss == step());
    if constexpr (sizeof...(Policies) == 0) {
      const auto wanted = expected.predict(samples.inputs.data(), batch);
      const auto scores = found.predict(arrays.inputs, batch);
      CHECK(scores.size == 3 * batch);
      CHECK(std::equal(wanted.begin(), wanted.end(), scores.data));
    }
  }
}

}  // namespace

TEST_CASE("arrays of a trainer's device train as the host's memory does", "[train][given]") {
  check_arrays<Cpu<1, 1>, Cpu<1>>();
  check_arrays<Reference, Reference>();
  check_arrays<Cpu<0, 1>, Cpu<1, 1>, DataParallel<2>>();  // the second replica's device
}

TEST_CASE("arrays of a trainer's device train there, and are not copied from the host", "[train][given]") {
  check_arrays<far::Device, far::Device>();
  const Samples samples;
  const Arrays<far::Device> arrays(samples);
  TrainerOn<far::Device> trainer{{.learning_rate = 0.1f}, 3};
  trainer.step_async(arrays.inputs, arrays.labels, 10).get();
  const long in = trainer.executor().bytes_in, there = trainer.executor().bytes_there;
  trainer.step_async(arrays.inputs, arrays.labels, 10).get();
  CHECK(trainer.executor().bytes_there - there == 4 * (6 + 1) * 10);
  CHECK(trainer.executor().bytes_in - in <= 4 * static_cast<long>(decltype(trainer)::Training::numbers.size()));
}

TEST_CASE("a model takes arrays of its device", "[train][given]") {
  const Samples samples;
  const Arrays<Cpu<1>> arrays(samples);
  Model<Net, Features<6>, Cpu<1, 1>> model(3);
  const auto expected = model(samples.inputs.data(), 10);
  const std::vector<float> wanted(expected.begin(), expected.end());
  const OnDevice<float, Cpu<1, 1>> found = model(arrays.inputs, 10);
  CHECK(found.size == 30);
  CHECK(std::equal(wanted.begin(), wanted.end(), found.data));
}

TEST_CASE("a queued step reads an array in its place of the queue's order, and keeps it", "[train][given]") {
  const Samples first;
  Samples second;
  for (float& input : second.inputs) input = -input;
  TrainerOn<Cpu<1, 1>> expected{{.learning_rate = 0.1f}, 3}, found{{.learning_rate = 0.1f}, 3};
  std::vector<float> wanted;
  std::vector<PendingStep> pending;
  {
    Arrays<Cpu<1>> arrays(first);
    for (int i = 0; i < 20; ++i) {
      const Samples& now = i % 2 == 0 ? first : second;
      copy_async(now.inputs, arrays.inputs);  // behind the step before
      pending.push_back(found.step_async(arrays.inputs, arrays.labels, 10));
      wanted.push_back(expected.step(now.inputs.data(), now.labels.data(), 10).loss);
    }
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(pending[i].get().loss == wanted[i]);
}

TEST_CASE("a queued step waits for another device's event, and others for its own", "[train][given]") {
  const Samples samples;
  DeviceArray<float, Cpu<1>> inputs(60);
  DeviceArray<std::int32_t, Cpu<1>> labels(10);
  copy_async(samples.labels, labels);
  auto is_open = std::make_shared<std::atomic<bool>>(false);
  const Event event = detail::DeviceTasks<Cpu<0, 1>>::of_process().submit("a gate", 0, [is_open] {
    if (!wait_until([&] { return is_open->load(); }, std::chrono::seconds(30))) throw Error("it stays closed");
  });
  TrainerOn<Cpu<1, 1>> trainer{{.learning_rate = 0.1f}, 3};
  const PendingStep step = trainer.step_async(inputs, labels, 10, event);
  wait(Cpu<2>{}, step);
  std::vector<float> host(1);
  DeviceArray<float, Cpu<2>> other(1);
  const Event behind = copy_async(host, other);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(step.ready());
  CHECK_FALSE(behind.ready());
  *is_open = true;
  behind.wait();
  CHECK(step.ready());
  CHECK(step.get().loss > 0);
}

TEST_CASE("a queued step fails where what it waits for has, and says which", "[train][given]") {
  const Samples samples;
  const Arrays<Cpu<1>> arrays(samples);
  TrainerOn<Cpu<1, 1>> trainer{{.learning_rate = 0.1f}, 3};
  trainer.step_async(arrays.inputs, arrays.labels, 10);
  const Event event =
      detail::DeviceTasks<Cpu<0, 1>>::of_process().submit("copy 3", 0, [] { throw Error("no memory"); });
  const PendingStep step = trainer.step_async(arrays.inputs, arrays.labels, 10, event);
  CHECK(message_of([&] { step.get(); }) == "step 2: copy 3: no memory");
  CHECK(message_of([&] { trainer.synchronize(); }) == "step 2: copy 3: no memory");
  CHECK(trainer.step_async(arrays.inputs, arrays.labels, 10).get().loss > 0);
  CHECK(trainer.weights().steps() == 2);
  CHECK(message_of([] { synchronize(Cpu<0>{}); }) == "copy 3: no memory");
}

TEST_CASE("sizes of arrays are looked at by the call, their labels by the step", "[train][given]") {
  const auto check = [&]<class Device>(Device) {
    Samples samples;
    samples.labels[2] = 3;
    const Arrays<Device> arrays(samples);
    TrainerOn<Device> trainer{{.learning_rate = 0.1f}, 3};
    const auto step = [&](int batch) { return trainer.step_async(arrays.inputs, arrays.labels, batch); };
    CHECK(message_of([&] { step(11); }) ==
          "inputs: on the device, for 11 samples; expected at least 66 numbers, found 60");
    CHECK(message_of([&] { step(0); }) == "Trainer: batch; expected at least one sample, found 0");
    CHECK(message_of([&] { step(2).get(); }).empty());
    CHECK(message_of([&] { step(4).get(); }) ==
          "step 2: Trainer: label of sample 2 of the batch; expected 0 to 2, found 3");
    CHECK_FALSE(message_of([&] { trainer.synchronize(); }).empty());
    CHECK(message_of([&] { trainer.step_async(samples.inputs.data(), arrays.labels, 3).get(); }) ==
          "step 2: Trainer: label of sample 2 of the batch; expected 0 to 2, found 3");
    CHECK_FALSE(message_of([&] { trainer.synchronize(); }).empty());
    CHECK(message_of([&] { trainer.step_async(arrays.inputs, samples.labels.data(), 3); }) ==
          "Trainer: label of sample 2 of the batch; expected 0 to 2, found 3");
  };
  check(Cpu<1, 1>{});
  check(far::Device{});
}
