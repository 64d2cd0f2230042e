#include "tenet/parallel/parameter_server.hpp"

#include "../support/late_servers.hpp"

using namespace tenet;
using networks::WholeRows;

namespace {

template <class Ranks>
void check_all() {
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};
  ranks::check_training<Ranks, WholeRows, CrossEntropy, Sgd, Features<16>, Reference, ParameterServer<>>({5}, sgd);
  ranks::check_training<Ranks, WholeRows, MeanSquaredError, Sgd, Features<16>, Reference, ParameterServer<OnRank<1>>,
                        BucketBytes<4096>>({4, 1, 6}, sgd);
  ranks::check_training<Ranks, WholeRows, CrossEntropy, AdamW, Features<16>, Cpu<0, 1>, ParameterServer<Sharded>,
                        BucketBytes<1>>({3, 2, 2, 1}, {.learning_rate = 0.01f});
  ranks::check_training<Ranks, WholeRows, CrossEntropy, Sgd, Features<16>, Reference, ParameterServer<>,
                        MicroBatches<3>, BucketBytes<4096>>({5, 2}, sgd);
  ranks::check_training<ranks::WithReplicas<Ranks, 2>, WholeRows, CrossEntropy, AdamW, Features<16>, Cpu<0, 1>,
                        ParameterServer<>, BucketBytes<1>>({3, 5, 1}, {.learning_rate = 0.01f});
}

}  // namespace

TEST_CASE("bulk-synchronous servers train as one device with all samples", "[parameter_server]") {
  check_all<ranks::Threads>();
}
TEST_CASE("servers between processes do the same", "[parameter_server]") { check_all<processes::Job>(); }

namespace {

/// Trains ranks with the same samples, and gives each one's losses and parameters at the end.
template <class Consistency>
struct Asynchronously {
  using Rank = Trainer<WholeRows, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, Distributed<ThreadWorld>,
                       ParameterServer<Sharded, Consistency>, BucketBytes<4096>>;
  static constexpr auto floats = static_cast<std::size_t>(Weights<WholeRows>::table.parameter_floats);
  std::vector<float> first, last;
  std::vector<std::vector<float>> parameters;

  Asynchronously(int ranks, int steps) : first(3), last(3), parameters(static_cast<std::size_t>(ranks)) {
    const network::Samples<Rank> samples(24);
    ranks::run_well(ranks, [&](ThreadTransport& transport) {
      const ThreadWorld::Joined joined(transport);
      const auto rank = static_cast<std::size_t>(transport.rank());
      Rank trainer{{.learning_rate = 0.05f, .momentum = 0.5f}, 0};
      for (int step = 0; step < steps; ++step) {
        const float loss = trainer.step(samples.inputs.data(), samples.targets.data(), 24).loss;
        if (step == 0) first[rank] = loss;
        last[rank] = loss;
      }
      trainer.synchronize();
      parameters[rank].assign(trainer.weights().parameters(), trainer.weights().parameters() + floats);
    });
  }
};

}  // namespace

TEST_CASE("asynchronous servers train, and synchronize leaves the same parameters on all ranks", "[parameter_server]") {
  const auto check = [](const auto& found) {
    for (std::size_t rank = 0; rank < found.parameters.size(); ++rank) {
      CHECK(found.last[rank] < 0.5f * found.first[rank]);
      CHECK(found.parameters[rank] == found.parameters[0]);
    }
  };
  check(Asynchronously<Asynchronous>(2, 120));
  check(Asynchronously<BoundedStaleness<2>>(3, 120));
  // Two ranks that take no turns make twice the updates of one.
  CHECK(Asynchronously<Asynchronous>(2, 40).last[0] < Asynchronously<Asynchronous>(1, 40).last[0]);
}

namespace {

using late::LateTransport, late::LateWorld;
template <class World, class... Policies>
using RankIn = late::RankIn<World, Cpu<0, 1>, Policies...>;

}  // namespace

TEST_CASE("whoever reads parameters that come late has the new ones", "[parameter_server]") {
  LateTransport::is_stuck = false;
  const auto check = [](int ranks, auto late, auto usual) {
    CAPTURE(ranks);
    LateTransport::milliseconds = 1;
    CHECK(late::train_and_look<typename decltype(late)::type>(ranks) ==
          late::train_and_look<typename decltype(usual)::type>(ranks));
  };
  using Small = BucketBytes<1>;
  using Cut = MicroBatches<2>;  // the first piece has no step that waits
  constexpr std::type_identity<RankIn<ThreadWorld, ParameterServer<>, Small>> usual;
  check(1, std::type_identity<RankIn<LateWorld, ParameterServer<>, Small>>{}, usual);
  check(2, std::type_identity<RankIn<LateWorld, ParameterServer<OnRank<0>>, Small>>{}, usual);
  check(2, std::type_identity<RankIn<LateWorld, ParameterServer<>, Small, Cut>>{},
        std::type_identity<RankIn<ThreadWorld, ParameterServer<>, Small, Cut>>{});
  // All replicas of a rank wait for them.
  using InLateRank = Distributed<LateWorld, DataParallel<2>>;
  check(2,
        std::type_identity<
            Trainer<late::Net, CrossEntropy, Sgd, late::Input, Cpu<0, 1>, InLateRank, ParameterServer<>, Small>>{},
        std::type_identity<Trainer<late::Net, CrossEntropy, Sgd, late::Input, Cpu<0, 1>,
                                   Distributed<ThreadWorld, DataParallel<2>>, ParameterServer<>, Small>>{});
  // By itself a rank has all of its own gradients.
  check(1, std::type_identity<RankIn<LateWorld, ParameterServer<Sharded, Asynchronous>, Small>>{}, usual);
  check(1, std::type_identity<RankIn<LateWorld, ParameterServer<Sharded, BoundedStaleness<1>>, Small>>{}, usual);
}

TEST_CASE("a step ends before all parameters have come", "[parameter_server]") {
  CHECK(late::steps_that_end_early<Cpu<0, 1>, BulkSynchronous>() > 0);
  CHECK(late::steps_that_end_early<Cpu<0, 1>, Asynchronous>() > 0);
  CHECK(late::steps_that_end_early<Cpu<0, 1>, BoundedStaleness<1>>() > 0);
}

TEST_CASE("parameters that do not come any more are missed by whoever needs them", "[parameter_server]") {
  late::check_missing<Cpu<0, 1>>();
}

TEST_CASE("a step that has ended is not further ahead than the bound allows", "[parameter_server]") {
  CHECK(late::most_ahead<Cpu<0, 1>, 1>() == 1);
}
