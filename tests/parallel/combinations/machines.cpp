#include "../../support/machines.hpp"

#include <tenet/parallel/distributed.hpp>

#include "matrix.hpp"

using namespace tenet;
using combinations::List;

namespace {

/// Of what goes by machines the axes that it has to do with: two ranks are on one machine, four on two.
using OnMachines = combinations::With<Distributed<ranks::MachineWorld<2>>>;
using Synchronisations = List<AllReduce, ShardedOptimizer, Hierarchical<AllReduce, Ring>, Hierarchical<Ring, AllReduce>,
                              Hierarchical<AllReduce, LocalSgd<3>>>;
using combinations::BatchNorms, combinations::Buckets, combinations::Shards;
constexpr combinations::Count count = OnMachines::count(Synchronisations{}, Shards{}, Buckets{}, BatchNorms{});
static_assert(count == combinations::Count{32, 28});

}  // namespace

TEST_CASE("ranks of several machines train as one device does", "[combinations]") {
  std::vector<combinations::Combination> all;
  OnMachines::add_to(all, Synchronisations{}, Shards{}, Buckets{}, BatchNorms{});
  CHECK(combinations::check(all) == count.legal);
}
