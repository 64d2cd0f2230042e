#include "tenet/parallel/distributed.hpp"

#include <tenet/tenet.hpp>

#include "../support/late_servers.hpp"
#include "../support/late_step.hpp"

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

namespace {

/// Ranks that are threads and send their sums in messages, of which those of buckets may be kept back.
struct HeldTransport : ThreadTransport {
  inline static std::atomic<int> milliseconds{0};
  inline static std::atomic<int> runs_awaited{0};  // of the network's forward pass, until the first bucket is sent
  inline static std::atomic<bool> have_come{false};
  inline static std::atomic<int> stuck_step{0};  // of rank 1
  explicit HeldTransport(const ThreadTransport& transport) : ThreadTransport(transport) {}
  LinkCost link() const { return {1, 0, 0}; }
  void send(int to, const float* data, long floats, MessageLabel label) {
    if (std::string_view(label.what) == "bucket") {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      if (label.number == 0 && label.step == 1 && rank() == 0 && runs_awaited > 0)
        have_come = wait_until([] { return late_step::runs >= runs_awaited; }, std::chrono::seconds(10));
      if (rank() == 1 && label.step == stuck_step) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    }
    ThreadTransport::send(to, data, floats, label);
  }
};
struct HeldWorld {
  static HeldTransport connect() { return HeldTransport(ThreadWorld::connect()); }
};

/// Two layers that take long, with an operation between them that counts how often it has run.
struct Counted {
  Linear<16, 128> first;
  Linear<128, 128> second;
  Linear<128, 3> third;
  constexpr auto forward(auto x) const { return third(relu(second(apply<late_step::Step>(relu(first(x)))))); }
};
using Kept = BucketBytes<4096>;
template <class World, class Inside = Single, class Optimizer = Sgd>
using CountedRank =
    Trainer<Counted, CrossEntropy, Optimizer, Features<16>, Cpu<0, 1>, Distributed<World, Inside>, Kept>;
/// Of two buckets the one of the first layer leaves first.
using CountedStep = CountedRank<ThreadWorld>::Training;
constexpr auto counted_plan = plan_exchange<CountedStep, false>(1024);
static_assert(counted_plan.count == 2 && counted_plan.in_turn == 0 && counted_plan.by_need[0] == 1);
static_assert(can_update_late<CountedStep, false>(counted_plan));

/// The parameters of two ranks behind some steps.
template <class Rank>
std::vector<std::vector<float>> parameters_of_two(int steps) {
  const network::Samples<Rank> samples(8);
  return ranks::Threads::collect(2, [&](int rank) {
    late_step::is_in_time = true;
    Rank trainer{{.learning_rate = 0.05f}, static_cast<std::uint64_t>(rank)};
    for (int step = 0; step < steps; ++step)
      trainer.step(samples.inputs.data() + 4 * rank * 16, samples.targets.data() + 4 * rank, 4);
    const float* const parameters = trainer.weights().parameters();
    return std::vector<float>(parameters, parameters + Weights<Counted>::table.parameter_floats);
  });
}

}  // namespace

TEST_CASE("a forward pass begins before the last bucket of the step before has come", "[distributed]") {
  const auto check = []<class Inside>(std::type_identity<Inside>) {
    HeldTransport::runs_awaited = 0;
    const auto expected = parameters_of_two<CountedRank<HeldWorld, Inside>>(3);
    // Each of the devices runs the operation once in the first step; then all of them do in the second.
    HeldTransport::runs_awaited = late_step::runs + 2 * 2 * Inside::replicas;
    HeldTransport::have_come = false;
    const auto found = parameters_of_two<CountedRank<HeldWorld, Inside>>(3);
    CHECK(HeldTransport::have_come);
    HeldTransport::runs_awaited = 0;
    CHECK(found == expected);
    CHECK(found[0] == found[1]);
  };
  check(std::type_identity<Single>{});
  check(std::type_identity<DataParallel<2>>{});
}

TEST_CASE("whoever reads parameters that are updated late has the new ones", "[distributed]") {
  const auto check = []<class Inside>(std::type_identity<Inside>) {
    using Small = BucketBytes<64>;
    HeldTransport::milliseconds = 1;
    using Late = Trainer<late::Net, CrossEntropy, Sgd, late::Input, Cpu<0, 1>, Distributed<HeldWorld, Inside>, Small>;
    const auto found = late::train_and_look<Late>(2);
    HeldTransport::milliseconds = 0;
    CHECK(found == late::train_and_look<Late>(2));
    CHECK(found[0] == found[1]);
  };
  check(std::type_identity<Single>{});
  check(std::type_identity<DataParallel<2>>{});
}

TEST_CASE("a rank by itself updates late with the bits of one device, by the settings of each step", "[distributed]") {
  constexpr auto floats = static_cast<std::size_t>(Weights<Counted>::table.parameter_floats);
  const auto train = [&]<class Trainer>(std::type_identity<Trainer>) {
    const network::Samples<Trainer> samples(8);
    Trainer trainer{{.learning_rate = 0.01f}, 1};
    std::vector<float> result;
    for (int step = 0; step < 6; ++step) {
      trainer.optimizer().learning_rate = 0.01f / static_cast<float>(1 + step);
      trainer.step(samples.inputs.data(), samples.targets.data(), 4 + step % 3);
      if (step != 3) continue;  // else the next step updates
      const float* const gradients = trainer.gradients();
      result.insert(result.end(), gradients, gradients + floats);
      trainer.optimizer().learning_rate = 1;
      const float* const parameters = trainer.weights().parameters();
      result.insert(result.end(), parameters, parameters + floats);
    }
    const float* const parameters = trainer.weights().parameters();
    result.insert(result.end(), parameters, parameters + floats);
    return result;
  };
  late_step::milliseconds = 0;
  const auto expected = train(std::type_identity<Trainer<Counted, CrossEntropy, AdamW, Features<16>, Cpu<0, 1>>>{});
  const auto found = ranks::Threads::collect(
      1, [&](int) { return train(std::type_identity<CountedRank<ThreadWorld, Single, AdamW>>{}); });
  CHECK(found[0] == expected);
}

TEST_CASE("a bucket that does not come is missed by the next call that needs it", "[distributed]") {
  const auto messages_of = [](auto needs_it) {
    using Rank = CountedRank<HeldWorld>;
    const network::Samples<Rank> samples(4);
    HeldTransport::stuck_step = 2;
    std::atomic<int> ended{0};
    auto messages = ranks::run(
        2,
        [&](ThreadTransport& transport) {
          const ThreadWorld::Joined joined(transport);
          Rank trainer{{.learning_rate = 0.1f}, 0};
          const auto step = [&] { trainer.step(samples.inputs.data(), samples.targets.data(), 4); };
          step();
          step();
          ++ended;
          needs_it(trainer, step);
        },
        std::chrono::milliseconds(500));
    HeldTransport::stuck_step = 0;
    CHECK(ended == 2);  // the steps themselves have their results
    return messages;
  };
  const auto check = [](const std::vector<std::string>& messages) {
    CHECK(messages[0] ==
          "rank 0, bucket 1 of step 2: waits for a message from rank 1; expected within 0.5 s, found nothing");
  };
  check(messages_of([](auto&, auto step) { step(); }));
  check(messages_of([](auto& trainer, auto) { trainer.weights(); }));
  check(messages_of([](auto& trainer, auto) { trainer.gradients(); }));
}
