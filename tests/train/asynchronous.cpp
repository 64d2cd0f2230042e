// Steps of a trainer that run behind its caller.
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/tenet.hpp>

#include "../support/message.hpp"
#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/thread_world.hpp"
#include "../temporary_folder.hpp"

using namespace tenet;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

template <class Trainer>
std::vector<float> parameters(Trainer& trainer) {
  const float* const first = trainer.weights().parameters();
  return {first, first + std::decay_t<decltype(trainer.weights())>::table.parameter_floats};
}

/// Steps with batches of several sizes and a learning rate that falls, one after the other and queued: the same bits.
/// Losses, accuracies and parameters of steps with batches of several sizes and a learning rate that falls. Queued
/// steps find what they need although the caller uses its memory again at once.
template <class Trainer>
std::vector<float> trained(bool queued) {
  const network::Samples<Trainer> samples(12);
  Trainer trainer{{}, 3};
  std::vector<float> found;
  const auto take = [&](const StepResult& result) { found.insert(found.end(), {result.loss, result.accuracy}); };
  std::vector<PendingStep> pending;
  network::Samples<Trainer> own = samples;
  int count = 0;
  for (const int batch : {12, 12, 5, 1, 9, 12, 1, 1, 7, 12, 3, 12}) {
    trainer.optimizer().learning_rate = 0.1f / static_cast<float>(++count);
    own = samples;
    if (queued)
      pending.push_back(trainer.step_async(own.inputs.data(), own.targets.data(), batch));
    else
      take(trainer.step(own.inputs.data(), own.targets.data(), batch));
    std::fill(own.inputs.begin(), own.inputs.end(), typename Trainer::InputElement{2});
    std::fill(own.targets.begin(), own.targets.end(), typename Trainer::TargetElement{0});
  }
  trainer.optimizer().learning_rate = 0;
  for (const PendingStep& step : pending) take(step.get());
  const auto last = parameters(trainer);
  found.insert(found.end(), last.begin(), last.end());
  found.push_back(static_cast<float>(trainer.weights().steps()));
  return found;
}
template <class Trainer>
bool same_bits() {
  return trained<Trainer>(true) == trained<Trainer>(false);
}

/// Plain SGD whose steps wait for a gate on the thread that runs them, and fail where they are told to.
struct Gated : PlainSgd {
  bool fails = false;
  inline static std::atomic<bool> open{true};
  inline static std::atomic<int> begun{0};

  std::array<float, scalar_count> scalars(long step) const {
    if (!wait_until([] { return open.load(); }, 30s)) fail("gate", "it stays closed", "open", "closed");
    ++begun;
    if (fails) throw std::length_error("too long");
    return PlainSgd::scalars(step);
  }
};

using Waiting = Trainer<Linear<6, 3>, CrossEntropy, Gated, Features<6>, Cpu<0, 1>>;

/// A trainer and samples; `open` opens the gate, at the end it is open.
struct AtTheGate {
  Waiting trainer{Gated{{.learning_rate = 0.1f}}, 1};
  network::Samples<Waiting> samples{4};

  explicit AtTheGate(bool is_open = false) {
    Gated::open = is_open;
    Gated::begun = 0;
  }
  ~AtTheGate() { Gated::open = true; }
  PendingStep step_async() { return trainer.step_async(samples.inputs.data(), samples.targets.data(), 4); }
};

}  // namespace

TEST_CASE("queued steps give the bits of steps", "[asynchronous]") {
  CHECK(same_bits<Trainer<networks::Residual, CrossEntropy, Adam, Image<2, 6, 5>, Reference>>());
  CHECK(same_bits<Trainer<networks::Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Cpu<0, 2>>>());
  CHECK(same_bits<Trainer<networks::Transformer, CrossEntropy, Sgd, Tokens<5>, Cpu<0, 1>, UpdateInBackward>>());
}

TEST_CASE("queued steps give the bits of steps with every strategy", "[asynchronous]") {
  using Net = networks::WholeRows;
  CHECK(same_bits<Trainer<Net, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, DataParallel<2>>>());
  CHECK(same_bits<Trainer<Net, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, DataParallel<2>, Ring>>());
  std::atomic<int> same{0};
  ranks::run_well(2, [&](ThreadTransport& transport) {
    const ThreadWorld::Joined joined(transport);
    same += same_bits<Trainer<Net, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, Distributed<ThreadWorld>>>();
  });
  CHECK(same == 2);
}

TEST_CASE("the caller goes on while steps wait", "[asynchronous]") {
  AtTheGate at;
  const PendingStep first = at.step_async(), second = at.step_async();
  CHECK_FALSE(first.ready());
  CHECK_FALSE(second.ready());
  CHECK(Gated::begun == 0);
  Gated::open = true;
  CHECK(second.get().loss < first.get().loss);
}

TEST_CASE("what needs the weights waits for queued steps", "[asynchronous]") {
  AtTheGate at(true);
  Waiting& trainer = at.trainer;
  const TemporaryFolder folder;
  DataLoader data{TensorDataset<>(at.samples.inputs, {6}, at.samples.targets), {.batch_size = 4}};
  FitOptions quiet;
  quiet.progress = nullptr;
  int expected = 0;
  const auto waits = [&](const char* name, int own_steps, auto call) {
    CAPTURE(name);
    Gated::open = false;
    for (int i = 0; i < 3; ++i) at.step_async();
    std::thread opener([] {
      std::this_thread::sleep_for(5ms);
      Gated::open = true;
    });
    call();
    CHECK(Gated::begun == (expected += 3 + own_steps));
    opener.join();
    trainer.synchronize();
  };
  waits("synchronize", 0, [&] { trainer.synchronize(); });
  waits("step", 1, [&] { trainer.step(at.samples.inputs.data(), at.samples.targets.data(), 4); });
  waits("fit", 1, [&] { trainer.fit(data, quiet); });
  waits("evaluate", 0, [&] { trainer.evaluate(data); });
  waits("predict", 0, [&] { trainer.predict(at.samples.inputs.data(), 4); });
  waits("save", 0, [&] { trainer.save(folder / "net.safetensors"); });
  waits("load", 0, [&] { trainer.load(folder / "net.safetensors"); });
  waits("weights", 0, [&] { trainer.weights(); });
  waits("gradient", 0, [&] { trainer.gradient("bias"); });
  waits("gradients", 0, [&] { trainer.gradients(); });
  waits("executor", 0, [&] { trainer.executor(); });
  waits("summary", 0, [&] { trainer.summary(); });
  waits("activation_floats", 0, [&] { trainer.activation_floats(); });
  waits("queue_limits", 0, [&] { trainer.queue_limits({.tasks = 4}); });
}

TEST_CASE("predictions, evaluations and steps between queued steps are those between steps", "[asynchronous]") {
  using Learner =
      Trainer<Sequential<Linear<6, 16>, Tanh, Dropout<10>, Linear<16, 3>>, CrossEntropy, Sgd, Features<6>, Cpu<0, 2>>;
  const network::Samples<Learner> samples(8);
  const auto train = [&](bool queued) {
    Learner trainer{{.learning_rate = 0.1f, .momentum = 0.9f}};
    DataLoader data{TensorDataset<>(samples.inputs, {6}, samples.targets), {.batch_size = 3}};
    std::vector<float> found;
    FitOptions options;
    options.progress = nullptr;
    options.schedule = [](const TrainingPosition& at) { return 1.0f / static_cast<float>(at.step + 1); };
    const auto step = [&](int batch) {
      if (queued)
        trainer.step_async(samples.inputs.data(), samples.targets.data(), batch);
      else
        trainer.step(samples.inputs.data(), samples.targets.data(), batch);
    };
    options.on_step = [&](long, const StepResult&) { step(2); };  // with the schedule's factor
    for (int round = 0; round < 3; ++round) {
      step(8);
      step(5);
      const auto scores = trainer.predict(samples.inputs.data(), 4);
      found.insert(found.end(), scores.begin(), scores.end());
      step(8);
      found.push_back(static_cast<float>(trainer.evaluate(data).loss));
      step(1);
      found.push_back(static_cast<float>(trainer.fit(data, options).epochs[0].loss));
      step(8);
      found.push_back(trainer.gradient("0.bias")[0]);
    }
    const auto last = parameters(trainer);
    found.insert(found.end(), last.begin(), last.end());
    return found;
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("a step that fails says which it was, and those behind it are skipped", "[asynchronous]") {
  AtTheGate at;
  const auto label = [&] { return message_of([&] { at.trainer.synchronize(); }); };
  CHECK(label().empty());
  const PendingStep first = at.step_async();
  at.trainer.optimizer().fails = true;
  const PendingStep second = at.step_async();
  at.trainer.optimizer().fails = false;
  const PendingStep third = at.step_async();
  Gated::open = true;
  CHECK(label() == "step 2: too long");
  CHECK(label().empty());
  CHECK(Gated::begun == 2);
  CHECK(first.get().loss > 0);
  CHECK(message_of([&] { second.get(); }) == "step 2: too long");
  CHECK(message_of([&] { third.get(); }) == "step 2: too long");

  // It goes on; whatever waits next for the queue throws.
  CHECK(at.step_async().get().loss < first.get().loss);
  at.trainer.optimizer().fails = true;
  at.step_async();
  at.trainer.optimizer().fails = false;
  const auto predict = [&] { at.trainer.predict(at.samples.inputs.data(), 1); };
  CHECK(message_of(predict) == "step 4: too long");
  CHECK(message_of(predict).empty());
}

TEST_CASE("a label that is no class is found at the call, and nothing is queued", "[asynchronous]") {
  AtTheGate at(true);
  const std::int32_t labels[] = {0, 3};
  const auto step = [&](int batch) { at.trainer.step_async(at.samples.inputs.data(), labels, batch); };
  CHECK_THROWS_WITH(step(2), Contains("sample 1") && Contains("0 to 2") && Contains("found 3"));
  CHECK_THROWS_WITH(step(0), Contains("at least one sample"));
  at.trainer.synchronize();
  CHECK(at.trainer.weights().steps() == 0);
}

TEST_CASE("a trainer queues as many steps as it is told", "[asynchronous]") {
  const auto limits = GENERATE(QueueLimits{.tasks = 2}, QueueLimits{.tasks = 50, .bytes = 2 * 144});
  AtTheGate at;
  at.trainer.queue_limits(limits);
  std::atomic<int> submitted{0};
  std::thread front([&] {
    for (; submitted < 5; ++submitted) at.step_async();
  });
  wait_until([&] { return submitted == 2; }, 60s);
  std::this_thread::sleep_for(20ms);
  CHECK(submitted == 2);
  Gated::open = true;
  front.join();
  CHECK(at.trainer.weights().steps() == 5);
  CHECK(message_of([&] { at.trainer.queue_limits({.tasks = 0}); }) ==
        "Trainer: queue_limits: tasks; expected at least one, found 0");
}

TEST_CASE("a trainer is moved and ends while steps are queued", "[asynchronous]") {
  AtTheGate at;
  PendingStep last;
  {
    last = at.step_async();
    Waiting moved = std::move(at.trainer);
    last = moved.step_async(at.samples.inputs.data(), at.samples.targets.data(), 4);
    CHECK_FALSE(last.ready());
    Gated::open = true;
  }
  CHECK(last.ready());
  CHECK(last.get().loss > 0);
  CHECK(Gated::begun == 2);
}

namespace {

/// Plain SGD that notes which steps run, and by whom.
struct Told : PlainSgd {
  int number = 0;
  inline static std::vector<int> order;
  inline static std::vector<std::thread::id> threads;
  std::array<float, scalar_count> scalars(long step) const {
    order.push_back(number);
    threads.push_back(std::this_thread::get_id());
    return PlainSgd::scalars(step);
  }
};
/// Plain SGD that notes where they run.
struct Seen : PlainSgd {
  inline static ProcessorSet processors;
  std::array<float, scalar_count> scalars(long step) const {
    processors = own_processors();
    return PlainSgd::scalars(step);
  }
};
/// Plain SGD whose steps wait until those of the other device are there, too.
struct Meeting : PlainSgd {
  int own = 0;
  inline static std::atomic<int> here[2];
  std::array<float, scalar_count> scalars(long step) const {
    ++here[own];
    if (!wait_until([&] { return here[1 - own] >= here[own]; }, 30s)) fail("meeting", "nobody comes", "two", "one");
    return PlainSgd::scalars(step);
  }
};
template <int index>
using MeetingOn = Trainer<Linear<6, 3>, CrossEntropy, Meeting, Features<6>, Cpu<index, 1>>;

}  // namespace

TEST_CASE("trainers of one device run their steps in the order of submission, on one thread", "[asynchronous]") {
  using Learner = Trainer<Linear<6, 3>, CrossEntropy, Told, Features<6>, Cpu<0, 1>>;
  Told::order.clear();
  Learner first{Told{{.learning_rate = 0.1f}}, 1}, second{Told{{.learning_rate = 0.1f}}, 2};
  const network::Samples<Learner> samples(4);
  for (int i = 0; i < 100; ++i) {
    Learner& trainer = i % 3 == 1 ? second : first;
    trainer.optimizer().number = i;
    trainer.step_async(samples.inputs.data(), samples.targets.data(), 4);
  }
  synchronize(Cpu<0>{});
  REQUIRE(Told::order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(Told::order[static_cast<std::size_t>(i)] == i);
  CHECK(std::count(Told::threads.begin(), Told::threads.end(), Told::threads[0]) == 100);
  CHECK(Told::threads[0] != std::this_thread::get_id());
}

TEST_CASE("trainers of two devices run their steps at the same time", "[asynchronous]") {
  Meeting::here[0] = Meeting::here[1] = 0;
  MeetingOn<0> first{Meeting{{}, 0}};
  MeetingOn<1> second{Meeting{{}, 1}};
  const network::Samples<MeetingOn<0>> samples(4);
  for (int i = 0; i < 10; ++i) {
    first.step_async(samples.inputs.data(), samples.targets.data(), 4);
    second.step_async(samples.inputs.data(), samples.targets.data(), 4);
  }
  CHECK(message_of([&] { first.synchronize(); }).empty());
  CHECK(message_of([&] { second.synchronize(); }).empty());
  CHECK((Meeting::here[0] == 10 && Meeting::here[1] == 10));
}

TEST_CASE("a trainer of several devices keeps theirs, and runs behind what they had to do", "[asynchronous]") {
  using Net = networks::WholeRows;
  using Both = Trainer<Net, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, DataParallel<2>>;
  using Second = Trainer<Linear<6, 3>, CrossEntropy, Gated, Features<6>, Cpu<1, 1>>;
  Both both;
  Second before{Gated{{.learning_rate = 0.1f}}, 1};
  AtTheGate at;  // on the first device
  const network::Samples<Both> samples(12);
  const auto step_of_both = [&] { return both.step_async(samples.inputs.data(), samples.targets.data(), 12); };
  const auto step_of_second = [&] { return before.step_async(at.samples.inputs.data(), at.samples.targets.data(), 4); };
  std::vector<PendingStep> pending;
  pending.push_back(step_of_second());  // waits at the gate
  pending.push_back(step_of_both());
  pending.push_back(at.step_async());  // the first device has nothing else to do, and is kept
  std::this_thread::sleep_for(20ms);
  for (const PendingStep& step : pending) CHECK_FALSE(step.ready());
  CHECK(Gated::begun == 0);
  Gated::open = true;
  for (const PendingStep& step : pending) CHECK(step.get().loss > 0);

  // From several threads, in any order.
  std::thread third([&] {
    for (int i = 0; i < 50; ++i) step_of_second();
  });
  for (int i = 0; i < 50; ++i) step_of_both(), at.step_async();
  third.join();
  synchronize(Cpu<0>{});
  synchronize(Cpu<1>{});
  CHECK(both.weights().steps() == 51);
  CHECK(before.weights().steps() == 51);
  CHECK(at.trainer.weights().steps() == 51);
}

TEST_CASE("a step that fails skips those of its trainer, and no other's", "[asynchronous]") {
  AtTheGate at;
  Waiting other{Gated{{.learning_rate = 0.1f}}, 1};
  at.trainer.optimizer().fails = true;
  const PendingStep failed = at.step_async();
  at.trainer.optimizer().fails = false;
  const PendingStep of_other = other.step_async(at.samples.inputs.data(), at.samples.targets.data(), 4);
  const PendingStep skipped = at.step_async();
  Gated::open = true;
  CHECK(of_other.get().loss > 0);
  CHECK(message_of([&] { skipped.get(); }) == "step 1: too long");
  CHECK(message_of([&] { other.synchronize(); }).empty());
  CHECK(message_of([] { synchronize(Cpu<0>{}); }) == "step 1: too long");
  CHECK(message_of([] { synchronize(Cpu<0>{}); }).empty());
  CHECK(Gated::begun == 2);
}

TEST_CASE("a trainer that ends waits for its own steps, and not for those behind them", "[asynchronous]") {
  AtTheGate at(true);
  PendingStep last, behind;
  {
    Waiting ends{Gated{{.learning_rate = 0.1f}}, 1};
    last = ends.step_async(at.samples.inputs.data(), at.samples.targets.data(), 4);
    last.get();
    Gated::open = false;
    behind = at.step_async();
  }
  CHECK(last.ready());
  CHECK_FALSE(behind.ready());
}

#if defined(__linux__)
TEST_CASE("queued steps run on their device's processors, others everywhere", "[asynchronous]") {
  const ProcessorSet all = own_processors();
  const auto processors_of_step = [&]<class Learner>(Learner& trainer) {
    const network::Samples<Learner> samples(4);
    trainer.step_async(samples.inputs.data(), samples.targets.data(), 4).get();
    const ProcessorSet queued = Seen::processors;
    trainer.step(samples.inputs.data(), samples.targets.data(), 4);
    CHECK(Seen::processors == all);  // the caller's thread
    return queued;
  };
  using Net = Linear<6, 3>;
  const auto check = [&]<class Device>(Device) {
    Trainer<Net, CrossEntropy, Seen, Features<6>, Device> trainer;
    const bool has_own = Device::processors().count() > 0;
    CHECK(processors_of_step(trainer) == (has_own ? Device::processors() : all));
  };
  Trainer<Net, CrossEntropy, Seen, Features<6>, Cpu<0, 1>> stays;  // so that all use its device's one queue
  CHECK(processors_of_step(stays) == some_processors(all, 0, 1));
  check(Cpu<0>{});
  check(Cpu<0, 1>{});
  check(Cpu<0, 2>{});
  check(Cpu<1, 1>{});
  check(Cpu<1023, 3>{});  // so many there are not
}
#endif

TEST_CASE("preparing a batch and running a step take place at the same time", "[asynchronous]") {
  struct Slow : PlainSgd {
    std::array<float, scalar_count> scalars(long step) const {
      std::this_thread::sleep_for(10ms);
      return PlainSgd::scalars(step);
    }
  };
  Trainer<Linear<6, 3>, CrossEntropy, Slow, Features<6>, Cpu<0, 1>> trainer;
  const network::Samples<decltype(trainer)> samples(4);
  constexpr int steps = 20;
  const auto seconds = [&](auto step) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) {
      std::this_thread::sleep_for(10ms);
      step();
    }
    trainer.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double alone = seconds([&] { trainer.step(samples.inputs.data(), samples.targets.data(), 4); });
  const double queued = seconds([&] { trainer.step_async(samples.inputs.data(), samples.targets.data(), 4); });
  CHECK(alone >= steps * 0.02);
  CHECK(queued < 0.75 * alone);
}
