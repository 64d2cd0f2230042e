#include "tenet/parallel/distributed.hpp"

#include <tenet/tenet.hpp>

#include "../support/training_ranks.hpp"

using namespace tenet;

namespace {

template <class Ranks>
void check_all() {
  using networks::WholeRows;
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};
  ranks::check_training<Ranks, WholeRows, CrossEntropy, Sgd, Features<16>, Reference>({5}, sgd);
  ranks::check_training<Ranks, WholeRows, CrossEntropy, Sgd, Features<16>, Reference>({5, 5}, sgd);
  ranks::check_training<Ranks, WholeRows, MeanSquaredError, Sgd, Features<16>, Reference, Ring, BucketBytes<4096>>(
      {4, 1, 6}, sgd);
  ranks::check_training<Ranks, WholeRows, CrossEntropy, AdamW, Features<16>, Cpu<0, 1>, AllReduce, BucketBytes<1>>(
      {3, 2, 2, 1}, {.learning_rate = 0.01f});
}

}  // namespace

TEST_CASE("ranks with samples of their own train as one device with all of them", "[distributed]") {
  check_all<ranks::Threads>();
}
TEST_CASE("the same where ranks are processes", "[distributed]") { check_all<processes::Job>(); }

namespace {

/// Ranks that are threads and add up in the way that is wished: what their links are said to cost decides it.
struct WishfulTransport : ThreadTransport {
  inline static LinkCost wished{};
  LinkCost link() const { return wished; }
};
struct Wishful : ranks::Threads {
  struct World {
    static WishfulTransport connect() { return {ThreadWorld::connect()}; }
  };
};

/// 1, 2, 4 and 8 ranks, each way of adding up.
template <class... Policies>
void check_bits_of_all_ways() {
  constexpr LinkCost doubling{1, 0, 0}, halving{0, 1e-9, 1e-9}, sharing{0, 1e-9, 1e-9, true};
  for (const int n : {2, 4, 8}) {
    REQUIRE(AllReduceTimes(n, 1000, doubling).quickest() == AllReduceWay::doubling);
    REQUIRE(AllReduceTimes(n, 1000, halving).quickest() == AllReduceWay::halving);
    REQUIRE(AllReduceTimes(n, 1000, sharing).shares);
  }
  for (const LinkCost& way : {doubling, halving, sharing}) {
    CAPTURE(way.seconds, way.shares);
    WishfulTransport::wished = way;
    ranks::check_bits<Wishful, networks::Residual, Image<2, 6, 5>, Policies...>({1, 2, 4, 8});
  }
}

}  // namespace

TEST_CASE("Reproducible: ranks give the same bits as one process, in any buckets and added up in any way",
          "[distributed]") {
  check_bits_of_all_ways<>();
  check_bits_of_all_ways<BucketBytes<2000>>();
  check_bits_of_all_ways<BucketBytes<300>>();
  check_bits_of_all_ways<BucketBytes<64>>();
  check_bits_of_all_ways<BucketBytes<1>>();
}

TEST_CASE("Reproducible: so do processes, and ranks of a network with dropout", "[distributed]") {
  ranks::check_bits<ranks::Threads, networks::Transformer, Tokens<12>, BucketBytes<4096>>({2, 8});
  ranks::check_bits<processes::Job, networks::Residual, Image<2, 6, 5>, BucketBytes<300>>({1, 2, 4});
}

TEST_CASE("Reproducible: not on three ranks", "[distributed]") {
  using Rank = Trainer<networks::WholeRows, CrossEntropy, PlainSgd, Features<16>, Reference, Distributed<ThreadWorld>,
                       Reproducible>;
  const network::Samples<Rank> samples(4);
  const auto messages = ranks::run(3, [&](ThreadTransport& transport) {
    const ThreadWorld::Joined joined(transport);
    Rank trainer{{.learning_rate = 0.1f}, 0};
    trainer.step(samples.inputs.data(), samples.targets.data(), 4);
  });
  for (const auto& message : messages)
    CHECK(message == "Reproducible: number of ranks; expected 1, 2, 4 or 8, found 3");
}

TEST_CASE("ranks with micro-batches train as one device", "[distributed]") {
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};
  ranks::check_training<ranks::Threads, networks::WholeRows, CrossEntropy, Sgd, Features<16>, Reference,
                        MicroBatches<3>, BucketBytes<2048>>({5, 1, 6}, sgd);
  ranks::check_training<processes::Job, networks::WholeRows, CrossEntropy, Sgd, Features<16>, Reference, Ring,
                        MicroBatches<2>>({5, 3}, sgd);
}

TEST_CASE("SyncBatchNorm: ranks train as one device", "[distributed]") {
  using networks::Residual;
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};
  ranks::check_training<ranks::Threads, Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Reference, SyncBatchNorm>({5},
                                                                                                               sgd);
  ranks::check_training<ranks::Threads, Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Cpu<0, 2>, SyncBatchNorm>(
      {4, 1, 6}, sgd);
  ranks::check_training<processes::Job, Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Reference, Ring, BucketBytes<64>,
                        SyncBatchNorm>({3, 5}, sgd);
}

TEST_CASE("running statistics are those of rank 0, everywhere", "[distributed]") {
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

TEST_CASE("a rank that is gone is named, with what it did not send", "[distributed]") {
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
  CHECK(messages[0].find("results of step 3: waits for a message from rank 1; expected within 0.5 s") !=
        std::string::npos);
}
