#include "tenet/parallel/sharded_optimizer.hpp"

#include "../support/training_ranks.hpp"

using namespace tenet;

namespace {

using Net = networks::Residual;  // with running statistics
using Input = Image<2, 6, 5>;
using Rows = networks::WholeRows;
using Small = BucketBytes<512>;
constexpr Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};

template <class Net, class Optimizer, class Input, class... Policies>
using Rank = Trainer<Net, CrossEntropy, Optimizer, Input, Distributed<ThreadWorld>, ShardedOptimizer, Policies...>;

}  // namespace

TEST_CASE("ranks that share the optimizer's state train as one device does", "[sharded_optimizer]") {
  ranks::check_training<ranks::Threads, Rows, CrossEntropy, Sgd, Features<16>, ShardedOptimizer>({9}, sgd);
  ranks::check_training<ranks::Threads, Rows, CrossEntropy, Sgd, Features<16>, ShardedOptimizer, Small>({3, 5}, sgd);
  ranks::check_training<ranks::Threads, Rows, CrossEntropy, Adam, Features<16>, ShardedOptimizer, Small>(
      {4, 1, 6}, {.learning_rate = 0.01f});
  ranks::check_training<ranks::Threads, Rows, CrossEntropy, AdamW, Features<16>, ShardedOptimizer, MicroBatches<2>>(
      {4, 7}, {.learning_rate = 0.01f});
  ranks::check_training<ranks::Threads, Net, CrossEntropy, Sgd, Input, ShardedOptimizer, SyncBatchNorm>({4, 7}, sgd);
}

TEST_CASE("ranks whose replicas share its update share the optimizer's state", "[sharded_optimizer]") {
  using ranks::WithReplicas;
  ranks::check_training<WithReplicas<ranks::Threads, 2>, Rows, CrossEntropy, Adam, Features<16>, Cpu<0, 1>,
                        ShardedOptimizer, Small>({4, 1, 6}, {.learning_rate = 0.01f});
  ranks::check_training<WithReplicas<processes::Job, 3>, Rows, CrossEntropy, AdamW, Features<16>, Cpu<0, 1>,
                        ShardedOptimizer, Small, MicroBatches<2>>({7, 9}, {.learning_rate = 0.01f});
  ranks::check_training<WithReplicas<ranks::Threads, 2>, Net, CrossEntropy, Sgd, Input, Cpu<0, 1>, ShardedOptimizer,
                        SyncBatchNorm>({4, 7}, sgd);
}

TEST_CASE("processes share the optimizer's state", "[sharded_optimizer]") {
  ranks::check_training<processes::Job, Rows, CrossEntropy, Adam, Features<16>, ShardedOptimizer, Small>(
      {2, 5, 3}, {.learning_rate = 0.01f});
}

TEST_CASE("the optimizer's state lies on all ranks in parts", "[sharded_optimizer]") {
  using Definition = TrainingProgram<Rows, CrossEntropy, Adam, Features<16>, CpuKernels>;
  using P = Program<Definition>;
  constexpr long all = P::state_count * P::slots.parameter_floats;
  for (const int count : {1, 2, 4}) {
    CAPTURE(count);
    std::atomic<long> sum{0}, most{0};
    ranks::run_well(count, [&](ThreadTransport& transport) {
      CpuKernels::Executor executor(1);
      const ShardedOptimizerExecution<P, RankPasses<P, WholeBatch>, 512, ThreadTransport> execution(executor,
                                                                                                    transport);
      sum += execution.state_floats();
      long found = most;
      while (found < execution.state_floats() && !most.compare_exchange_weak(found, execution.state_floats())) {
      }
    });
    CHECK(sum == all);
    CHECK(most <= all / count + 2 * 16 * 8);  // parts are whole vectors of 16 numbers
  }
  CHECK(!Rank<Rows, Adam, Features<16>>::Chosen::has_states);  // nor has the trainer another copy
}

TEST_CASE("the summary says that the optimizer's state is not this rank's alone", "[sharded_optimizer]") {
  ranks::run_well(1, [](ThreadTransport& transport) {
    const ThreadWorld::Joined joined(transport);
    const std::string text = Rank<Rows, Adam, Features<16>>{{}, 0}.summary();
    if (text.find("with gradients 0.0") == std::string::npos ||
        text.find("; Adam's state lies with the ranks, in parts)") == std::string::npos)
      fail("summary", "the state", "in parts", text);
  });
}

TEST_CASE("running statistics are those of rank 0, and losses means over all ranks", "[sharded_optimizer]") {
  const network::Samples<Trainer<Net, CrossEntropy, Sgd, Input>> samples(8);
  const auto losses_and_buffers = [&]<class Synchronisation>(std::type_identity<Synchronisation>) {
    return ranks::Threads::collect(2, [&](int rank) {
      Trainer<Net, CrossEntropy, Sgd, Input, Distributed<ThreadWorld>, Synchronisation> trainer{
          sgd, static_cast<std::uint64_t>(rank)};
      std::vector<float> result;
      for (int step = 0; step < 3; ++step)
        result.push_back(
            trainer.step(samples.inputs.data() + 4 * rank * Input::size, samples.targets.data() + 4 * rank, 4).loss);
      const float* const buffers = trainer.weights().buffers();
      result.insert(result.end(), buffers, buffers + Weights<Net>::table.buffer_floats);
      return result;
    });
  };
  const auto found = losses_and_buffers(std::type_identity<ShardedOptimizer>{});
  const auto expected = losses_and_buffers(std::type_identity<AllReduce>{});
  CHECK(found[0] == found[1]);
  REQUIRE(found[0].size() == expected[0].size());
  for (std::size_t i = 0; i < found[0].size(); ++i)
    CHECK(found[0][i] == Approx(expected[0][i]).epsilon(1e-4).margin(1e-5));
}

TEST_CASE("ranks that ask for the gradient together have the whole of it", "[sharded_optimizer]") {
  using One = Trainer<Rows, CrossEntropy, Sgd, Features<16>>;
  const network::Samples<One> samples(9);
  One one{sgd, 0};
  one.step(samples.inputs.data(), samples.targets.data(), 9);
  constexpr auto floats = static_cast<std::size_t>(Weights<Rows>::table.parameter_floats);
  const std::vector<float> expected(one.gradients(), one.gradients() + floats);
  const auto found = ranks::Threads::collect(3, [&](int rank) {
    Rank<Rows, Sgd, Features<16>, Small> trainer{sgd, static_cast<std::uint64_t>(rank)};
    trainer.step(samples.inputs.data() + 3 * rank * 16, samples.targets.data() + 3 * rank, 3);
    const float* gradients = trainer.gradients();
    gradients = trainer.gradients();  // as often as they like
    return std::vector<float>(gradients, gradients + floats);
  });
  for (const auto& of_rank : found) {
    REQUIRE(of_rank.size() == floats);
    for (std::size_t i = 0; i < floats; ++i) CHECK(of_rank[i] == Approx(expected[i]).epsilon(1e-3).margin(1e-6));
  }
}

TEST_CASE("a rank that does not come to the exchange is named", "[sharded_optimizer]") {
  const network::Samples<Rank<Rows, Sgd, Features<16>>> samples(4);
  const auto messages = ranks::run(
      2,
      [&](ThreadTransport& transport) {
        const ThreadWorld::Joined joined(transport);
        Rank<Rows, Sgd, Features<16>> trainer{sgd, 0};
        for (int step = 0; step < 4 - transport.rank(); ++step)
          trainer.step(samples.inputs.data(), samples.targets.data(), 4);
      },
      std::chrono::milliseconds(500));
  CAPTURE(messages[0]);
  CHECK(messages[0].find("of step 4: waits for a message from rank 1") != std::string::npos);
}

namespace {

/// Ranks that are threads, whose parameters take long to be sent.
struct LateTransport : ThreadTransport {
  inline static std::atomic<int> sent{0};
  explicit LateTransport(const ThreadTransport& transport) : ThreadTransport(transport) {}
  void send(int to, const float* data, long floats, MessageLabel label) {
    if (std::string_view(label.what) == "parameters" && label.step > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ++sent;
    }
    ThreadTransport::send(to, data, floats, label);
  }
};
struct LateWorld {
  static LateTransport connect() { return LateTransport(ThreadWorld::connect()); }
};

}  // namespace

TEST_CASE("a step ends before all parameters have come, and the next one waits for them", "[sharded_optimizer]") {
  using Usual = Rank<Net, Sgd, Input, Small>;
  constexpr auto floats = static_cast<std::size_t>(Weights<Net>::table.parameter_floats);
  const network::Samples<Usual> samples(4);
  const auto train = [&]<class Trainer>(std::type_identity<Trainer>) {
    LateTransport::sent = 0;
    return ranks::Threads::collect(2, [&](int rank) {
      Trainer trainer{sgd, 1};
      const auto step = [&] {
        trainer.step(samples.inputs.data() + 2 * rank * Input::size, samples.targets.data() + 2 * rank, 2);
      };
      for (int i = 0; i < 4; ++i) step();
      std::vector<float> result{static_cast<float>(LateTransport::sent)};
      trainer.weights();
      result.push_back(static_cast<float>(LateTransport::sent));
      result.insert(result.end(), trainer.weights().parameters(), trainer.weights().parameters() + floats);
      step();  // and ends with parameters on the way
      return result;
    });
  };
  const auto check = [&]<class Inside>(std::type_identity<Inside>) {
    const auto of = [&]<class World>(std::type_identity<World>) {
      return train(std::type_identity<Trainer<Net, CrossEntropy, Sgd, Input, Cpu<0, 1>, Distributed<World, Inside>,
                                              ShardedOptimizer, Small>>{});
    };
    const auto late = of(std::type_identity<LateWorld>{}), usual = of(std::type_identity<ThreadWorld>{});
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CHECK(late[rank][0] < late[rank][1]);
      CHECK(std::equal(late[rank].begin() + 2, late[rank].end(), usual[rank].begin() + 2, usual[rank].end()));
    }
  };
  check(std::type_identity<Single>{});
  check(std::type_identity<DataParallel<2>>{});
}
