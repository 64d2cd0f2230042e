#pragma once

#include <mutex>
#include <tenet/tenet.hpp>

#include "network.hpp"
#include "networks.hpp"

/// What holds of the passes of a rank, whatever its devices are.
namespace rank_passes {

using Net = networks::WholeRows;
using Step = tenet::Program<
    tenet::TrainingProgram<Net, tenet::CrossEntropy, tenet::PlainSgd, tenet::Features<16>, tenet::ReferenceKernels>>;

/// Rank 1 of 2 with some samples has the gradient and the loss of one device with these. Each bucket is prepared once,
/// its parameters are awaited once, before; then all devices update, each a part of the parameters.
template <class Passes, class Devices>
void check(auto... devices_are) {
  using namespace tenet;
  using One = Trainer<Net, CrossEntropy, PlainSgd, Features<16>, Reference>;
  static constexpr auto plan = plan_buckets(Step::lowered, Step::slots, 100);
  static_assert(plan.count > 3);
  constexpr long floats = Step::slots.parameter_floats;
  One one{{.learning_rate = 0}, 3};
  const network::Samples<One> samples(11);
  Devices devices(devices_are...);
  Passes passes(devices, 1, 2);
  std::vector<float> gradients(static_cast<std::size_t>(floats));
  std::vector<float> parameters(one.weights().parameters(), one.weights().parameters() + floats);
  passes.bind(Arena::parameters, parameters.data());
  passes.bind(Arena::gradients, gradients.data());
  const auto scalars = PlainSgd{.learning_rate = 0.5f}.scalars(1);
  passes.set_scalars(scalars.data(), 0);
  passes.give(0, samples.inputs.data());
  passes.give(1, samples.targets.data());
  for (const int batch : {11, 3, 1}) {
    CAPTURE(batch);
    const std::vector<float> before = parameters;
    std::copy(before.begin(), before.end(), one.weights().parameters());
    one.weights().changed();
    const StepResult expected = one.step(samples.inputs.data(), samples.targets.data(), batch);
    std::mutex mutex;
    std::vector<int> awaited, prepared;
    std::thread::id first;
    int behind = 0, met = 0;
    const auto backward = [&](auto* execution, auto prepare, auto wait) {
      first = std::this_thread::get_id();
      run_by_buckets<Step>(
          execution, plan, passes.memory(Arena::gradients),
          [&](int b) {
            prepare(b, plan.buckets[static_cast<std::size_t>(b)]);
            CHECK(passes.has_computed(b));
            prepared.push_back(b);
          },
          wait);
    };
    passes.compute(
        batch, static_cast<float>(batch), plan, backward,
        [&](int device, int b) {
          passes.behind_first(device, {"parameters", b, 1}, [&] {
            CHECK(std::this_thread::get_id() == first);
            CHECK(prepared.empty());
            awaited.push_back(b);
          });
        },
        [&](int device) {
          passes.behind_first(device, {"all", -1, 1}, [&] { ++met; });
          passes.execution(device).prepare_update();
          for (const Bucket& bucket : plan)
            passes.update(device, passes.execution(device), {bucket.first, bucket.floats}, nullptr, 0);
          const std::lock_guard guard(mutex);
          CHECK(met == 1);
          ++behind;
        });
    CHECK(awaited == std::vector<int>(plan.by_need.begin(), plan.by_need.begin() + plan.count));
    CHECK(std::is_sorted(prepared.begin(), prepared.end()));
    CHECK(prepared.size() == static_cast<std::size_t>(plan.count));
    int devices_of_rank = 0;
    std::atomic<int> come{0};
    passes.for_all([&](int device) {
      if (device != 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++come;
      passes.first_behind_all(device, {"all", -1, 1});
      if (device == 0) devices_of_rank = come;
    });
    CHECK(devices_of_rank == behind);
    CHECK(passes.numbers()[0] == Approx(expected.loss).epsilon(1e-5));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      CHECK(gradients[i] == Approx(one.gradients()[i]).epsilon(1e-3).margin(1e-6));
      CHECK(parameters[i] == Approx(before[i] - 0.5f * gradients[i]).margin(1e-6));
    }
  }
}

}  // namespace rank_passes
