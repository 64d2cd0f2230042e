#include "tenet/parallel/resident_servers.hpp"

#include "../support/far_device.hpp"
#include "../support/late_servers.hpp"

using namespace tenet;
using late::LateTransport, late::LateWorld;
using ranks::check_close;

namespace {

/// With statistics and random numbers, which are a rank's own.
struct Net : Sequential<Conv2d<1, 4, 3>, BatchNorm2d<4>, ReLU, Dropout<25>, Flatten, Linear<16, 3>> {};
using Shape = Image<1, 4, 4>;
using Numbers = std::vector<std::vector<float>>;

/// Of ranks that take their steps in turns, each behind all that the one before it has done to the parameters: losses,
/// and parameters and statistics behind each step; at the end what all have in common.
template <class Device, class Optimizer, class... Policies>
Numbers numbers_in_turns(int ranks, Optimizer optimizer) {
  using Rank = Trainer<Net, CrossEntropy, Optimizer, Shape, Device, Distributed<ThreadWorld>, Policies...>;
  const network::Samples<Rank> samples(4 * ranks);
  std::atomic<int> turn{0};
  return ranks::Threads::collect(ranks, [&](int rank) {
    Rank trainer{optimizer, static_cast<std::uint64_t>(rank) + 3};
    std::vector<float> numbers;
    const auto look = [&] {
      auto& weights = trainer.weights();
      numbers.insert(numbers.end(), weights.parameters(), weights.parameters() + weights.table.parameter_floats);
      numbers.insert(numbers.end(), weights.buffers(), weights.buffers() + weights.table.buffer_floats);
    };
    trainer.synchronize();  // all have begun
    for (int step = 0; step < 4; ++step) {
      while (turn % ranks != rank) std::this_thread::yield();
      const int batch = rank == 1 ? 3 : 4;
      const StepResult result =
          trainer.step(samples.inputs.data() + rank * 64, samples.targets.data() + rank * 4, batch);
      numbers.insert(numbers.end(), {result.loss, result.accuracy});
      const float* const gradients = trainer.gradients();
      numbers.insert(numbers.end(), gradients, gradients + Weights<Net>::table.parameter_floats);
      look();
      ++turn;
    }
    trainer.synchronize();
    look();
    const auto scores = trainer.predict(samples.inputs.data(), 2);
    numbers.insert(numbers.end(), scores.begin(), scores.end());
    return numbers;
  });
}

template <class Synchronisation, class... Policies>
void check(int ranks, auto optimizer) {
  CAPTURE(ranks);
  using Optimizer = decltype(optimizer);
  const auto expected = numbers_in_turns<Reference, Optimizer, Synchronisation, Policies...>(ranks, optimizer),
             found = numbers_in_turns<far::Device, Optimizer, Synchronisation, Policies...>(ranks, optimizer);
  constexpr auto last = Weights<Net>::table.parameter_floats;
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    check_close(found[rank], expected[rank]);
    if (rank == 0) continue;
    CHECK(found[rank] != found[0]);
    const auto common = [&](const std::vector<float>& numbers) {  // statistics and scores are behind it
      const auto behind = numbers.end() - Weights<Net>::table.buffer_floats - 2 * 3;
      return std::vector<float>(behind - last, behind);
    };
    CHECK(common(found[rank]) == common(found[0]));  // to the bit
  }
}

}  // namespace

TEST_CASE("devices with memories of their own have the servers on the host that ranks there have",
          "[parallel][resident_servers]") {
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f};
  check<ParameterServer<Sharded, Asynchronous>, BucketBytes<64>>(1, sgd);
  check<ParameterServer<Sharded, Asynchronous>, BucketBytes<64>, MicroBatches<2>>(3, sgd);
  check<ParameterServer<OnRank<1>, BoundedStaleness<2>>>(2, AdamW{.learning_rate = 0.01f});
}

TEST_CASE("whoever reads parameters that come late to such a device has the new ones", "[parallel][resident_servers]") {
  LateTransport::is_stuck = false;
  LateTransport::milliseconds = 1;
  using Server = ParameterServer<Sharded, Asynchronous>;
  using Small = BucketBytes<1>;
  const auto found = late::train_and_look<late::RankIn<LateWorld, far::Device, Server, Small>>(1),
             expected = late::train_and_look<late::RankIn<ThreadWorld, Reference, Server>>(1);
  check_close(found[0], expected[0]);
  // In rounds, where whoever has looked at its parameters gives them to the servers anew.
  const auto of_rounds = late::train_and_look<late::RankIn<LateWorld, far::Device, ParameterServer<OnCpu>, Small>>(2),
             rounds = late::train_and_look<late::RankIn<ThreadWorld, Reference, ParameterServer<OnCpu>>>(2);
  for (std::size_t rank = 0; rank < 2; ++rank) check_close(of_rounds[rank], rounds[rank]);
}

TEST_CASE("a step on such a device ends before its parameters have come", "[parallel][resident_servers]") {
  CHECK(late::steps_that_end_early<far::Device, Asynchronous>() > 0);
  CHECK(late::steps_that_end_early<far::Device, BoundedStaleness<1>>() > 0);
}

TEST_CASE("parameters that do not come to such a device are missed by whoever needs them",
          "[parallel][resident_servers]") {
  late::check_missing<far::Device>();
}

TEST_CASE("such a device is not further ahead behind a step than the bound allows", "[parallel][resident_servers]") {
  CHECK(late::most_ahead<far::Device, 1>() == 1);
}
