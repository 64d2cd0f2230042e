#include "tenet/parallel/exchange_plan.hpp"

#include <catch2/catch.hpp>
#include <tenet/parallel/hierarchical.hpp>
#include <tenet/parallel/hogwild.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/parallel/sharded_optimizer.hpp>

#include "../support/training_ranks.hpp"

using namespace tenet;

namespace {

template <class Net, class In, class... Tags>
using PlanOf = ExchangePlan<typename Trainer<Net, CrossEntropy, Sgd, In, Reference, Tags...>::Training,
                            typename Trainer<Net, CrossEntropy, Sgd, In, Reference, Tags...>::Chosen>;
template <class... Tags>
using Ranks = PlanOf<networks::WideLinears, Features<16>, Distributed<ThreadWorld>, BucketBytes<4096>, Tags...>;
template <class... Tags>
using NormalizedRanks = PlanOf<networks::Residual, Image<2, 6, 5>, Distributed<ThreadWorld>, BucketBytes<256>, Tags...>;

/// b: a bucket, r: results, s: a sum over the batch, v: running statistics.
std::string text(const std::vector<ExchangedPart>& parts) {
  std::string result;
  for (const ExchangedPart& part : parts) result += "brsv"[static_cast<int>(part.kind)];
  return result;
}
template <class Plan>
std::string all() {
  return text(Plan::parts()) + "|" + text(Plan::last_parts());
}

}  // namespace

TEST_CASE("buckets leave when they are ready, results before those that are ready later", "[exchange_plan]") {
  const auto parts = Ranks<>::parts();
  const std::string buckets(static_cast<std::size_t>(Ranks<>::buckets.count), 'b');
  CHECK(buckets.size() >= 3);
  CHECK(all<Ranks<>>() == "r" + buckets + "|");
  CHECK(Ranks<>::results_leave);
  CHECK(Ranks<>::counts_with_results);
  CHECK(parts[0].floats == 3);  // loss, metric, samples
  for (std::size_t i = 1; i < parts.size(); ++i) CHECK(parts[i].ready >= parts[i - 1].ready);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const Bucket& bucket = Ranks<>::buckets.buckets[static_cast<std::size_t>(parts[i].bucket)];
    CHECK(parts[i].floats == bucket.floats);
    CHECK(parts[i].needed == bucket.needed);
  }
  // Of which each rank updates a part, or a shard at a time: at the end.
  CHECK(all<Ranks<ShardedOptimizer>>() == buckets + "|r");
  CHECK(all<Ranks<MicroBatches<2>>>() == buckets + "|r");
  CHECK(!Ranks<MicroBatches<2>>::updates_late);
  CHECK(Ranks<Reproducible>::counts_before);
}

TEST_CASE("ranks that do not meet in a step agree on nothing", "[exchange_plan]") {
  const std::string buckets(static_cast<std::size_t>(Ranks<>::buckets.count), 'b');
  CHECK(all<Ranks<ParameterServer<>>>() == buckets + "|r");
  CHECK(all<Ranks<ParameterServer<Sharded, Asynchronous>>>() == buckets + "|");
  CHECK(all<PlanOf<networks::WideLinears, Features<16>, Distributed<ThreadWorld>, LocalSgd<4>>>() == "|");
  using Machines = Hierarchical<AllReduce, LocalSgd<4>>;  // tell each other what all ranks do otherwise
  CHECK(all<Ranks<Machines>>() == "r" + buckets + "|");
  CHECK(all<Ranks<Machines, MicroBatches<2>>>() == buckets + "|r");
  CHECK(all<PlanOf<networks::WideLinears, Features<16>, Distributed<ThreadWorld>, Hogwild<8>>>() == "|");
  CHECK(all<PlanOf<networks::WideLinears, Features<16>>>() == "|");
  CHECK(all<PlanOf<networks::WideLinears, Features<16>, DataParallel<2>>>() == "|");
}

TEST_CASE("sums over the batch and running statistics are among them", "[exchange_plan]") {
  const std::string apart = all<NormalizedRanks<>>(), together = all<NormalizedRanks<SyncBatchNorm>>();
  CAPTURE(apart, together);
  CHECK(std::count(apart.begin(), apart.end(), 's') == 0);
  CHECK(std::count(apart.begin(), apart.end(), 'v') == 1);
  CHECK(std::count(apart.begin(), apart.end(), 'r') == 1);
  long sums = 0;
  using Program = typename Trainer<networks::Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Reference, SyncBatchNorm,
                                   Distributed<ThreadWorld>>::Training;
  for (int s = 0; s < Program::lowered.first_update; ++s) sums += is_sum_over_workers(Program::lowered.steps[s]);
  CHECK(std::count(together.begin(), together.end(), 's') == sums);
  CHECK(sums >= 4);
  CHECK(std::count(together.begin(), together.end(), 'v') == 1);
  CHECK(NormalizedRanks<SyncBatchNorm>::counts_before);
  // Each of them is waited for by the step that it is.
  for (const ExchangedPart& part : NormalizedRanks<SyncBatchNorm>::parts())
    if (part.kind == ExchangedPart::Kind::sum) CHECK(is_sum_over_workers(Program::lowered.steps[part.ready]));
  CHECK(all<NormalizedRanks<ParameterServer<>>>().ends_with("|rv"));
}
