#include "tenet/parallel/rank_replica_passes.hpp"

#include <tenet/tenet.hpp>

#include "../support/late_step.hpp"
#include "../support/rank_passes.hpp"
#include "../support/training_ranks.hpp"
#include "../support/variable.hpp"

using namespace tenet;
using networks::WholeRows;

namespace {

template <class Ranks>
void check_all() {
  using ranks::WithReplicas;
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};
  ranks::check_training<WithReplicas<Ranks, 1>, WholeRows, CrossEntropy, Sgd, Features<16>, Reference>({5, 4}, sgd);
  ranks::check_training<WithReplicas<Ranks, 2>, WholeRows, CrossEntropy, Sgd, Features<16>, Reference>({7}, sgd);
  // A rank with fewer samples than replicas.
  ranks::check_training<WithReplicas<Ranks, 2>, WholeRows, CrossEntropy, Sgd, Features<16>, Reference,
                        BucketBytes<2048>>({5, 1}, sgd);
  ranks::check_training<WithReplicas<Ranks, 3>, WholeRows, MeanSquaredError, Sgd, Features<16>, Reference, Ring,
                        BucketBytes<4096>, MicroBatches<2>>({4, 9, 6}, sgd);
  ranks::check_training<WithReplicas<Ranks, 2>, WholeRows, CrossEntropy, AdamW, Features<16>, Cpu<0, 1>,
                        BucketBytes<1>>({3, 2}, {.learning_rate = 0.01f});
}

}  // namespace

TEST_CASE("a rank of some replicas computes, prepares and waits by buckets", "[rank_replica_passes]") {
  using Group = RankReplicaPasses<rank_passes::Step, Reference, WholeBatch>::Devices;
  rank_passes::check<RankReplicaPasses<rank_passes::Step, Reference, WholeBatch>, Group>(1);
  rank_passes::check<RankReplicaPasses<rank_passes::Step, Reference, WholeBatch>, Group>(3);
  rank_passes::check<RankReplicaPasses<rank_passes::Step, Reference, MicroBatches<2>>, Group>(2);
}

TEST_CASE("ranks with replicas train as one device with the samples of all", "[rank_replica_passes]") {
  check_all<ranks::Threads>();
}
TEST_CASE("processes with replicas train as one device with the samples of all", "[rank_replica_passes]") {
  check_all<processes::Job>();
}

TEST_CASE("SyncBatchNorm: ranks with replicas train as one device", "[rank_replica_passes]") {
  using networks::Residual;
  using ranks::WithReplicas;
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};
  ranks::check_training<WithReplicas<ranks::Threads, 2>, Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Reference,
                        SyncBatchNorm>({5, 1}, sgd);
  ranks::check_training<WithReplicas<processes::Job, 3>, Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Cpu<0, 1>, Ring,
                        BucketBytes<300>, SyncBatchNorm>({4, 2, 3}, sgd);
}

TEST_CASE("Reproducible: ranks with replicas give the same bits as one process", "[rank_replica_passes]") {
  using Input = Image<2, 6, 5>;
  ranks::check_bits<ranks::WithReplicas<ranks::Threads, 2>, networks::Residual, Input, BucketBytes<300>>({1, 2, 4});
  ranks::check_bits<ranks::WithReplicas<ranks::Threads, 4>, networks::Residual, Input>({1, 2});
}

TEST_CASE("running statistics are those of the first replica of rank 0", "[rank_replica_passes]") {
  using Net = networks::Residual;
  using Input = Image<2, 6, 5>;
  using Replicated = Trainer<Net, CrossEntropy, PlainSgd, Input, Reference, DataParallel<2>>;
  using Rank = Trainer<Net, CrossEntropy, PlainSgd, Input, Reference, Distributed<ThreadWorld, DataParallel<2>>>;
  constexpr auto floats = static_cast<std::size_t>(Weights<Net>::table.buffer_floats);
  const network::Samples<Replicated> samples(10);
  Replicated one{{.learning_rate = 0.1f}, 0};
  one.step(samples.inputs.data(), samples.targets.data(), 6);
  const std::vector<float> expected(one.weights().buffers(), one.weights().buffers() + floats);
  const auto found = ranks::Threads::collect(2, [&](int rank) {
    Rank trainer{{.learning_rate = 0.1f}, 0};
    trainer.step(samples.inputs.data() + 6 * rank * Input::size, samples.targets.data() + 6 * rank, rank == 0 ? 6 : 4);
    // Inference and evaluation are each rank's own, on its replicas; gradients are the sums over all of them.
    if (trainer.predict(samples.inputs.data(), 3).size() != 9) fail("predict", "scores", "9", "others");
    std::vector<float> result(trainer.weights().buffers(), trainer.weights().buffers() + floats);
    result.push_back(trainer.gradients()[0]);
    return result;
  });
  CHECK(std::equal(expected.begin(), expected.end(), found[0].begin()));
  CHECK(found[0] == found[1]);
}

TEST_CASE("a rank that is gone is named by one with replicas", "[rank_replica_passes]") {
  using Rank =
      Trainer<WholeRows, CrossEntropy, PlainSgd, Features<16>, Reference, Distributed<ThreadWorld, DataParallel<2>>>;
  const network::Samples<Rank> samples(4);
  const auto messages = ranks::run(
      2,
      [&](ThreadTransport& transport) {
        const ThreadWorld::Joined joined(transport);
        Rank trainer{{.learning_rate = 0.1f}, 0};
        for (int step = 0; step < 3 - transport.rank(); ++step)
          trainer.step(samples.inputs.data(), samples.targets.data(), 4);
      },
      std::chrono::milliseconds(500));
  CAPTURE(messages[0]);
  CHECK(messages[0].find("results of step 3: waits for a message from rank 1") != std::string::npos);
}

namespace {

/// What two ranks throw in whose second step the replicas that are not the ranks' own threads do what `begin` says.
template <class Begin>
std::vector<std::string> messages_with_replicas_that(Begin begin, const char* seconds) {
  using Rank = Trainer<late_step::Net, CrossEntropy, PlainSgd, Features<16>, Reference,
                       Distributed<ThreadWorld, DataParallel<2>>, BucketBytes<256>>;
  const Variable limit("TENET_TIMEOUT", seconds);
  const network::Samples<Rank> samples(4);
  const auto messages = ranks::run(2, [&](ThreadTransport& transport) {
    const ThreadWorld::Joined joined(transport);
    Rank trainer{{.learning_rate = 0.1f}, 0};
    late_step::is_in_time = true;
    for (int step = 0; step < 2; ++step) {
      if (step == 1) begin();
      trainer.step(samples.inputs.data(), samples.targets.data(), 4);
    }
  });
  late_step::milliseconds = 0;
  late_step::fails = false;
  return messages;
}

}  // namespace

TEST_CASE("a replica that is late is named, with its rank, the bucket and the step", "[rank_replica_passes]") {
  const auto messages = messages_with_replicas_that([] { late_step::milliseconds = 700; }, "0.4");
  for (const std::string rank : {"0", "1"})
    CHECK(messages[rank == "1"] ==
          "rank " + rank + ", bucket 0 of step 2: waits for its replica 1; expected within 0.4 s, found nothing");
}

TEST_CASE("what a replica throws ends the others' waiting for its buckets, and is what a step throws",
          "[rank_replica_passes]") {
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& message : messages_with_replicas_that([] { late_step::fails = true; }, "60"))
    CHECK(message == "late: an operation; expected nothing, found that it fails");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
}
