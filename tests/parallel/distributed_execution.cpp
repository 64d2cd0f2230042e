#include "tenet/parallel/distributed_execution.hpp"

#include <tenet/tenet.hpp>

#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/processes.hpp"
#include "../support/thread_world.hpp"

using namespace tenet;

namespace {

/// Ranks that are threads: see `processes::Job`.
struct Threads {
  using World = ThreadWorld;
  template <class Body>
  static std::vector<std::vector<float>> collect(int count, Body body) {
    return ranks::collect(count, [&](ThreadTransport& transport) {
      const ThreadWorld::Joined joined(transport);
      return body(transport.rank());
    });
  }
};

/// Ranks with samples of their own train as one device does with all of them. `parts` are the ranks' numbers of
/// samples.
template <class Ranks, class Net, class Loss, class Optimizer, class Input, class... Policies>
void check_ranks(std::vector<int> parts, Optimizer optimizer) {
  using One = Trainer<Net, Loss, Optimizer, Input, Reference>;
  using Rank = Trainer<Net, Loss, Optimizer, Input, Distributed<typename Ranks::World>, Policies...>;
  constexpr auto floats = static_cast<std::size_t>(Weights<Net>::table.parameter_floats);
  constexpr int steps = 4;
  int all = 0;
  for (const int part : parts) all += part;
  CAPTURE(parts.size(), all);
  const network::Samples<One> samples(all);
  One one{optimizer, 0};
  std::vector<float> losses;
  for (int step = 0; step < steps; ++step)
    losses.push_back(one.step(samples.inputs.data(), samples.targets.data(), all).loss);

  const std::vector<std::vector<float>> parameters = Ranks::collect(static_cast<int>(parts.size()), [&](int rank) {
    int first = 0;
    for (int r = 0; r < rank; ++r) first += parts[static_cast<std::size_t>(r)];
    // Another seed on every rank: they begin with what rank 0 has.
    Rank trainer{optimizer, static_cast<std::uint64_t>(rank)};
    for (const float expected : losses) {
      const StepResult found =
          trainer.step(samples.inputs.data() + first * Input::size, samples.targets.data() + first * One::Target::size,
                       parts[static_cast<std::size_t>(rank)]);
      if (!(std::fabs(found.loss - expected) <= 1e-4f * std::fabs(expected)))
        fail("step", "another loss", std::to_string(expected), std::to_string(found.loss));
    }
    return std::vector<float>(trainer.weights().parameters(), trainer.weights().parameters() + floats);
  });
  REQUIRE(parameters[0].size() == floats);
  double worst = 0, largest = 1e-30;
  for (std::size_t i = 0; i < floats; ++i) {
    const double expected = one.weights().parameters()[i];
    worst = std::fmax(worst, std::fabs(parameters[0][i] - expected));
    largest = std::fmax(largest, std::fabs(expected));
  }
  CHECK(worst < 1e-4 * largest);
  for (const auto& of_rank : parameters) CHECK(of_rank == parameters[0]);  // to the bit
}

template <class Ranks>
void check_training() {
  using networks::WholeRows;
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};
  check_ranks<Ranks, WholeRows, CrossEntropy, Sgd, Features<16>, Reference>({5}, sgd);
  check_ranks<Ranks, WholeRows, CrossEntropy, Sgd, Features<16>, Reference>({5, 5}, sgd);
  check_ranks<Ranks, WholeRows, MeanSquaredError, Sgd, Features<16>, Reference, Ring, BucketBytes<4096>>({4, 1, 6},
                                                                                                         sgd);
  check_ranks<Ranks, WholeRows, CrossEntropy, AdamW, Features<16>, Cpu<0, 1>, AllReduce, BucketBytes<1>>(
      {3, 2, 2, 1}, {.learning_rate = 0.01f});
}

}  // namespace

TEST_CASE("ranks with samples of their own train as one device with all of them", "[distributed_execution]") {
  check_training<Threads>();
}
TEST_CASE("the same where ranks are processes", "[distributed_execution]") { check_training<processes::Job>(); }

TEST_CASE("running statistics are those of rank 0, everywhere", "[distributed_execution]") {
  using Net = networks::Residual;
  using Input = Image<2, 6, 5>;
  using One = Trainer<Net, CrossEntropy, PlainSgd, Input, Reference>;
  using Rank = Trainer<Net, CrossEntropy, PlainSgd, Input, Reference, Distributed<ThreadWorld>>;
  constexpr auto floats = static_cast<std::size_t>(Weights<Net>::table.buffer_floats);
  const network::Samples<One> samples(7);
  One one{{.learning_rate = 0.1f}, 0};
  one.step(samples.inputs.data(), samples.targets.data(), 4);
  const std::vector<float> expected(one.weights().buffers(), one.weights().buffers() + floats);
  std::vector<std::vector<float>> found(2);
  ranks::run_well(2, [&](ThreadTransport& transport) {
    const ThreadWorld::Joined joined(transport);
    const int first = transport.rank() == 0 ? 0 : 4, count = transport.rank() == 0 ? 4 : 3;
    Rank trainer{{.learning_rate = 0.1f}, 0};
    trainer.step(samples.inputs.data() + first * Input::size, samples.targets.data() + first, count);
    found[static_cast<std::size_t>(transport.rank())].assign(trainer.weights().buffers(),
                                                             trainer.weights().buffers() + floats);
    trainer.predict(samples.inputs.data(), 2);  // each rank by itself
  });
  CHECK(found[0] == expected);
  CHECK(found[1] == found[0]);
}

TEST_CASE("a rank that is gone is named, with what it did not send", "[distributed_execution]") {
  using Rank = Trainer<networks::WholeRows, CrossEntropy, PlainSgd, Features<16>, Reference, Distributed<ThreadWorld>>;
  const network::Samples<Rank> samples(4);
  const auto messages = ranks::run(
      2,
      [&](ThreadTransport& transport) {
        const ThreadWorld::Joined joined(transport);
        Rank trainer{{.learning_rate = 0.1f}, 0};
        for (int step = 0; step < 3; ++step) {
          if (transport.rank() == 1 && step == 2) return;
          trainer.step(samples.inputs.data(), samples.targets.data(), 4);
        }
      },
      std::chrono::milliseconds(500));
  CAPTURE(messages[0]);
  CHECK(messages[0].find("number of samples of step 3: waits for a message from rank 1; expected within 0.5 s") !=
        std::string::npos);
}
