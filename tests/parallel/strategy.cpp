#include "tenet/parallel/strategy.hpp"

#include <tenet/parallel/hogwild.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/parallel/sharded_optimizer.hpp>
#include <tenet/tenet.hpp>

#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/thread_world.hpp"

using namespace tenet;

// The strategy is found among the tags, and the programs are the same: they are compiled once for all strategies.
using Plain = Trainer<networks::WholeRows, CrossEntropy, Sgd, Features<16>>;
using Parallel = Trainer<networks::WholeRows, CrossEntropy, Sgd, DataParallel<2>, Features<16>>;
static_assert(std::is_same_v<Policies<Features<16>>::Strategy, Single>);
static_assert(std::is_same_v<Policies<DataParallel<3>, Features<16>>::Strategy, DataParallel<3>>);
static_assert(std::is_same_v<Plain::Training, Parallel::Training>);
// A batch that is cut needs the passes of a replica, and no other strategy.
static_assert(std::is_same_v<Policies<Features<16>, MicroBatches<4>>::Strategy, DataParallel<1>>);
static_assert(std::is_same_v<Policies<Single, Features<16>, Reproducible>::Strategy, DataParallel<1>>);
static_assert(std::is_same_v<Policies<DataParallel<2>, Features<16>, MicroBatches<4>>::Strategy, DataParallel<2>>);
static_assert(!std::is_same_v<Plain::ExecutionOf<Plain::Training>, Parallel::ExecutionOf<Plain::Training>>);
// But for that which spreads the steps themselves: it has programs of its own, of the same trace.
using InParts = Trainer<networks::WholeRows, CrossEntropy, Sgd, InterOpParallel<2>, Features<16>>;
static_assert(!std::is_same_v<Plain::Training, InParts::Training>);
static_assert(&Plain::Training::trace == &InParts::Training::trace);

TEST_CASE("the summary says on how many devices a step runs", "[strategy]") {
  CHECK(Plain().summary().find("\ndevice: cpu") != std::string::npos);
  CHECK(Parallel().summary().find("\ngradients: 0.02 MB a step, direct\n2 devices, each: cpu") != std::string::npos);
  const std::string in_parts = InParts().summary();
  CAPTURE(in_parts);
  CHECK(in_parts.find("\nsteps on 2 devices, with ") != std::string::npos);
  CHECK(in_parts.find("\n2 devices, each: cpu") != std::string::npos);
  CHECK(in_parts.find("gradients: ") == std::string::npos);
  CHECK(summary<networks::WholeRows, Features<16>, InterOpParallel<3>>().find("\nsteps on 3 devices, with ") !=
        std::string::npos);
  using ByRing =
      Trainer<networks::WholeRows, CrossEntropy, Sgd, DataParallel<2>, Ring, BucketBytes<1000>, Features<16>>;
  const std::string summary = ByRing().summary();
  CAPTURE(summary);
  CHECK(summary.find("\ngradients: 0.02 MB a step, ring in 4 buckets, the first after 13 of 21 steps") !=
        std::string::npos);
  using Served = Trainer<networks::WholeRows, CrossEntropy, Sgd, Distributed<ThreadWorld>,
                         ParameterServer<Sharded, BoundedStaleness<3>>, Features<16>>;
  ranks::run_well(1, [](ThreadTransport& transport) {
    const ThreadWorld::Joined joined(transport);
    const std::string found = Served().summary();
    if (found.find("a step, parameter server of bounded staleness (at most 3 steps ahead) in 1 bucket,") ==
        std::string::npos)
      throw Error(found);
  });
}

TEST_CASE("micro-batches train in a part of the memory", "[strategy]") {
  using Net = networks::WholeRows;
  Trainer<Net, CrossEntropy, Sgd, Features<16>, Reference> whole{{.learning_rate = 0.1f, .momentum = 0.9f}, 3};
  Trainer<Net, CrossEntropy, Sgd, Features<16>, Reference, MicroBatches<4>> cut{
      {.learning_rate = 0.1f, .momentum = 0.9f}, 3};
  const network::Samples<decltype(whole)> samples(16);
  for (int step = 0; step < 4; ++step) {
    const float expected = whole.step(samples.inputs.data(), samples.targets.data(), 16).loss;
    CHECK(cut.step(samples.inputs.data(), samples.targets.data(), 16).loss == Approx(expected).epsilon(1e-4));
  }
  constexpr long fixed = decltype(whole)::Training::fixed_floats;
  CHECK(cut.activation_floats() - fixed == (whole.activation_floats() - fixed) / 4);
  CHECK(cut.summary().find("\nbatch: in 4 micro-batches, one after the other\n") != std::string::npos);
  const auto expected = whole.predict(samples.inputs.data(), 10), found = cut.predict(samples.inputs.data(), 10);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(1e-3));
}

TEST_CASE("a model runs on several devices", "[strategy]") {
  using Net = networks::Residual;
  Model<Net, Image<2, 6, 5>, Cpu<0, 1>> one(4);
  Model<Net, Image<2, 6, 5>, Cpu<0, 1>, DataParallel<3>> many(4);
  const auto images = network::numbers(10 * 60);
  for (const int batch : {10, 2, 1, 7}) {
    const auto expected = one(images.data(), batch), found = many(images.data(), batch);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(1e-5));
  }
}

namespace {

/// Every strategy trains with these policies as one device does with the plain ones, up to `tolerance`.
template <class... Policies>
struct WithAll {
  template <class... Strategy>
  using With = Trainer<networks::WholeRows, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, Policies..., Strategy...>;

  static void check(double tolerance) {
    const network::Samples<With<>> samples(12);
    const auto train = [&](auto& trainer) {
      float loss = 0;
      for (int step = 0; step < 8; ++step) loss = trainer.step(samples.inputs.data(), samples.targets.data(), 12).loss;
      return loss;
    };
    const Sgd sgd{.learning_rate = 0.1f, .momentum = 0.9f};
    With<> one{sgd, 3};
    const float expected = train(one);
    CHECK(expected < 1.0f);
    const auto check_with = [&]<class T>(std::type_identity<T>) {
      T trainer{sgd, 3};
      CHECK(train(trainer) == Approx(expected).epsilon(tolerance));
    };
    check_with(std::type_identity<With<Single>>{});
    check_with(std::type_identity<With<DataParallel<1>>>{});
    check_with(std::type_identity<With<DataParallel<2>, Direct>>{});
    check_with(std::type_identity<With<DataParallel<2>, ParameterServer<OnRank<1>>>>{});
    check_with(std::type_identity<With<DataParallel<3>, ParameterServer<Sharded>>>{});
    // Hogwild cuts batches itself, and parts of a network take them whole.
    if constexpr (!detail::is_cut<typename tenet::Policies<Features<16>, Policies...>::Shards>) {
      check_with(std::type_identity<With<DataParallel<1>, Hogwild<12>>>{});
      check_with(std::type_identity<With<InterOpParallel<2>>>{});
    }
    check_with(std::type_identity<With<DataParallel<3>, AllReduce, BucketBytes<512>>>{});
    check_with(std::type_identity<With<DataParallel<4>, Ring, BucketBytes<4096>>>{});
    const auto check_rank = [&]<class T>(std::type_identity<T>) {
      ranks::run_well(1, [&](ThreadTransport& transport) {
        const ThreadWorld::Joined joined(transport);
        T trainer{sgd, 3};
        const float found = train(trainer);
        if (std::fabs(found - expected) > tolerance * expected)
          fail("Distributed", "another loss", std::to_string(expected), std::to_string(found));
      });
    };
    check_rank(std::type_identity<With<Distributed<ThreadWorld>, Ring>>{});
    check_rank(std::type_identity<With<Distributed<ThreadWorld, DataParallel<2>>, BucketBytes<512>>>{});
    check_rank(std::type_identity<With<Distributed<ThreadWorld>, LocalSgd<3>>>{});
    check_rank(std::type_identity<With<Distributed<ThreadWorld>, ShardedOptimizer, BucketBytes<512>>>{});
    check_rank(std::type_identity<With<Distributed<ThreadWorld>, ParameterServer<>>>{});
    check_rank(std::type_identity<With<Distributed<ThreadWorld>, ParameterServer<OnRank<0>, Asynchronous>>>{});
  }
};

}  // namespace

TEST_CASE("every strategy goes with every other policy", "[strategy]") {
  WithAll<>::check(1e-3);
  WithAll<OneSampleAlways>::check(1e-3);
  WithAll<DirectConvolution, MemoryBound<2'000>>::check(1e-3);
  WithAll<BFloat16>::check(3e-2);
  WithAll<MicroBatches<5>>::check(1e-3);
}
