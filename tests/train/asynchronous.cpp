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
