#include "tenet/parallel/resident_served_replicas.hpp"

#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/parallel/parameter_server.hpp>

#include "../support/far_device.hpp"
#include "../support/message.hpp"
#include "../support/network.hpp"
#include "../support/same_training.hpp"
#include "../support/thread_world.hpp"
#include "../temporary_folder.hpp"
#include "tenet/data/resident.hpp"
#include "tenet/tenet.hpp"
#include "tenet/train/timeline.hpp"

using namespace tenet;

namespace {

using Server = ParameterServer<OnCpu>;
template <class... Tags>
using Wrong =
    typename decltype(Policies<Features<4>, far::Device, Tags...>::template explanation<mistake::Nothing>())::type;
static_assert(std::is_void_v<Wrong<DataParallel<2>, Server, BucketBytes<64>>>);
using NotWaited = ParameterServer<OnCpu, Asynchronous>;
static_assert(std::is_same_v<Wrong<DataParallel<2>, NotWaited>, mistake::ServerOfReplicas<NotWaited, DataParallel<2>>>);
static_assert(std::is_void_v<Wrong<Distributed<ThreadWorld>, Server>>);
static_assert(std::is_void_v<Wrong<Distributed<ThreadWorld>, NotWaited>>);
static_assert(std::is_same_v<Wrong<Distributed<ThreadWorld, DataParallel<2>>, Server>, mistake::OwnMemoryWith<Server>>);

/// With everything that is kept from step to step: parameters, running statistics, optimizer states, dropout's seed.
struct Net : Sequential<Conv2d<1, 4, 3>, BatchNorm2d<4>, ReLU, MaxPool2d<2>, Dropout<25>, Flatten, Linear<36, 3>> {};
using Shape = Image<1, 8, 8>;
constexpr long floats = Weights<Net>::table.parameter_floats;
template <class Device, int replicas, class... Policies>
using TrainerOn = Trainer<Net, CrossEntropy, Adam, Shape, Device, DataParallel<replicas>, Policies...>;
using Samples = network::Samples<TrainerOn<Reference, 1>>;
template <class Device, int replicas, class... Policies>
using WithSgd = Trainer<Net, CrossEntropy, Sgd, Shape, Device, DataParallel<replicas>, Policies...>;
constexpr Adam adam{.learning_rate = 0.05f};
constexpr Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};

/// Steps of batches of all sizes, recorded ones among them, and some with less samples than there are devices.
template <int replicas, class... Policies>
void check_training() {
  CAPTURE(replicas);
  const Samples samples(12);
  WithSgd<Reference, replicas, Server, Policies...> here{sgd, 3};
  WithSgd<far::Device, replicas, Server, BucketBytes<64>, Policies...> there{sgd, 3};
  check_same_training(here, there, samples.inputs.data(), samples.targets.data(), {4, 4, 12, 4, 1, 12, 3, 1, 4}, 1e-5f);
  const float *const expected = here.gradients(), *const found = there.gradients();
  for (long i = 0; i < floats; ++i) CHECK(found[i] == Approx(expected[i]).margin(1e-6));
}

}  // namespace

TEST_CASE("the host adds up and updates for devices with memories of their own",
          "[parallel][resident_served_replicas]") {
  check_training<1>();
  check_training<2>();
  check_training<3>();
  check_training<2, MicroBatches<2>>();

  // Buckets of which each server has a part, of more than a block for each of its threads.
  struct Wide : Sequential<Flatten, Linear<64, 300>, ReLU, Linear<300, 3>> {};
  const Samples samples(12);
  Trainer<Wide, CrossEntropy, AdamW, Shape, Reference> here{{.learning_rate = 0.01f}, 3};
  Trainer<Wide, CrossEntropy, AdamW, Shape, far::Device, DataParallel<2>, Server> there{{.learning_rate = 0.01f}, 3};
  check_same_training(here, there, samples.inputs.data(), samples.targets.data(), {12, 12, 12, 12}, 1e-4f);
}

TEST_CASE("no device has any of the optimizer's states", "[parallel][resident_served_replicas]") {
  const Samples samples(4);
  const auto bytes_of = [&]<class Learner>(std::type_identity<Learner>) {
    Learner trainer{adam, 3};
    const long before = far::Executor::allocated;
    trainer.step(samples.inputs.data(), samples.targets.data(), 4);
    return far::Executor::allocated - before;
  };
  const long all = bytes_of(std::type_identity<TrainerOn<far::Device, 4>>{}),
             none = bytes_of(std::type_identity<TrainerOn<far::Device, 4, Server>>{});
  constexpr long states = 2 * 4 * floats;  // bytes
  CHECK(all - none >= 4 * states);
  CHECK(all - none <= 4 * states + 4 * 64);  // and the weight of each device's sums
}

TEST_CASE("SyncBatchNorm: the devices add up in the passes, the host behind them",
          "[parallel][resident_served_replicas]") {
  struct Normed : Sequential<Conv2d<1, 4, 3>, BatchNorm2d<4>, ReLU, Flatten, Linear<144, 3>> {};
  const Samples samples(12);
  Trainer<Normed, CrossEntropy, Sgd, Shape, Reference> one{{.learning_rate = 0.05f}, 3};
  Trainer<Normed, CrossEntropy, Sgd, Shape, far::Device, DataParallel<3>, SyncBatchNorm, Server> three{
      {.learning_rate = 0.05f}, 3};
  check_same_training(one, three, samples.inputs.data(), samples.targets.data(), {4, 4, 12, 2, 1, 12, 2, 1, 4, 2, 1},
                      1e-5f);
  const float *const expected = one.gradients(), *const found = three.gradients();
  for (long i = 0; i < Weights<Normed>::table.parameter_floats; ++i)
    CHECK(found[i] == Approx(expected[i]).margin(1e-6));
}

TEST_CASE("whoever needs parameters that are still to come, or has others, has the newest on all devices",
          "[parallel][resident_served_replicas]") {
  const Samples samples(12);
  const TensorDataset images(samples.inputs, {1, 8, 8}, samples.targets);
  DataLoader loader{images, {.batch_size = 5}};
  const TemporaryFolder folder;
  const auto numbers_of = [&]<class Learner>(std::type_identity<Learner>) {
    Learner trainer{sgd, 3};
    std::vector<double> numbers;
    const auto step = [&](int batch) {
      numbers.push_back(trainer.step(samples.inputs.data(), samples.targets.data(), batch).loss);
    };
    const auto look = [&] {
      auto& weights = trainer.weights();
      numbers.insert(numbers.end(), weights.parameters(), weights.parameters() + floats);
      numbers.insert(numbers.end(), weights.buffers(), weights.buffers() + weights.table.buffer_floats);
    };
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 3; ++i) step(4);
      numbers.push_back(trainer.evaluate(loader).loss);
      step(12);
      trainer.weights()["6.bias"][1] = 0.75f;
      step(4);
      look();
      trainer.save(folder / "net.safetensors");
      step(12);  // beside what was saved
      trainer.load(folder / "net.safetensors");
      step(12);
    }
    for (int i = 0; i < 3; ++i) trainer.step_async(samples.inputs.data(), samples.targets.data(), 12);
    trainer.synchronize();
    look();
    step(12);  // and ends with parameters on the way
    return numbers;
  };
  const auto expected = numbers_of(std::type_identity<WithSgd<Reference, 2, Server>>{}),
             found = numbers_of(std::type_identity<WithSgd<far::Device, 2, Server, BucketBytes<64>>>{});
  REQUIRE(found.size() == expected.size());
  long differing = 0;
  for (std::size_t i = 0; i < found.size(); ++i) differing += !(found[i] == Approx(expected[i]).margin(1e-5));
  CHECK(differing == 0);
}

TEST_CASE("devices that the host updates for make their parts of a batch of data that stays there",
          "[parallel][resident_served_replicas]") {
  const Samples many(30);
  const Map images(TensorDataset(many.inputs, {1, 8, 8}, many.targets), RandomCrop{2});
  const auto losses = [&](const auto& data) {
    TrainerOn<far::Device, 2, Server> trainer{adam, 3};
    DataLoader loader{data, {.batch_size = 7, .shuffle = true, .seed = 2}};
    std::vector<double> result;
    FitOptions options{.epochs = 2, .progress = nullptr};
    options.on_step = [&](long, const StepResult& step) { result.push_back(step.loss); };
    trainer.fit(loader, options);
    result.push_back(trainer.evaluate(loader).loss);
    return result;
  };
  const auto expected = losses(images), found = losses(Resident{images});
  CHECK(expected.size() == 11);
  CHECK(found == expected);
}

TEST_CASE("where one of several devices fails that the host updates for, the others end, now and later",
          "[parallel][resident_served_replicas]") {
  TrainerOn<far::Device, 2, Server> trainer{adam, 3};
  const Samples samples(4);
  const auto step = [&] { trainer.step(samples.inputs.data(), samples.targets.data(), 4); };
  step();
  far::Executor::copies_fail_on = 1;
  const std::string first = message_of(step);
  far::Executor::copies_fail_on = -1;
  CHECK(first == "far: copying in; expected success, found device 1 is gone");
  CHECK(message_of(step).find("another rank has failed") != std::string::npos);
}

TEST_CASE("a timeline and a summary of such devices show what goes to the host",
          "[parallel][resident_served_replicas]") {
  using Recorded = TrainerOn<far::Device, 2, Server, Timeline<>>;
  Recorded trainer{adam, 3};
  const Samples samples(8);
  far::Event::recorded = 0;
  for (int i = 0; i < 2; ++i) trainer.step(samples.inputs.data(), samples.targets.data(), 8);
  const auto report = trainer.timeline();
  REQUIRE(report.rows().size() == 2);
  for (const RecordedRow& row : report.rows()) {
    std::vector<std::string> together;
    for (const Span& span : row.spans)
      if (span.kind == SpanKind::collective) together.push_back(span.name);
    CHECK(together == std::vector<std::string>{"gradients for the servers", "running statistics",
                                               "gradients for the servers", "running statistics"});
  }
  const std::string summary = trainer.summary();
  CHECK(summary.find("; Adam's state lies in the hosts' memory, in parts)") != std::string::npos);
  CHECK(summary.find("synchronisation: bulk-synchronous parameter server on the CPU (synchronous); each of 2 devices "
                     "pushes ") != std::string::npos);
}
