#include "tenet/parallel/modelled_step.hpp"

#include <catch2/catch.hpp>
#include <tenet/comm/thread_transport.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/hierarchical.hpp>
#include <tenet/parallel/hogwild.hpp>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/parallel/sharded_optimizer.hpp>
#include <tenet/tenet.hpp>

#include "../support/far_device.hpp"
#include "../support/networks.hpp"

using namespace tenet;

namespace {

struct World {
  static ThreadTransport connect();
};
template <class... Tags>
using Modelled = detail::ModelledStep<
    Trainer<networks::Towers, CrossEntropy, Sgd, Features<16>, Reference, OneSampleNever, Tags...>>;

/// A user's: with a training step of its own, without traffic, with traffic of which nobody knows how long it takes.
struct WithStep : AllReduce {
  template <class Program, class Passes, long bucket_bytes, class T>
  using StepOfRank = DistributedExecution<Program, Passes, AllReduce, bucket_bytes, T>;
};
struct WithoutTraffic {
  static constexpr bool sends_buckets = true;
  [[maybe_unused]] static constexpr const char* name = "unknown";
};
struct WithoutFormula : AllReduce {
  static constexpr Moving moves{"sends", "1", detail::all_reduce_moves.moved};
  static constexpr Traffic traffic{.gradients = &moves};
};
struct WithFormula : AllReduce {
  static constexpr Moving moves{"sends", "1", detail::all_reduce_moves.moved,
                                [](int workers, long, const LinkCost&) { return 1.0 * workers; }};
  static constexpr Traffic traffic{.gradients = &moves};
};

/// With servers of its own, which are no ranks'.
struct WithServers : AllReduce {
  static constexpr Traffic traffic{.gradients = &detail::all_reduce_moves,
                                   .served = [](int, long floats) { return 1.0 * floats; }};
};

template <class... Tags>
using Far = detail::ModelledStep<Trainer<networks::Towers, CrossEntropy, Sgd, Features<16>, far::Device, Tags...>>;

struct Bag {
  Embedding<100, 3, Sparse> scores;
  constexpr auto forward(auto tokens) const { return mean<1>(scores(tokens)); }
};

template <class Step>
constexpr bool is_modelled = Step::knows_strategy && Step::knows_step && Step::knows_traffic;

static_assert(is_modelled<Modelled<>>);
static_assert(is_modelled<Modelled<MicroBatches<2>>>);
static_assert(is_modelled<Modelled<DataParallel<2>>>);
static_assert(is_modelled<Modelled<InterOpParallel<2>>> && Modelled<InterOpParallel<2>>::shares_program);
static_assert(!Modelled<>::shares_program && !Modelled<>::has_sparse_tables);
static_assert(is_modelled<Modelled<Distributed<World>>> && Modelled<Distributed<World>>::formula() == nullptr);
static_assert(Modelled<Distributed<World>, Ring>::formula() == nullptr);
static_assert(is_modelled<Modelled<Distributed<World>, LocalSgd<2>>>);
static_assert(is_modelled<Modelled<Distributed<World>, ShardedOptimizer>>);
static_assert(is_modelled<Modelled<Distributed<World>, ParameterServer<Sharded, Asynchronous>>>);

static_assert(is_modelled<Modelled<Distributed<World>, Hogwild<8>>>);
static_assert(is_modelled<Modelled<Distributed<World>, Hierarchical<AllReduce, Ring>>>);
static_assert(Modelled<Distributed<World>, Hierarchical<AllReduce, Ring>>::formula() == nullptr);
static_assert(is_modelled<Modelled<Distributed<World>, Hierarchical<Ring, LocalSgd<4>>>>);
static_assert(Modelled<Distributed<World>, Hierarchical<Ring, LocalSgd<4>>>::formula() == nullptr);

static_assert(!Modelled<Distributed<World>, WithServers>::knows_traffic);
static_assert(Far<Distributed<World>, ParameterServer<OnCpu>>::serves_other_memory);
static_assert(!Far<Distributed<World>>::serves_other_memory && !Far<>::serves_other_memory);
static_assert(detail::ModelledStep<
              Trainer<Bag, CrossEntropy, PlainSgd, Tokens<10>, Reference, OneSampleNever>>::has_sparse_tables);
static_assert(!Modelled<Distributed<World>, WithStep>::knows_step);
static_assert(!Modelled<Distributed<World>, WithoutTraffic>::knows_traffic);
static_assert(!Modelled<Distributed<World>, WithoutFormula>::knows_traffic);
static_assert(is_modelled<Modelled<Distributed<World>, WithFormula>>);

}  // namespace

TEST_CASE("what has no known messages has the formula of its traffic", "[step_time]") {
  constexpr auto formula = Modelled<Distributed<World>, WithFormula>::formula();
  REQUIRE(formula != nullptr);
  CHECK(formula(5, 100, {}) == 5);
}
