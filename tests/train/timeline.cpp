#include "tenet/train/timeline.hpp"

#include <tenet/parallel/micro_batches.hpp>
#include <tenet/tenet.hpp>

#include "../support/far_device.hpp"
#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/trace.hpp"
#include "../temporary_folder.hpp"
#include "tenet/exec/resident_execution.hpp"

using namespace tenet;
using Catch::Matchers::Contains;

namespace {

using networks::WholeRows;
template <class... Policies>
using Learner = Trainer<WholeRows, CrossEntropy, Sgd, Features<16>, Policies...>;
using Recorded = Learner<Reference, Timeline<>>;

template <class T>
void take_steps(T& trainer, int steps, int batch = 6) {
  const network::Samples<T> samples(batch);
  for (int i = 0; i < steps; ++i) trainer.step(samples.inputs.data(), samples.targets.data(), batch);
}

}  // namespace

TEST_CASE("each step of the program is in the file, in order, within its pass and training step", "[timeline]") {
  const TemporaryFolder folder;
  Recorded trainer{{.learning_rate = 0.1f}, 0};
  take_steps(trainer, 3);
  trainer.timeline().write(folder / "trace.json");
  const trace::File file = trace::read(folder / "trace.json");
  CHECK(file.processes.at(0) == "measured");
  CHECK(file.rows.at({0, 1}) == "device 0");
  CHECK(file.processes.size() == 2);  // and the plan

  const auto training = file.of(0, 1, "training step");
  REQUIRE(training.size() == 3);
  using P = Recorded::Training;
  for (std::size_t t = 0; t < 3; ++t) {
    CHECK(training[t].name == "training step " + std::to_string(t + 1));
    CHECK(training[t].arguments["samples"].number == 6);
    const auto steps = file.within(training[t], "step");
    REQUIRE(static_cast<int>(steps.size()) == P::lowered.used.steps);
    const auto passes = file.within(training[t], "pass");
    REQUIRE(passes.size() == 3);
    CHECK(passes[0].name == "forward");
    CHECK(passes[1].name == "backward");
    CHECK(passes[2].name == "update");
    for (int s = 0; s < P::lowered.used.steps; ++s) {
      const trace::Event& step = steps[static_cast<std::size_t>(s)];
      CHECK(step.name.starts_with(P::lowered.steps[s].name));
      const bool forward = P::order.head[P::lowered.steps[s].number] < P::graph.forward_count;
      const std::size_t pass = s >= P::lowered.first_update ? 2 : forward ? 0 : 1;
      CHECK(step.arguments["pass"].text == passes[pass].name);
      CHECK(passes[pass].contains(step));
    }
  }
}

TEST_CASE("steps are named by operation and layer, those of gradients by the layer that they are of", "[timeline]") {
  Recorded trainer{{.learning_rate = 0.1f}, 0};
  take_steps(trainer, 1);
  const trace::File file = trace::File(trainer.timeline().events().text());
  std::vector<std::string> products;
  for (const trace::Event& step : file.of(0, 1, "step"))
    if (step.name.starts_with("matmul")) products.push_back(step.name);
  // Layers 0, 2, 4 and 6 forward; backward each but the first has the gradient of its input.
  CHECK(products ==
        std::vector<std::string>{"matmul 0", "matmul 2", "matmul 4", "matmul 6", "matmul 6", "matmul 4", "matmul 2"});
}

TEST_CASE("evaluation and inference are recorded under their names", "[timeline]") {
  Recorded trainer{{.learning_rate = 0.1f}, 0};
  const network::Samples<Recorded> samples(4);
  trainer.predict(samples.inputs.data(), 4);
  take_steps(trainer, 1);
  trainer.predict(samples.inputs.data(), 4);
  trainer.predict(samples.inputs.data(), 1);  // a batch of one, too
  const trace::File file = trace::File(trainer.timeline().events().text());
  std::vector<std::string> passes;
  for (const trace::Event& pass : file.of(0, 1, "pass")) passes.push_back(pass.name);
  CHECK(passes == std::vector<std::string>{"inference", "forward", "backward", "update", "inference", "inference"});
  CHECK(static_cast<int>(file.of(0, 1, "step").size()) ==
        Recorded::Training::lowered.used.steps + 3 * Recorded::Predicting::lowered.used.steps);
}

TEST_CASE("a row keeps the last steps of a long training, and says what it dropped", "[timeline]") {
  constexpr int kept = 50;
  Learner<Reference, Timeline<kept>> trainer{{.learning_rate = 0.1f}, 0};
  take_steps(trainer, 20);
  const auto report = trainer.timeline();
  const long spans = 20L * (Recorded::Training::lowered.used.steps + 1);
  REQUIRE(report.rows().size() == 1);
  CHECK(report.rows()[0].spans.size() == kept);
  CHECK(report.rows()[0].added == spans);
  CHECK(report.rows()[0].dropped() == spans - kept);
  CHECK_THAT(report.text(), Contains(std::to_string(spans - kept) + " older ones dropped"));
  const trace::File file = trace::File(report.events().text());
  CHECK(file.rows.at({0, 1}) == "device 0, " + std::to_string(spans - kept) + " older spans dropped");
  CHECK(file.of(0, 1, "training step").back().name == "training step 20");
}

TEST_CASE("waiting for batches is recorded", "[timeline]") {
  Recorded trainer{{.learning_rate = 0.1f}, 0};
  const network::Floats inputs = network::numbers(16 * 30);
  const TensorDataset<float, std::int32_t> data(inputs, {16}, std::vector<std::int32_t>(30, 1));
  FitOptions options;
  options.epochs = 2;
  options.progress = nullptr;
  trainer.fit(DataLoader{data, {.batch_size = 10}}, options);
  trainer.evaluate(DataLoader{data, {.batch_size = 10}});
  const trace::File file = trace::File(trainer.timeline().events().text());
  const auto waits = file.of(0, 1, "wait"), training = file.of(0, 1, "training step");
  REQUIRE(training.size() == 6);
  REQUIRE(waits.size() == 6 + 3);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(waits[i].name == "wait for a batch");
    CHECK(waits[i].end() <= training[i].begin);
  }
}

TEST_CASE("the plan has the length that was measured, and the same steps", "[timeline]") {
  Recorded trainer{{.learning_rate = 0.1f}, 0};
  take_steps(trainer, 5, 64);
  const trace::File file = trace::File(trainer.timeline().events().text());
  const long plan = TimelineReport::planned_process;
  CHECK(file.processes.at(plan) == "planned");
  const auto planned = file.of(plan, 1, "step"), passes = file.of(plan, 1, "pass");
  REQUIRE(static_cast<int>(planned.size()) == Recorded::Training::lowered.used.steps);
  REQUIRE(passes.size() == 3);
  double longest = 0;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    if (i > 0) CHECK(std::abs(planned[i].begin - planned[i - 1].end()) < 0.01);
    CHECK(planned[i].name.starts_with(Recorded::Training::lowered.steps[i].name));
    longest = std::max(longest, planned[i].duration);
  }
  // It begins with one of the measured training steps, and computes as long as that.
  bool found = false;
  for (const trace::Event& training : file.of(0, 1, "training step")) {
    if (std::abs(training.begin - planned[0].begin) > 0.01) continue;
    found = true;
    double measured = 0;
    for (const trace::Event& step : file.within(training, "step")) measured += step.duration;
    CHECK(planned.back().end() - planned[0].begin == Approx(measured).epsilon(0.001));
  }
  CHECK(found);
  CHECK(longest < 0.9 * (planned.back().end() - planned[0].begin));
  CHECK_THAT(trainer.timeline().text(), Contains("measured us   planned us") && Contains("backward"));
}

TEST_CASE("a recorded training computes the same bits", "[timeline]") {
  Learner<Cpu<0, 1>> plain{{.learning_rate = 0.1f, .momentum = 0.9f}, 3};
  Learner<Cpu<0, 1>, Timeline<>> recorded{{.learning_rate = 0.1f, .momentum = 0.9f}, 3};
  take_steps(plain, 5);
  take_steps(recorded, 5);
  const long floats = Weights<WholeRows>::table.parameter_floats;
  CHECK(
      std::equal(plain.weights().parameters(), plain.weights().parameters() + floats, recorded.weights().parameters()));
}

TEST_CASE("steps of a device with a memory of its own have the times of its events", "[timeline]") {
  // The device's clock began elsewhere, and stands still but for events: so no step is as long as the host thinks.
  static double now;
  now = 1e3;
  far::Event::time_of_event = [](long) { return now += 1e-9; };
  Learner<far::Device> plain{{.learning_rate = 0.1f, .momentum = 0.9f}, 3};
  Learner<far::Device, Timeline<>> recorded{{.learning_rate = 0.1f, .momentum = 0.9f}, 3};
  take_steps(plain, 4);
  take_steps(recorded, 4);
  CHECK(recorded.executor().recorded == 0);  // each step is started by itself
  const long floats = Weights<WholeRows>::table.parameter_floats;
  CHECK(
      std::equal(plain.weights().parameters(), plain.weights().parameters() + floats, recorded.weights().parameters()));
  const network::Samples<Recorded> samples(4);
  recorded.predict(samples.inputs.data(), 4);

  using P = Learner<far::Device, Timeline<>>::Training;
  using Predicting = Learner<far::Device, Timeline<>>::Predicting;
  constexpr int count = P::lowered.used.steps;
  const TimelineReport report = recorded.timeline();
  const std::vector<Span>& spans = report.rows().at(0).spans;
  REQUIRE(static_cast<int>(spans.size()) == 4 * (count + 1) + Predicting::lowered.used.steps);
  for (int t = 0; t < 4; ++t) {
    const Span* const of_step = spans.data() + t * (count + 1);
    const Span& training = of_step[count];
    CHECK(training.kind == SpanKind::training_step);
    for (int s = 0; s < count; ++s) {
      CHECK(of_step[s].subject == &P::lowered.steps[s]);
      CHECK(of_step[s].end - of_step[s].begin == 1);
      CHECK(of_step[s].begin == of_step[0].begin + s);
      CHECK(training.begin <= of_step[s].begin);
      CHECK(of_step[s].end <= training.end);
    }
  }
  CHECK(spans.back().subject == &Predicting::lowered.steps[Predicting::lowered.used.steps - 1]);
}

TEST_CASE("the tag goes with the policies of the other axes", "[timeline]") {
  const auto check = [](auto plain, auto recorded) {
    take_steps(plain, 3);
    take_steps(recorded, 3);
    const long floats = Weights<WholeRows>::table.parameter_floats;
    CHECK(std::equal(plain.weights().parameters(), plain.weights().parameters() + floats,
                     recorded.weights().parameters()));
    CHECK(trace::File(recorded.timeline().events().text()).of(0, 1, "training step").size() == 3);
  };
  check(Learner<Cpu<0, 2>, BFloat16>{}, Learner<Cpu<0, 2>, BFloat16, Timeline<>>{});
  check(Learner<DirectConvolution, UpdateInBackward>{}, Learner<DirectConvolution, UpdateInBackward, Timeline<>>{});
  check(Learner<Reference, MicroBatches<2>, MemoryBound<100'000>>{},
        Learner<Reference, MicroBatches<2>, MemoryBound<100'000>, Timeline<>>{});
}

TEST_CASE("queued steps are recorded, and the report waits for them", "[timeline]") {
  Recorded trainer{{.learning_rate = 0.1f}, 0};
  const network::Samples<Recorded> samples(4);
  for (int i = 0; i < 10; ++i) trainer.step_async(samples.inputs.data(), samples.targets.data(), 4);
  CHECK(trace::File(trainer.timeline().events().text()).of(0, 1, "training step").size() == 10);
}

TEST_CASE("a report is a copy", "[timeline]") {
  std::optional<TimelineReport> report;
  std::string before;
  {
    Recorded trainer{{.learning_rate = 0.1f}, 0};
    take_steps(trainer, 2);
    report.emplace(trainer.timeline());
    before = report->events().text();
    take_steps(trainer, 2);
    const network::Samples<Recorded> samples(4);
    trainer.predict(samples.inputs.data(), 4);  // another program
    CHECK(report->events().text() == before);
  }
  CHECK(report->events().text() == before);
}

TEST_CASE("without a step there is nothing to show", "[timeline]") {
  const Recorded trainer{{.learning_rate = 0.1f}, 0};
  const auto report = trainer.timeline();
  CHECK(report.rows().size() == 1);
  CHECK(report.text() == "device 0                     busy  0.000000 s,   0 % of the time; 0 spans\n");
  CHECK(trace::File(report.events().text()).events.empty());
}

TEST_CASE("without the policy a trainer has no room for a timeline", "[timeline]") {
  STATIC_REQUIRE(std::is_empty_v<Policies<Features<16>>::Timeline::Recording>);
  STATIC_REQUIRE(std::is_same_v<Policies<Features<16>>::Kernels, CpuKernels>);
  STATIC_REQUIRE(std::is_same_v<Policies<Features<16>, Timeline<>>::Kernels, WithTimeline<CpuKernels>>);
  STATIC_REQUIRE(Policies<Features<16>, Timeline<>>::records);
}
