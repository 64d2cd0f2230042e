#include "tenet/parallel/sharded_pass.hpp"

#include <tenet/parallel/micro_batches.hpp>
#include <tenet/tenet.hpp>

#include "../support/network.hpp"
#include "../support/networks.hpp"

using namespace tenet;

namespace {

template <class Net, class Loss, class Input>
using StepOf = Program<TrainingProgram<Net, Loss, PlainSgd, Input, ReferenceKernels>>;

/// One worker with memory of its own.
template <class P, class Cut>
struct Worker {
  ReferenceKernels::Executor executor;
  ShardedPass<P, Cut> pass;
  std::vector<float> gradients = std::vector<float>(static_cast<std::size_t>(P::slots.parameter_floats)), buffers;
  std::vector<int> taken;

  template <class Trainer>
  Worker(Trainer& trainer, const network::Samples<Trainer>& samples, int shards)
      : pass(executor, {.count = shards}), buffers(static_cast<std::size_t>(P::slots.buffer_floats)) {
    std::copy_n(trainer.weights().buffers(), buffers.size(), buffers.begin());
    pass.bind(Arena::parameters, trainer.weights().parameters());
    pass.bind(Arena::gradients, gradients.data());
    pass.bind(Arena::buffers, buffers.data());
    const auto scalars = PlainSgd{.learning_rate = 0}.scalars(1);
    pass.set_scalars(scalars.data(), 0);
    pass.give(0, samples.inputs.data());
    pass.give(1, samples.targets.data());
  }
  void run(int batch, float all) {
    taken.clear();
    pass.run(
        batch, all, [&](auto* execution, auto prepare) { pass.run_passes(execution, prepare); },
        [&](const auto&, const Shard& shard) { taken.push_back(shard.number); });
  }
};

}  // namespace

TEST_CASE("micro-batches give the gradient, the loss and the accuracy of the whole batch", "[sharded_pass]") {
  using Net = networks::WholeRows;
  using P = StepOf<Net, CrossEntropy, Features<16>>;
  using One = Trainer<Net, CrossEntropy, PlainSgd, Features<16>, Reference>;
  One one{{.learning_rate = 0}, 3};
  const network::Samples<One> samples(11);
  Worker<P, MicroBatches<3>> worker(one, samples, 3);
  long memory = 0;
  for (const int batch : {11, 3, 2, 1}) {  // some of the last ones are empty
    CAPTURE(batch);
    const StepResult expected = one.step(samples.inputs.data(), samples.targets.data(), batch);
    worker.run(batch, static_cast<float>(batch));
    CHECK(worker.pass.numbers()[0] == Approx(expected.loss).epsilon(1e-5));
    CHECK(worker.pass.numbers()[1] == Approx(expected.accuracy).epsilon(1e-5));
    for (std::size_t i = 0; i < worker.gradients.size(); ++i)
      CHECK(worker.gradients[i] == Approx(one.gradients()[i]).epsilon(1e-3).margin(1e-6));
    CHECK(worker.taken == (batch >= 3 ? std::vector{0, 1, 2} : batch == 2 ? std::vector{0, 1} : std::vector{0}));
    memory = worker.pass.memory_floats();
  }
  CHECK(memory - P::fixed_floats <= P::per_sample_floats * 4);  // of 11 samples, four at a time
}

TEST_CASE("a part of a batch counts with its share of all samples where the batch is cut", "[sharded_pass]") {
  using P = StepOf<networks::WholeRows, CrossEntropy, Features<16>>;
  using One = Trainer<networks::WholeRows, CrossEntropy, PlainSgd, Features<16>, Reference>;
  One one{{.learning_rate = 0}, 3};
  const network::Samples<One> samples(6);
  const StepResult expected = one.step(samples.inputs.data(), samples.targets.data(), 6);
  Worker<P, Reproducible> two_shards(one, samples, 2);
  two_shards.run(6, 24);
  Worker<P, WholeBatch> whole(one, samples, 1);
  whole.run(6, 24);
  CHECK(two_shards.pass.numbers()[0] == Approx(expected.loss / 4));
  CHECK(whole.pass.numbers()[0] == expected.loss);
  for (std::size_t i = 0; i < whole.gradients.size(); ++i) {
    CHECK(whole.gradients[i] == one.gradients()[i]);
    CHECK(two_shards.gradients[i] == Approx(one.gradients()[i] / 4).epsilon(1e-3).margin(1e-6));
  }
}

TEST_CASE("running statistics are of all micro-batches in turn, or of the first shard", "[sharded_pass]") {
  using Net = networks::Residual;
  using Input = Image<2, 6, 5>;
  using P = StepOf<Net, CrossEntropy, Input>;
  using One = Trainer<Net, CrossEntropy, PlainSgd, Input, Reference>;
  One one{{.learning_rate = 0}, 3};
  const network::Samples<One> samples(7);
  Worker<P, MicroBatches<2>> in_turn(one, samples, 2);
  Worker<P, Reproducible> of_first(one, samples, 2);
  in_turn.run(7, 7);
  of_first.run(7, 7);
  const auto statistics = [&] {
    return std::vector<float>(one.weights().buffers(), one.weights().buffers() + Weights<Net>::table.buffer_floats);
  };
  const Shard second = shard_of(7, 1, 2);
  one.step(samples.inputs.data(), samples.targets.data(), second.first_sample);
  CHECK(of_first.buffers == statistics());
  one.step(samples.inputs.data() + second.first_sample * Input::size, samples.targets.data() + second.first_sample,
           second.samples);
  CHECK(in_turn.buffers == statistics());
  CHECK(in_turn.buffers != of_first.buffers);
}
