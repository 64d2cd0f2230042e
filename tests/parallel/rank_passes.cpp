#include "tenet/parallel/rank_passes.hpp"

#include <tenet/parallel/micro_batches.hpp>

#include "../support/rank_passes.hpp"

using namespace tenet;

TEST_CASE("a rank of one device computes, prepares and waits by buckets", "[rank_passes]") {
  rank_passes::check<RankPasses<rank_passes::Step, WholeBatch>, ReferenceKernels::Executor>();
  rank_passes::check<RankPasses<rank_passes::Step, MicroBatches<3>>, ReferenceKernels::Executor>();
}
