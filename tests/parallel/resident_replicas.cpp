#include "tenet/parallel/resident_replicas.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/micro_batches.hpp>

#include "../support/far_device.hpp"
#include "../support/message.hpp"
#include "../support/same_training.hpp"
#include "../support/thread_world.hpp"
#include "../temporary_folder.hpp"
#include "tenet/data/resident.hpp"
#include "tenet/parallel/hierarchical.hpp"
#include "tenet/parallel/hogwild.hpp"
#include "tenet/parallel/local_sgd.hpp"
#include "tenet/parallel/parameter_server.hpp"
#include "tenet/parallel/sharded_optimizer.hpp"
#include "tenet/tenet.hpp"
#include "tenet/train/timeline.hpp"

using namespace tenet;

namespace {

using Two = DataParallel<2>;
template <class... Tags>
using Wrong =
    typename decltype(Policies<Features<4>, far::Device, Tags...>::template explanation<mistake::Nothing>())::type;
static_assert(std::is_void_v<Wrong<Two>> && std::is_void_v<Wrong<Two, ParameterServer<Sharded>, BucketBytes<64>>>);
static_assert(std::is_void_v<Wrong<Two, Ring>> && std::is_void_v<Wrong<Two, Ring, BucketBytes<64>>>);
static_assert(std::is_same_v<Wrong<Two, ShardedOptimizer>, mistake::OwnMemoryWith<ShardedOptimizer>>);
using NotWaited = ParameterServer<Sharded, Asynchronous>;
static_assert(std::is_same_v<Wrong<Two, NotWaited>, mistake::ServerOfReplicas<NotWaited, Two>>);
using Third = ParameterServer<OnRank<2>>;
static_assert(std::is_same_v<Wrong<Two, Third>, mistake::ServerOfReplicas<Third, Two>>);
using OnRanks = Distributed<ThreadWorld>;
using TwoOnRanks = Distributed<ThreadWorld, Two>;
static_assert(std::is_void_v<Wrong<TwoOnRanks>> && std::is_void_v<Wrong<TwoOnRanks, ShardedOptimizer>>);
static_assert(std::is_same_v<Wrong<TwoOnRanks, Hogwild<1>>, mistake::OwnMemoryWith<Hogwild<1>>>);
static_assert(std::is_void_v<Wrong<TwoOnRanks, LocalSgd<2>>>);
static_assert(std::is_void_v<Wrong<OnRanks, Hierarchical<AllReduce, Ring>>>);
static_assert(std::is_void_v<Wrong<OnRanks, Hierarchical<AllReduce, LocalSgd<2>>>>);
static_assert(std::is_same_v<Wrong<TwoOnRanks, Hierarchical<AllReduce, Ring>>,
                             mistake::OwnMemoryWith<Hierarchical<AllReduce, Ring>>>);
static_assert(std::is_void_v<Wrong<TwoOnRanks, Hierarchical<AllReduce, LocalSgd<2>>>>);
static_assert(std::is_same_v<Wrong<Two, LocalSgd<2>>, mistake::OwnMemoryWith<LocalSgd<2>>>);
static_assert(std::is_void_v<Wrong<OnRanks, LocalSgd<2>>> && std::is_void_v<Wrong<OnRanks, Ring>>);
static_assert(std::is_same_v<Wrong<OnRanks, LocalSgd<2>, SyncBatchNorm>, mistake::SyncBatchNormWith<LocalSgd<2>>>);
static_assert(std::is_void_v<Wrong<OnRanks>> && std::is_void_v<Wrong<OnRanks, ShardedOptimizer, MicroBatches<2>>>);
static_assert(std::is_void_v<Wrong<OnRanks, ParameterServer<OnRank<7>>>>);  // their number is not known yet
static_assert(std::is_void_v<Wrong<OnRanks, NotWaited>>);
static_assert(std::is_same_v<Wrong<TwoOnRanks, NotWaited>, mistake::OwnMemoryWith<NotWaited>>);
static_assert(std::is_same_v<Wrong<OnRanks, Reproducible>, mistake::OwnMemoryWith<Reproducible>>);

/// With everything that is kept from step to step: parameters, running statistics, optimizer states, dropout's seed.
struct Net : Sequential<Conv2d<1, 4, 3>, BatchNorm2d<4>, ReLU, MaxPool2d<2>, Dropout<25>, Flatten, Linear<36, 3>> {};
using Shape = Image<1, 8, 8>;
template <class Device, int replicas, class Synchronisation = AllReduce, class... Policies>
using TrainerBy = Trainer<Net, CrossEntropy, Adam, Shape, Device, DataParallel<replicas>, Synchronisation, Policies...>;
template <class Device, int replicas, class... Policies>
using TrainerOn = TrainerBy<Device, replicas, AllReduce, Policies...>;

struct Samples {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  explicit Samples(int count) : images(static_cast<std::size_t>(count) * 64), labels(static_cast<std::size_t>(count)) {
    Random random(5);
    for (float& pixel : images) pixel = random.uniform(-1, 1);
    for (std::int32_t& label : labels) label = static_cast<int>(random.below(3));
  }
};

struct Pair {
  TrainerOn<Reference, 2> here{{.learning_rate = 0.05f}, 3};
  TrainerOn<far::Device, 2> there{{.learning_rate = 0.05f}, 3};
  Samples samples{12};

  void step(int batch) {
    const StepResult a = here.step(samples.images.data(), samples.labels.data(), batch),
                     b = there.step(samples.images.data(), samples.labels.data(), batch);
    CHECK(b.loss == Approx(a.loss).epsilon(1e-5));
    CHECK(a.accuracy == b.accuracy);
  }
  void check_same() {
    for (const std::string& name : here.weights().names()) {
      if (name.ends_with("num_batches_tracked")) continue;
      CAPTURE(name);
      const auto left = here.weights()[name], right = there.weights()[name];
      for (std::size_t i = 0; i < left.size(); ++i) CHECK(right[i] == Approx(left[i]).margin(1e-5));
    }
  }
};

/// Steps of batches of all sizes, recorded ones among them, and some with less samples than there are devices.
template <int replicas, class Synchronisation, class... Policies>
void check_training_by() {
  const Samples samples(12);
  TrainerBy<Reference, replicas, Synchronisation, Policies...> here{{.learning_rate = 0.05f}, 3};
  TrainerBy<far::Device, replicas, Synchronisation, Policies...> there{{.learning_rate = 0.05f}, 3};
  check_same_training(here, there, samples.images.data(), samples.labels.data(), {4, 4, 12, 4, 1, 12, 3, 1, 4}, 1e-6f);
  const float* const expected = here.gradients();
  const float* const found = there.gradients();
  for (long i = 0; i < Weights<Net>::table.parameter_floats; ++i) CHECK(found[i] == Approx(expected[i]).margin(1e-6));
}
template <int replicas, class... Policies>
void check_training() {
  check_training_by<replicas, AllReduce, Policies...>();
}

/// Each number is updated by its owner alone, as it is by all devices with `AllReduce`: to the same bits.
template <int replicas, class Place, class... Policies>
void check_owners() {
  CAPTURE(replicas);
  const Samples samples(12);
  TrainerOn<far::Device, replicas, Policies...> all{{.learning_rate = 0.05f}, 3};
  TrainerBy<far::Device, replicas, ParameterServer<Place>, Policies...> owners{{.learning_rate = 0.05f}, 3};
  constexpr long floats = Weights<Net>::table.parameter_floats;
  for (const int batch : {4, 4, 12, 4, 1, 12, 3, 1, 4}) {
    const StepResult expected = all.step(samples.images.data(), samples.labels.data(), batch),
                     found = owners.step(samples.images.data(), samples.labels.data(), batch);
    CHECK(found.loss == expected.loss);
    CHECK(found.accuracy == expected.accuracy);
    if (batch != 4) continue;
    CHECK(std::equal(all.gradients(), all.gradients() + floats, owners.gradients()));
  }
  const auto expected = all.predict(samples.images.data(), 7), found = owners.predict(samples.images.data(), 7);
  CHECK(std::ranges::equal(found, expected));
  const float *const before = all.weights().parameters(), *const after = owners.weights().parameters();
  CHECK(std::equal(before, before + floats, after));
  const float *const statistics = all.weights().buffers(), *const others = owners.weights().buffers();
  CHECK(std::equal(statistics, statistics + Weights<Net>::table.buffer_floats, others));
}

}  // namespace

TEST_CASE("a parameter server of devices: who owns a part of the parameters updates it",
          "[parallel][resident_replicas]") {
  check_owners<2, Sharded>();
  check_owners<3, Sharded, BucketBytes<64>>();
  check_owners<2, OnRank<1>>();
  check_owners<1, OnRank<0>>();
  check_owners<3, OnRank<0>, BucketBytes<64>, MicroBatches<2>>();
  check_owners<2, Sharded, SyncBatchNorm>();
}

TEST_CASE("each device has the optimizer's states of what it owns, and no others", "[parallel][resident_replicas]") {
  const Samples samples(4);
  const auto bytes_of = [&]<class Learner>(std::type_identity<Learner>) {
    Learner trainer{{.learning_rate = 0.05f}, 3};
    const long before = far::Executor::allocated;
    trainer.step(samples.images.data(), samples.labels.data(), 4);
    return far::Executor::allocated - before;
  };
  const long all = bytes_of(std::type_identity<TrainerOn<far::Device, 4>>{}),
             parts = bytes_of(std::type_identity<TrainerBy<far::Device, 4, ParameterServer<Sharded>>>{});
  constexpr long states = 2 * 4 * Weights<Net>::table.parameter_floats;  // bytes
  CHECK(all - parts >= (4 - 1) * states - 4 * 2 * 64);                   // of four copies one is left
  CHECK(all - parts <= (4 - 1) * states);
}

TEST_CASE("devices with memories of their own train together as replicas on the host do",
          "[parallel][resident_replicas]") {
  check_training<2>();
  check_training<3, BucketBytes<64>>();
}

TEST_CASE("Ring: their gradients go around", "[parallel][resident_replicas]") {
  check_training_by<3, Ring, BucketBytes<64>>();
}

TEST_CASE("MicroBatches: each takes its part in pieces, one device or several", "[parallel][resident_replicas]") {
  check_training<1, MicroBatches<3>>();
  check_training<2, MicroBatches<2>, BucketBytes<64>>();
}

TEST_CASE("SyncBatchNorm: they train together as one device does, and one may have no samples",
          "[parallel][resident_replicas]") {
  struct Normed : Sequential<Conv2d<1, 4, 3>, BatchNorm2d<4>, ReLU, Flatten, Linear<144, 3>> {};
  const Samples samples(12);
  Trainer<Normed, CrossEntropy, Sgd, Shape, Reference> one{{.learning_rate = 0.05f}, 3};
  Trainer<Normed, CrossEntropy, Sgd, Shape, far::Device, DataParallel<3>, SyncBatchNorm> three{{.learning_rate = 0.05f},
                                                                                               3};
  check_same_training(one, three, samples.images.data(), samples.labels.data(), {4, 4, 12, 2, 1, 12, 2, 1, 4, 2, 1},
                      1e-5f);
}

TEST_CASE("evaluation, files and queued steps of several devices use the newest parameters on all of them",
          "[parallel][resident_replicas]") {
  Pair pair;
  const TensorDataset images(pair.samples.images, {1, 8, 8}, pair.samples.labels);
  DataLoader loader{images, {.batch_size = 5}};
  const TemporaryFolder folder;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 3; ++i) pair.step(4);
    const Evaluation a = pair.here.evaluate(loader), b = pair.there.evaluate(loader);
    CHECK(b.loss == Approx(a.loss).epsilon(1e-5));
    CHECK(b.accuracy == Approx(a.accuracy));
    pair.here.weights()["6.bias"][1] = pair.there.weights()["6.bias"][1] = 0.75f;  // on both devices
    pair.step(4);
    pair.check_same();
    pair.there.save(folder / "net.safetensors");
    pair.step(12);  // beside what was saved
    pair.here.load(folder / "net.safetensors"), pair.there.load(folder / "net.safetensors");
  }
  for (int i = 0; i < 3; ++i) {
    pair.here.step(pair.samples.images.data(), pair.samples.labels.data(), 4);
    pair.there.step_async(pair.samples.images.data(), pair.samples.labels.data(), 4);
  }
  pair.there.synchronize();
  pair.check_same();
}

TEST_CASE("each of several devices makes its part of a batch of data that stays there",
          "[parallel][resident_replicas]") {
  const Samples many(30);
  const Map images(TensorDataset(many.images, {1, 8, 8}, many.labels), RandomCrop{2});
  const auto losses = [&](const auto& data) {
    TrainerOn<far::Device, 2> trainer{{.learning_rate = 0.05f}, 3};
    DataLoader loader{data, {.batch_size = 7, .shuffle = true, .seed = 2}};
    std::vector<double> result;
    FitOptions options{.epochs = 3, .progress = nullptr};
    options.on_step = [&](long, const StepResult& step) { result.push_back(step.loss); };
    trainer.fit(loader, options);
    result.push_back(trainer.evaluate(loader).loss);
    result.push_back(trainer.step(many.images.data(), many.labels.data(), 8).loss);  // of the host's memory again
    return result;
  };
  const auto expected = losses(images), found = losses(Resident{images});
  CHECK(expected.size() == 17);
  CHECK(found == expected);
}

TEST_CASE("where one of several devices fails, the others end, now and later", "[parallel][resident_replicas]") {
  for (const bool recorded : {false, true}) {
    Pair pair;
    pair.step(4);
    if (recorded) pair.step(4);
    far::Executor::copies_fail_on = 1;
    const auto step = [&] { pair.there.step(pair.samples.images.data(), pair.samples.labels.data(), 4); };
    CHECK(message_of(step) == "far: copying in; expected success, found device 1 is gone");
    far::Executor::copies_fail_on = -1;
    CHECK(message_of(step).find("another rank has failed") != std::string::npos);
  }
}

TEST_CASE("the timeline of several devices shows what they do together", "[parallel][resident_replicas]") {
  using Recorded = TrainerOn<far::Device, 2, Timeline<>>;
  Recorded trainer{{.learning_rate = 0.05f}, 3};
  const Samples samples(8);
  far::Event::recorded = 0;
  for (int i = 0; i < 2; ++i) trainer.step(samples.images.data(), samples.labels.data(), 8);
  const auto report = trainer.timeline();
  REQUIRE(report.rows().size() == 2);
  for (const RecordedRow& row : report.rows()) {
    std::vector<std::string> together;
    long bytes = 0, steps = 0;
    for (const Span& span : row.spans) {
      steps += span.kind == SpanKind::step;
      if (span.kind != SpanKind::collective) continue;
      together.push_back(span.name);
      bytes += span.bytes;
    }
    CHECK(together == std::vector<std::string>{"gradients of all devices", "running statistics",
                                               "gradients of all devices", "running statistics"});
    CHECK(bytes == 2 * 4 * (Weights<Net>::table.parameter_floats + Weights<Net>::table.buffer_floats));
    CHECK(steps == 2 * Recorded::Training::lowered.used.steps);
  }
  CHECK(report.text().find("\n  communication is not planned: all-reduce\n") != std::string::npos);
}
