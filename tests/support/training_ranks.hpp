#pragma once

#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/tenet.hpp>

#include "network.hpp"
#include "networks.hpp"
#include "processes.hpp"
#include "thread_world.hpp"

namespace ranks {

/// Ranks that are threads: see `processes::Job`.
struct Threads {
  using World = ThreadWorld;
  template <class Body>
  static std::vector<std::vector<float>> collect(int count, Body body) {
    return ranks::collect(count, [&](tenet::ThreadTransport& transport) {
      const ThreadWorld::Joined joined(transport);
      return body(transport.rank());
    });
  }
};

/// Within rounding of a few steps.
inline void check_close(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  long differing = 0;
  for (std::size_t i = 0; i < found.size(); ++i) differing += !(found[i] == Approx(expected[i]).margin(1e-5));
  CHECK(differing == 0);
}

/// The same ranks, each with so many replicas.
template <class Ranks, int replicas>
struct WithReplicas : Ranks {};

template <class Ranks>
struct StrategyOf {
  using type = tenet::Distributed<typename Ranks::World>;
};
template <class Ranks, int replicas>
struct StrategyOf<WithReplicas<Ranks, replicas>> {
  using type = tenet::Distributed<typename Ranks::World, tenet::DataParallel<replicas>>;
};

/// Ranks with samples of their own train as one device does with all of them. `parts` are the ranks' numbers of
/// samples.
template <class Ranks, class Net, class Loss, class Optimizer, class Input, class... Policies>
void check_training(std::vector<int> parts, Optimizer optimizer) {
  using One = tenet::Trainer<Net, Loss, Optimizer, Input, tenet::Reference>;
  using Rank = tenet::Trainer<Net, Loss, Optimizer, Input, typename StrategyOf<Ranks>::type, Policies...>;
  // Running statistics are those of all samples where batch norm is synchronised.
  constexpr long parameter_floats = tenet::Weights<Net>::table.parameter_floats,
                 buffer_floats = Rank::Chosen::BatchNorm::shares_batch ? tenet::Weights<Net>::table.buffer_floats : 0;
  constexpr int steps = 4;
  const auto numbers_of = [](auto& weights) {
    std::vector<float> numbers(weights.parameters(), weights.parameters() + parameter_floats);
    numbers.insert(numbers.end(), weights.buffers(), weights.buffers() + buffer_floats);
    return numbers;
  };
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
      const tenet::StepResult found =
          trainer.step(samples.inputs.data() + first * Input::size, samples.targets.data() + first * One::Target::size,
                       parts[static_cast<std::size_t>(rank)]);
      if (!(std::fabs(found.loss - expected) <= 1e-4f * std::fabs(expected)))
        tenet::fail("step", "another loss", std::to_string(expected), std::to_string(found.loss));
    }
    return numbers_of(trainer.weights());
  });
  const std::vector<float> all_expected = numbers_of(one.weights());
  REQUIRE(parameters[0].size() == all_expected.size());
  double worst = 0, largest = 1e-30;
  for (std::size_t i = 0; i < all_expected.size(); ++i) {
    worst = std::fmax(worst, std::fabs(static_cast<double>(parameters[0][i]) - all_expected[i]));
    largest = std::fmax(largest, std::fabs(static_cast<double>(all_expected[i])));
  }
  CHECK(worst < 1e-4 * largest);
  for (const auto& of_rank : parameters) CHECK(of_rank == parameters[0]);  // to the bit
}

/// What a trainer has after some steps, as bits: losses, parameters and running statistics. Every step has `batch`
/// samples in all, of which this one takes part `part` of `parts`.
template <class Trainer>
std::vector<float> bits_after_steps(Trainer& trainer, int batch, int part, int parts) {
  using Input = typename Trainer::Chosen::Input;
  const network::Samples<Trainer> samples(batch);
  const int count = batch / parts, first = part * count;
  std::vector<float> result;
  for (int step = 0; step < 5; ++step) {
    const tenet::StepResult found = trainer.step(samples.inputs.data() + first * Input::size,
                                                 samples.targets.data() + first * Trainer::Target::size, count);
    result.push_back(found.loss);
    result.push_back(found.accuracy);
  }
  auto& weights = trainer.weights();
  using Table = std::remove_cvref_t<decltype(weights)>;
  result.insert(result.end(), weights.parameters(), weights.parameters() + Table::table.parameter_floats);
  result.insert(result.end(), weights.buffers(), weights.buffers() + Table::table.buffer_floats);
  return result;
}

/// Reproducible ranks give the same bits as one process, for any number of them.
template <class Ranks, class Net, class Input, class... Policies>
void check_bits(std::vector<int> numbers_of_ranks) {
  const tenet::Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};
  constexpr int batch = 24;
  tenet::Trainer<Net, tenet::CrossEntropy, tenet::Sgd, Input, tenet::Cpu<0, 1>, tenet::Reproducible> one{sgd, 3};
  const std::vector<float> expected = bits_after_steps(one, batch, 0, 1);
  for (const int count : numbers_of_ranks) {
    CAPTURE(count);
    const auto found = Ranks::collect(count, [&](int rank) {
      tenet::Trainer<Net, tenet::CrossEntropy, tenet::Sgd, Input, tenet::Cpu<0, 1>, typename StrategyOf<Ranks>::type,
                     tenet::Reproducible, Policies...>
          trainer{sgd, 3};
      return bits_after_steps(trainer, batch, rank, count);
    });
    for (const auto& of_rank : found) CHECK(of_rank == expected);
  }
}

}  // namespace ranks
