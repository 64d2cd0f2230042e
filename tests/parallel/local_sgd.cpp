#include "tenet/parallel/local_sgd.hpp"

#include "../support/training_ranks.hpp"

using namespace tenet;

namespace {

using Net = networks::Residual;  // with running statistics
using Input = Image<2, 6, 5>;
using One = Trainer<Net, CrossEntropy, Sgd, Input, Reference>;
template <int steps, class World, class... Policies>
using Rank = Trainer<Net, CrossEntropy, Sgd, Input, Reference, Distributed<World>, LocalSgd<steps>, Policies...>;
constexpr Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};
constexpr long parameters = Weights<Net>::table.parameter_floats, buffers = Weights<Net>::table.buffer_floats;

/// Parameters, then running statistics.
std::vector<float> state_of(auto& trainer) {
  std::vector<float> result(trainer.weights().parameters(), trainer.weights().parameters() + parameters);
  result.insert(result.end(), trainer.weights().buffers(), trainer.weights().buffers() + buffers);
  return result;
}

/// What the ranks have after some steps, each with 4 samples of its own, and after `synchronize` where asked.
template <class Ranks, int steps_alone, class... Policies>
std::vector<std::vector<float>> train(int ranks, int steps, bool synchronize = false) {
  const network::Samples<One> samples(4 * ranks);
  return Ranks::collect(ranks, [&](int rank) {
    Rank<steps_alone, typename Ranks::World, Policies...> trainer{sgd, static_cast<std::uint64_t>(3 + rank)};
    for (int step = 0; step < steps; ++step)
      trainer.step(samples.inputs.data() + 4 * rank * Input::size, samples.targets.data() + 4 * rank, 4);
    if (synchronize) trainer.synchronize();
    return state_of(trainer);
  });
}

/// What a training with the samples of one rank alone has.
std::vector<float> alone(int rank, int steps) {
  const network::Samples<One> samples(4 * (rank + 1));
  One trainer{sgd, 3};
  for (int step = 0; step < steps; ++step)
    trainer.step(samples.inputs.data() + 4 * rank * Input::size, samples.targets.data() + 4 * rank, 4);
  return state_of(trainer);
}

void check_close(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]).epsilon(1e-4).margin(1e-5));
}

/// The mean of the ranks' parameters, and the first one's running statistics.
std::vector<float> mean_of(const std::vector<std::vector<float>>& states) {
  std::vector<float> result = states[0];
  for (std::size_t i = 0; i < static_cast<std::size_t>(parameters); ++i) {
    double sum = 0;
    for (const auto& state : states) sum += state[i];
    result[i] = static_cast<float>(sum / static_cast<double>(states.size()));
  }
  return result;
}

template <class Ranks>
void check_average() {
  for (const int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    std::vector<std::vector<float>> apart;
    for (int rank = 0; rank < ranks; ++rank) apart.push_back(alone(rank, 3));
    const auto found = train<Ranks, 3>(ranks, 3);
    for (const auto& of_rank : found) CHECK(of_rank == found[0]);  // to the bit
    check_close(found[0], mean_of(apart));
  }
}

}  // namespace

TEST_CASE("ranks train alone, then parameters become their mean", "[local_sgd]") { check_average<ranks::Threads>(); }
TEST_CASE("processes average their parameters", "[local_sgd]") { check_average<processes::Job>(); }

TEST_CASE("between two meetings ranks are as they would be alone", "[local_sgd]") {
  const auto found = train<ranks::Threads, 4>(2, 3);
  for (int rank = 0; rank < 2; ++rank) CHECK(found[static_cast<std::size_t>(rank)] == alone(rank, 3));
  CHECK(found[0] != found[1]);
  const auto met = train<ranks::Threads, 4>(2, 3, true);
  CHECK(met[0] == met[1]);
  check_close(met[0], mean_of(found));
}

TEST_CASE("ranks whose replicas train together average their parameters", "[local_sgd]") {
  // Without batch norm, whose statistics are those of a replica's samples.
  using Plain = networks::WholeRows;
  constexpr auto floats = static_cast<std::size_t>(Weights<Plain>::table.parameter_floats);
  const network::Samples<Trainer<Plain, CrossEntropy, Sgd, Features<16>>> samples(10);
  const auto train = [&]<class World, class Inside>(std::type_identity<Distributed<World, Inside>>, int rank) {
    Trainer<Plain, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, Distributed<World, Inside>, LocalSgd<2>> trainer{
        sgd, static_cast<std::uint64_t>(3 + rank)};
    std::vector<float> result;
    for (int step = 0; step < 5; ++step) {
      trainer.step(samples.inputs.data() + 5 * rank * 16, samples.targets.data() + 5 * rank, 5);
      if (step == 2) result.push_back(trainer.gradients()[0]);
    }
    result.insert(result.end(), trainer.weights().parameters(), trainer.weights().parameters() + floats);
    trainer.synchronize();
    result.insert(result.end(), trainer.weights().parameters(), trainer.weights().parameters() + floats);
    return result;
  };
  const auto check = [&]<class Ranks>(std::type_identity<Ranks>) {
    using World = typename Ranks::World;
    const auto found = Ranks::collect(
        2, [&](int rank) { return train(std::type_identity<Distributed<World, DataParallel<2>>>{}, rank); });
    const auto expected =
        Ranks::collect(2, [&](int rank) { return train(std::type_identity<Distributed<World>>{}, rank); });
    for (std::size_t rank = 0; rank < 2; ++rank) check_close(found[rank], expected[rank]);
    CHECK(std::equal(found[0].end() - floats, found[0].end(), found[1].end() - floats));  // to the bit
    CHECK(!std::equal(found[0].begin() + 1, found[0].begin() + 1 + floats, found[1].begin() + 1));
  };
  check(std::type_identity<ranks::Threads>{});
  check(std::type_identity<processes::Job>{});
}

TEST_CASE("local SGD of single steps is the training with the mean gradient", "[local_sgd]") {
  // Losses are each rank's own: only parameters can be compared.
  using Whole = Trainer<networks::WholeRows, MeanSquaredError, Sgd, Features<16>, Reference>;
  const network::Samples<Whole> samples(12);
  Whole whole{sgd, 0};
  for (int step = 0; step < 4; ++step) whole.step(samples.inputs.data(), samples.targets.data(), 12);
  const auto found = ranks::Threads::collect(3, [&](int rank) {
    Trainer<networks::WholeRows, MeanSquaredError, Sgd, Features<16>, Reference, Distributed<ThreadWorld>, LocalSgd<1>,
            MicroBatches<2>>
        trainer{sgd, static_cast<std::uint64_t>(rank)};
    for (int step = 0; step < 4; ++step)
      trainer.step(samples.inputs.data() + 64 * rank, samples.targets.data() + 4 * rank * Whole::Target::size, 4);
    return std::vector<float>(trainer.weights().parameters(),
                              trainer.weights().parameters() + Whole::Training::slots.parameter_floats);
  });
  for (const auto& of_rank : found)
    check_close(of_rank, {whole.weights().parameters(), whole.weights().parameters() + of_rank.size()});
}

TEST_CASE("a rank that does not come to the average is named", "[local_sgd]") {
  const network::Samples<One> samples(4);
  const auto messages = ranks::run(
      2,
      [&](ThreadTransport& transport) {
        const ThreadWorld::Joined joined(transport);
        Rank<2, ThreadWorld> trainer{sgd, 0};
        for (int step = 0; step < 4 - transport.rank(); ++step)
          trainer.step(samples.inputs.data(), samples.targets.data(), 4);
      },
      std::chrono::milliseconds(500));
  CAPTURE(messages[0]);
  CHECK(messages[0].find("parameters of step 4: waits for a message from rank 1") != std::string::npos);
}
