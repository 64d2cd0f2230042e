#include "tenet/exec/step_work.hpp"

#include <catch2/catch.hpp>
#include <tenet/tenet.hpp>

#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"
#include "../support/far_device.hpp"
#include "../support/joining_device.hpp"
#include "tenet/exec/resident_execution.hpp"

using namespace tenet;

namespace {

struct OneLayer : Sequential<Linear<1000, 500>> {};

template <class Net, class Input, class... Tags>
using Training = typename Trainer<Net, CrossEntropy, PlainSgd, Input, Cpu<0, 1>, Tags...>::Training;

Cost sum_of(const std::vector<StepWork>& work, Cost StepWork::*member) {
  Cost sum;
  for (const StepWork& step : work) {
    sum.per_sample += (step.*member).per_sample;
    sum.fixed += (step.*member).fixed;
  }
  return sum;
}

}  // namespace

TEST_CASE("the steps' FLOPs are the program's", "[step_work]") {
  const auto check = []<class Program>(std::type_identity<Program>) {
    const Cost flops = sum_of(work_of_steps<Program>(), &StepWork::flops);
    // What is cheap to do again may be in two steps.
    CHECK(flops.per_sample >= Program::flops.per_sample);
    CHECK(static_cast<double>(flops.per_sample) < 1.02 * static_cast<double>(Program::flops.per_sample));
    CHECK(flops.fixed >= Program::flops.fixed);
    CHECK(static_cast<double>(flops.fixed) < 1.02 * static_cast<double>(Program::flops.fixed));
  };
  check(std::type_identity<Training<LeNet, Image<1, 28, 28>>>{});
  check(std::type_identity<Training<OneLayer, Features<1000>>>{});
}

TEST_CASE("what is moved: weights, gradients and the update of a layer", "[step_work]") {
  using Program = Training<OneLayer, Features<1000>>;
  const std::vector<StepWork> work = work_of_steps<Program>();
  const Cost bytes = sum_of(work, &StepWork::bytes);
  // The weight is read forward; its gradient is written; the update reads both and writes one.
  const long weight = 4 * 500 * 1000;
  CHECK(bytes.fixed >= 5 * weight);
  CHECK(bytes.fixed < 5 * weight + 20'000 * 5);
  CHECK(bytes.per_sample >= 4 * (2 * 1000 + 500));  // inputs are read twice
  CHECK(bytes.per_sample < 4 * (2 * 1000 + 20 * 500));
  int forward = 0;
  bool over = false;
  for (const StepWork& step : work) {
    CHECK(!(step.is_forward && over));  // this program's forward pass comes first
    over = over || !step.is_forward;
    forward += step.is_forward;
  }
  CHECK(forward > 0);
  CHECK(forward < static_cast<int>(work.size()));
}

TEST_CASE("what is stored and summed by one loop is read once", "[step_work]") {
  const auto work_with = []<class Kernels>(std::type_identity<Kernels>) {
    using Program = tenet::Program<
        TrainingProgram<ResNet18<>, CrossEntropy, PlainSgd, Image<1, 28, 28>, Kernels, UpdateInBackward>>;
    const std::vector<StepWork> work = work_of_steps<Program>();
    const Cost flops = sum_of(work, &StepWork::flops);
    CHECK(std::abs(static_cast<double>(flops.per_sample) / static_cast<double>(Program::flops.per_sample) - 1) < 0.02);
    return sum_of(work, &StepWork::bytes);
  };
  const Cost apart = work_with(std::type_identity<turned::Kernels>{});
  const Cost joint = work_with(std::type_identity<joining::Kernels<true>>{});
  // A batch norm reads its input once instead of twice for its moments, one image less and two gradients less for those
  // backward, and one gradient less for the bias in front of it: five images of 64 channels alone are read so.
  const long images = 4 * 5 * (1 + 1 + 2 + 1) * 64 * 28 * 28;
  CHECK(joint.per_sample < apart.per_sample - images);
  // A sum's result is read by what was behind it in the same step.
  CHECK(static_cast<double>(joint.fixed) < 1.001 * static_cast<double>(apart.fixed));
}

TEST_CASE("a machine's roofline", "[step_work]") {
  constexpr Machine machine{.flops_per_second = 1e9, .bytes_per_second = 1e8, .seconds_of_call = 1e-6};
  constexpr StepWork work{.flops = {1000, 500}, .bytes = {100, 10}};
  CHECK(machine.seconds(work, 10) == Approx(1e-6 + 10'500 / 1e9));  // FLOPs take longer than 1010 bytes
  constexpr StepWork copy{.flops = {}, .bytes = {100, 10}};
  CHECK(machine.seconds(copy, 10) == Approx(1e-6 + 1010 / 1e8));
  using Program = Training<LeNet, Image<1, 28, 28>>;
  const std::vector<double> seconds = seconds_of_steps<Program>(machine, 4);
  REQUIRE(static_cast<int>(seconds.size()) == Program::lowered.used.steps);
  CHECK(seconds.back() == machine.seconds(work_of_steps<Program>().back(), 4));
}

TEST_CASE("steps are measured, each by itself", "[step_work]") {
  using Program = Training<LeNet, Image<1, 28, 28>>;
  const std::vector<double> few = measured_seconds_of_steps<Cpu<0, 1>, Program>(2, 3),
                            many = measured_seconds_of_steps<Cpu<0, 1>, Program>(200, 3);
  REQUIRE(static_cast<int>(few.size()) == Program::lowered.used.steps);
  double sum_of_few = 0, sum_of_many = 0;
  for (std::size_t s = 0; s < few.size(); ++s) {
    CHECK(few[s] > 0);
    sum_of_few += few[s];
    sum_of_many += many[s];
  }
  CHECK(sum_of_many > 3 * sum_of_few);  // a hundred times as many samples
}

TEST_CASE("on a device with a memory of its own steps are measured by its events", "[step_work]") {
  using Program = Trainer<OneLayer, CrossEntropy, Sgd, Features<1000>, far::Device>::Training;
  constexpr int steps = Program::lowered.used.steps - Program::lowered.prepared_steps;
  static_assert(steps > 3);
  // Of the rounds that count even steps are quick in one, odd ones in the other, which is slower; what is between
  // rounds is not counted.
  const auto seconds_of = [](int round, int step) {
    return round == 0 ? 0.01 : step % 2 == round - 1 ? 1.0 : 1.0 + 2 * round;
  };
  constexpr long events = 3 * (steps + 1);
  std::vector<double> times(events, 0.0);  // those that are made
  double now = 0;
  for (int round = 0; round < 3; ++round) {
    times.push_back(now += 50);
    for (int s = 0; s < steps; ++s) times.push_back(now += seconds_of(round, s));
  }
  far::Event::recorded = 0;
  far::Event::time_of_event = [&](long i) { return times.at(static_cast<std::size_t>(i)); };
  const std::vector<double> found = measured_seconds_of_steps<far::Device, Program>(4, 2);
  CHECK(far::Event::recorded == 2 * events);
  REQUIRE(static_cast<int>(found.size()) == Program::lowered.used.steps);
  double quickest = 0;
  for (int s = 0; s < steps; ++s) quickest += seconds_of(1, s);
  for (int s = 0; s < steps; ++s)
    CHECK(found[static_cast<std::size_t>(Program::lowered.prepared_steps + s)] == Approx(quickest / steps));
}
