#include "tenet/parallel/replica_passes.hpp"

#include <tenet/parallel/micro_batches.hpp>
#include <tenet/tenet.hpp>

#include "../support/network.hpp"
#include "../support/networks.hpp"

using namespace tenet;

TEST_CASE("replicas have gradients of their parts, and sums over all of them", "[replica_passes]") {
  using Net = networks::WholeRows;
  using P = Program<TrainingProgram<Net, CrossEntropy, PlainSgd, Features<16>, ReferenceKernels>>;
  using Passes = ReplicaPasses<P, Reference, MicroBatches<2>>;
  using One = Trainer<Net, CrossEntropy, PlainSgd, Features<16>, Reference>;
  One one{{.learning_rate = 0}, 3};
  const network::Samples<One> samples(11);
  constexpr long floats = P::slots.parameter_floats;
  Passes::Group replicas(3);
  Passes passes(replicas, {.count = 2, .first = 10});
  std::vector<float> gradients(static_cast<std::size_t>(floats)), sum(gradients);
  passes.bind(Arena::parameters, one.weights().parameters());
  passes.bind(Arena::gradients, gradients.data());
  const auto scalars = PlainSgd{.learning_rate = 0.5f}.scalars(1);
  passes.set_scalars(scalars.data(), 0);
  passes.give(0, samples.inputs.data());
  passes.give(1, samples.targets.data());
  for (const int batch : {11, 2}) {
    CAPTURE(batch);
    const StepResult expected = one.step(samples.inputs.data(), samples.targets.data(), batch);
    passes.begin(batch);
    std::atomic<int> shards{0}, in_order{0};
    replicas.run([&](int r) {
      int last = -1;
      passes.run(
          r, static_cast<float>(batch),
          [&](auto* execution, auto prepare) { passes.pass(r).run_passes(execution, prepare); },
          [&](const auto&, const Shard& shard) {
            ++shards;
            in_order += shard.number >= 10 + 2 * r && shard.number < 12 + 2 * r && shard.number > last;
            last = shard.number;
          });
    });
    CHECK(shards == std::min(batch, 6));
    CHECK(in_order == shards);
    passes.add_up_gradients(sum.data(), 0, floats);
    for (std::size_t i = 0; i < sum.size(); ++i) CHECK(sum[i] == Approx(one.gradients()[i]).epsilon(1e-3).margin(1e-6));
    passes.add_up_numbers();
    CHECK(passes.numbers()[0] == Approx(expected.loss).epsilon(1e-5));
  }
  // An update by gradients of which some lie in the block's room, and some elsewhere.
  std::vector<float> twos(static_cast<std::size_t>(floats), 2.0f);
  std::vector<float> parameters(one.weights().parameters(), one.weights().parameters() + floats);
  passes.bind(Arena::parameters, parameters.data());
  replicas.run([&](int r) {
    passes.pass(r).execution().prepare_update();
    passes.update(r, part_of(floats, r, 3), [&](long first, long count, float* room) -> float* {
      if (r == 0) return twos.data() + first;
      return std::fill_n(room, count, 2.0f) - count;
    });
  });
  for (std::size_t i = 0; i < parameters.size(); ++i)
    CHECK(parameters[i] == Approx(one.weights().parameters()[i] - 1.0f).margin(1e-6));
}
