#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>

#include "../random_numbers.hpp"
#include "small_network.hpp"
#include "tenet/device/cuda/event.hpp"
#include "tenet/device/cuda/launch.hpp"
#include "tenet/device/cuda/stream.hpp"
#include "tenet/device/timed_event.hpp"
#include "tenet/exec/step_work.hpp"
#include "tenet/parallel/step_time.hpp"
#include "tenet/train/timeline.hpp"

using namespace tenet;
using small_network::TrainerOn;

static_assert(HasTimedEvents<gpu::Stream> && HasTimedEvents<gpu::SerialHost>);
static_assert(std::is_same_v<TimedEventOf<gpu::Stream>, gpu::Event>);
static_assert(std::is_same_v<TimedEventOf<gpu::SerialHost>, HostEvent>);
static_assert(std::is_same_v<gpu::Event, Cuda<>::Kernels::Executor::TimedEvent>);

namespace {

/// Goes over the numbers again and again.
struct Busy {
  float* numbers;
  int rounds;
  TENET_HOST_DEVICE void operator()(long i) const {
    for (int round = 0; round < rounds; ++round) numbers[i] = numbers[i] * 0.5f + 1;
  }
};

std::string message_of(const gpu::Event& begin, const gpu::Event& end) {
  try {
    begin.elapsed_seconds(end);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Each step takes some time, and a batch a hundred times as large more.
template <class Device>
void check_measured(int batch, double least_ratio) {
  using Program = typename TrainerOn<Device>::Training;
  const std::vector<double> few = measured_seconds_of_steps<Device, Program>(batch, 3),
                            many = measured_seconds_of_steps<Device, Program>(100 * batch, 3);
  REQUIRE(static_cast<int>(few.size()) == Program::lowered.used.steps);
  double sum_of_few = 0, sum_of_many = 0;
  for (std::size_t s = 0; s < few.size(); ++s) {
    CHECK(few[s] >= 0);
    sum_of_few += few[s];
    sum_of_many += many[s];
  }
  CHECK(sum_of_few > 0);
  CHECK(sum_of_many > least_ratio * sum_of_few);
  CHECK(sum_of_many < 60);
}

/// A timeline has each step of a training step, in order, within it.
template <class Device>
void check_timeline() {
  using Learner = TrainerOn<Device, Timeline<>>;
  Learner trainer{{.learning_rate = 0.1f}, 1};
  TrainerOn<Device> unrecorded{{.learning_rate = 0.1f}, 1};
  const std::vector<float> images = random_floats(8 * 256, 1);
  const std::vector<std::int32_t> labels = random_integers(8, 0, 10, 2);
  for (int i = 0; i < 3; ++i)
    CHECK(trainer.step(images.data(), labels.data(), 8).loss == unrecorded.step(images.data(), labels.data(), 8).loss);
  const TimelineReport report = trainer.timeline();
  REQUIRE(report.rows().size() == 1);
  const std::vector<Span>& spans = report.rows()[0].spans;
  const auto& steps = Learner::Training::lowered.steps;
  constexpr int count = Learner::Training::lowered.used.steps;
  REQUIRE(static_cast<int>(spans.size()) == 3 * (count + 1));
  std::int64_t last = 0;
  for (int t = 0; t < 3; ++t) {
    const Span* const of_step = spans.data() + t * (count + 1);
    const Span& all = of_step[count];
    CHECK(all.kind == SpanKind::training_step);
    for (int s = 0; s < count; ++s) {
      CHECK(of_step[s].kind == SpanKind::step);
      CHECK(of_step[s].subject == &steps[s]);
      CHECK(of_step[s].begin >= last);
      CHECK(of_step[s].end >= of_step[s].begin);
      last = of_step[s].end;
    }
    CHECK(of_step[0].begin >= all.begin);
    CHECK(last <= all.end);
  }
  CHECK(report.events().text().find("conv2d_weight_gradient 0") != std::string::npos);
}

}  // namespace

TEST_CASE("an event that was not recorded has no time", "[cuda][event]") {
  const gpu::Event begin, end;
  CHECK(message_of(begin, end) ==
        "gpu::Event: elapsed_seconds; expected two events that were recorded, found that this one was not");
  if (gpu::device_count() == 0) return;
  gpu::Event recorded;
  const gpu::Stream stream(0);
  recorded.record(stream);
  CHECK(message_of(recorded, end) ==
        "gpu::Event: elapsed_seconds; expected two events that were recorded, found that the end was not");
}

TEST_CASE("an event on a stream that CUDA does not have is an error", "[cuda][event]") {
  if (gpu::device_count() > 0) return;
  struct NoStream {
    static void use() {}
    static cudaStream_t get() { return nullptr; }
  };
  gpu::Event event;
  std::string message;
  try {
    event.record(NoStream{});
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message.find("Cuda: creating an event; expected success, found cudaError") == 0);
}

TEST_CASE("events say how long a GPU took, and wait for it", "[cuda][event]") {
  if (gpu::device_count() == 0) return;
  gpu::Stream stream(0);
  constexpr long count = 1 << 16;
  auto* const there = static_cast<float*>(stream.allocate(4 * count, "a test"));
  stream.zero(there, 4 * count);
  for_each(stream, count, Busy{there, 1});  // a kernel that is started first is loaded first
  stream.synchronize();
  gpu::Event begin, middle, end;
  for (int time = 0; time < 2; ++time) {  // recorded again they have new moments
    begin.record(stream);
    const auto before = std::chrono::steady_clock::now();
    for_each(stream, count, Busy{there, 100});
    middle.record(stream);
    for_each(stream, count, Busy{there, 1000000});
    end.record(stream);
    const double first = begin.elapsed_seconds(middle), second = middle.elapsed_seconds(end);
    CHECK(first > 0);
    CHECK(second > 10 * first);
    CHECK(begin.elapsed_seconds(end) == Approx(first + second).epsilon(0.01));
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - before;
    CHECK(begin.elapsed_seconds(end) < all.count());
    CHECK(begin.elapsed_seconds(end) > 0.5 * all.count());
  }
  gpu::Stream::free(there);
}

TEST_CASE("the steps of a GPU's program are measured by its events", "[cuda][event]") {
  check_measured<CudaOnHost<>>(4, 1.5);
  if (gpu::device_count() > 0) check_measured<Cuda<0>>(1000, 2);
}

TEST_CASE("what was measured of a GPU's steps is what a training step is predicted by", "[cuda][event]") {
  using Learner = TrainerOn<CudaOnHost<>>;
  double measured = 0;
  const auto measure = [&](int samples) {
    const std::vector<double> seconds = measured_on_this_machine<Learner>(2)(samples);
    measured = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    return seconds;
  };
  const StepTime found = predict_step_time<Learner>({.workers = 1, .batch_of_worker = 4, .seconds_of_steps = measure});
  CHECK(measured > 0);
  CHECK(found.step == Approx(measured));
}

TEST_CASE("a GPU's timeline has its steps, each between two events", "[cuda][event]") {
  check_timeline<CudaOnHost<>>();
  if (gpu::device_count() > 0) check_timeline<Cuda<0>>();
}
