#include "tenet/parallel/single.hpp"

#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/hogwild.hpp>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/parallel/sharded_optimizer.hpp>
#include <tenet/tenet.hpp>
#include <tenet/train/timeline.hpp>

#include "../support/training_ranks.hpp"

using namespace tenet;

// The strategy is found among the tags, and the programs are the same: they are compiled once for all strategies.
using Plain = Trainer<networks::WholeRows, CrossEntropy, Sgd, Features<16>>;
using Parallel = Trainer<networks::WholeRows, CrossEntropy, Sgd, DataParallel<2>, Features<16>>;
static_assert(std::is_same_v<Policies<Features<16>>::Strategy, Single>);
static_assert(std::is_same_v<Policies<DataParallel<3>, Features<16>>::Strategy, DataParallel<3>>);
static_assert(std::is_same_v<Plain::Training, Parallel::Training>);
static_assert(!std::is_same_v<Plain::ExecutionOf<Plain::Training>, Parallel::ExecutionOf<Plain::Training>>);
// But for that which spreads the steps themselves: it has programs of its own, of the same trace.
using InParts = Trainer<networks::WholeRows, CrossEntropy, Sgd, InterOpParallel<2>, Features<16>>;
static_assert(!std::is_same_v<Plain::Training, InParts::Training>);
static_assert(&Plain::Training::trace == &InParts::Training::trace);

TEST_CASE("the summary says on how many devices a step runs", "[single]") {
  CHECK(Plain().summary().find("\ndevice: cpu") != std::string::npos);
  CHECK(Parallel().summary().find("\nsynchronisation: direct (synchronous); nothing is sent\n2 devices, each: cpu") !=
        std::string::npos);
  const std::string in_parts = InParts().summary();
  CAPTURE(in_parts);
  CHECK(in_parts.find("\nsteps on 2 devices, with ") != std::string::npos);
  CHECK(in_parts.find("\n2 devices, each: cpu") != std::string::npos);
  CHECK(in_parts.find("synchronisation: ") == std::string::npos);
  CHECK(summary<networks::WholeRows, Features<16>, InterOpParallel<3>>().find("\nsteps on 3 devices, with ") !=
        std::string::npos);
  using ByRing =
      Trainer<networks::WholeRows, CrossEntropy, Sgd, DataParallel<2>, Ring, BucketBytes<1000>, Features<16>>;
  const std::string summary = ByRing().summary();
  CAPTURE(summary);
  CHECK(summary.find("\nsynchronisation: ring (synchronous); each of 2 devices sends 19,840 bytes of gradients a "
                     "step, in 4 buckets, the first after 13 of 21 steps\n") != std::string::npos);
  using Served = Trainer<networks::WholeRows, CrossEntropy, Sgd, Distributed<ThreadWorld>,
                         ParameterServer<Sharded, BoundedStaleness<3>>, Features<16>>;
  ranks::run_well(1, [](ThreadTransport& transport) {
    const ThreadWorld::Joined joined(transport);
    const std::string found = Served().summary();
    if (found.find("\nsynchronisation: parameter server of bounded staleness (at most 3 steps ahead); each of n ranks "
                   "pushes ") == std::string::npos)
      throw Error(found);
  });
}

TEST_CASE("a model runs on several devices", "[single]") {
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

/// Every strategy trains with these policies of what a step computes as one device does, up to `tolerance`. With each
/// other the policies that spread a training are in tests/parallel/combinations.
template <class... Policies>
struct WithAll {
  template <class... Strategy>
  using With = Trainer<networks::WholeRows, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, Policies..., Strategy...>;

  static void check(double tolerance) {
    const network::Samples<With<>> samples(12);
    const auto train = [&](auto& trainer, int part = 0, int parts = 1) {
      const int batch = 12 / parts, first = batch * part;
      float loss = 0;
      for (int step = 0; step < 8; ++step)
        loss = trainer.step(samples.inputs.data() + 16 * first, samples.targets.data() + first, batch).loss;
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
    check_with(std::type_identity<With<DataParallel<2>>>{});
    check_with(std::type_identity<With<DataParallel<3>, ParameterServer<Sharded>>>{});
    check_with(std::type_identity<With<DataParallel<1>, Hogwild<12>>>{});
    check_with(std::type_identity<With<InterOpParallel<2>>>{});
    check_with(std::type_identity<With<DataParallel<3>, AllReduce, BucketBytes<512>>>{});
    check_with(std::type_identity<With<DataParallel<4>, Ring, BucketBytes<4096>>>{});
    const auto check_ranks = [&]<class T>(std::type_identity<T>, int ranks) {
      const auto found = ranks::Threads::collect(ranks, [&](int rank) {
        T trainer{sgd, 3};
        return std::vector{train(trainer, rank, ranks)};
      });
      for (const auto& of_rank : found) CHECK(of_rank.at(0) == Approx(expected).epsilon(tolerance));
    };
    check_ranks(std::type_identity<With<Distributed<ThreadWorld>, Ring>>{}, 2);
    check_ranks(std::type_identity<With<Distributed<ThreadWorld, DataParallel<2>>, BucketBytes<512>>>{}, 2);
    check_ranks(std::type_identity<With<Distributed<ThreadWorld>, ShardedOptimizer, BucketBytes<512>>>{}, 2);
    check_ranks(std::type_identity<With<Distributed<ThreadWorld>, ParameterServer<>>>{}, 2);
    // Of several ranks each would have a loss of its own.
    check_ranks(std::type_identity<With<Distributed<ThreadWorld>, LocalSgd<3>>>{}, 1);
    check_ranks(std::type_identity<With<Distributed<ThreadWorld>, ParameterServer<OnRank<0>, Asynchronous>>>{}, 1);
  }
};

}  // namespace

TEST_CASE("every strategy goes with every policy of what a step computes", "[single]") {
  WithAll<OneSampleAlways, DirectConvolution, MemoryBound<2'000>>::check(1e-3);
  WithAll<BFloat16>::check(3e-2);
}

namespace {

/// Three buckets; of two of them half is more than fits into the slots of a transport.
struct Broad : Sequential<Linear<16, 256>, ReLU, Linear<256, 256>, Tanh, Linear<256, 256>, ReLU, Linear<256, 3>> {};
using BroadBuckets = BucketBytes<1 << 18>;

/// Counts what is sent in long messages, and of gradients from elsewhere, and is slow to read those of others.
class WatchedTransport : public SharedMemoryTransport {
 public:
  inline static long lent = 0, copied = 0;  // floats

  explicit WatchedTransport(SharedMemoryTransport transport) : SharedMemoryTransport(std::move(transport)) {}

  /// Whether that is in memory that all ranks can read.
  bool is_common(const float* data) const {
    const long place = place_of(data);
    return place >= 0 && place < 1L << 36;
  }
  void send(int to, const float* data, long floats, MessageLabel label) {
    const std::string_view what = label.what;
    if (floats > 1 << 15 && is_common(data)) lent += floats;
    if (floats > 1 << 15 && !is_common(data) && (what == "bucket" || what == "gradients")) copied += floats;
    SharedMemoryTransport::send(to, data, floats, label);
  }
  template <class Use>
  bool share(float* data, long floats, MessageLabel label, float weight, Use&& use) {
    (is_common(data) ? lent : copied) += floats;
    return SharedMemoryTransport::share(data, floats, label, weight, [&](const SharedNumbers* shared) {
      wait_a_moment(floats);
      use(shared);
    });
  }
  template <class Use>
  void receive(int from, long floats, MessageLabel label, Use&& use) {
    SharedMemoryTransport::receive(from, floats, label, [&](const float* part, long first, long count) {
      wait_a_moment(floats);
      use(part, first, count);
    });
  }
  void receive_into(int from, float* to, long floats, MessageLabel label) {
    receive(from, floats, label,
            [to](const float* part, long first, long count) { std::copy_n(part, count, to + first); });
  }

 private:
  /// The others could go on meanwhile.
  void wait_a_moment(long floats) const {
    if (floats > 1 << 15 && rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
};
struct Watched {
  static WatchedTransport connect() { return WatchedTransport(SharedMemory::connect()); }
};
static_assert(SharesMemory<WatchedTransport> && SharesMemory<RecordedTransport<WatchedTransport>>);

/// Without memory that ranks have in common.
struct CopyingTransport : SharedMemoryTransport {
  explicit CopyingTransport(SharedMemoryTransport transport) : SharedMemoryTransport(std::move(transport)) {}
  float* memory(long) = delete;
};
struct Copying {
  static CopyingTransport connect() { return CopyingTransport(SharedMemory::connect()); }
};
static_assert(!SharesMemory<CopyingTransport>);

/// Losses, gradients and parameters of a rank's training.
template <class World, class Inside, class... Policies>
std::vector<float> trained(int rank) {
  using Rank =
      Trainer<Broad, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, Distributed<World, Inside>, BroadBuckets, Policies...>;
  constexpr auto floats = static_cast<std::size_t>(Weights<Broad>::table.parameter_floats);
  const network::Samples<Rank> samples(32);
  Rank trainer{{.learning_rate = 0.05f, .momentum = 0.9f}, 0};
  std::vector<float> result(trainer.gradients(), trainer.gradients() + floats);
  if (std::count(result.begin(), result.end(), 0.0f) != static_cast<long>(floats))
    fail("gradients", "before the first step", "zeros", "others");
  for (int step = 0; step < 4; ++step)
    result.push_back(trainer.step(samples.inputs.data() + 8 * rank * 16, samples.targets.data() + 8 * rank, 8).loss);
  const float* const gradients = trainer.gradients();
  Rank moved = std::move(trainer);
  if (moved.gradients() != gradients || moved.gradient("0.weight").data() != gradients)
    fail("gradients", "of a trainer that was moved", "where they were", "elsewhere");
  result.insert(result.end(), gradients, gradients + floats);
  result.insert(result.end(), moved.weights().parameters(), moved.weights().parameters() + floats);
  return result;
}

/// Nothing of the gradients is copied to be sent, and ranks that are slow to read them have the bits of those that were
/// sent a copy.
template <class Inside, class... Policies>
void check_gradients_are_lent(int ranks) {
  auto found = processes::Job::collect(ranks, [](int rank) {
    std::vector<float> result = trained<Watched, Inside, Policies...>(rank);
    result.push_back(static_cast<float>(WatchedTransport::lent));
    result.push_back(static_cast<float>(WatchedTransport::copied));
    return result;
  });
  const auto expected =
      processes::Job::collect(ranks, [](int rank) { return trained<Copying, Inside, Policies...>(rank); });
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    CAPTURE(ranks, rank);
    REQUIRE(found[rank].size() == expected[rank].size() + 2);
    CHECK(found[rank].back() == 0);
    found[rank].pop_back();
    CHECK(found[rank].back() > 0);
    found[rank].pop_back();
    CHECK(found[rank] == expected[rank]);
  }
}

}  // namespace

TEST_CASE("processes send gradients from where they are computed", "[single]") {
  check_gradients_are_lent<Single>(2);
  check_gradients_are_lent<Single, MicroBatches<2>>(2);
  check_gradients_are_lent<Single, Reproducible>(2);
  check_gradients_are_lent<Single, Timeline<>>(2);  // by a transport within another one
  check_gradients_are_lent<DataParallel<2>>(2);
  check_gradients_are_lent<Single, ShardedOptimizer>(2);
  check_gradients_are_lent<Single, ParameterServer<>>(2);
}

TEST_CASE("ranks that are threads compute gradients in memory of their network", "[single]") {
  using Rank = Trainer<networks::WholeRows, CrossEntropy, Sgd, Features<16>, Distributed<ThreadWorld>>;
  const network::Samples<Rank> samples(8);
  std::vector<float> seen(2);
  ranks::run_well(2, [&](ThreadTransport& transport) {
    const float* gradients = nullptr;
    {
      const ThreadWorld::Joined joined(transport);
      Rank trainer{{.learning_rate = 0.05f}, 0};
      trainer.step(samples.inputs.data(), samples.targets.data(), 8);
      gradients = trainer.gradients();
      seen[static_cast<std::size_t>(transport.rank())] = gradients[0];
    }
    if (gradients[0] != seen[static_cast<std::size_t>(transport.rank())])
      fail("gradients", "without their trainer", "as long as the network", "gone");
  });
}
