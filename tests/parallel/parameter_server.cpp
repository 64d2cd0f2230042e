#include "tenet/parallel/parameter_server.hpp"

#include "../support/training_ranks.hpp"
#include "../temporary_folder.hpp"

using namespace tenet;
using networks::WholeRows;

namespace {

template <class Ranks>
void check_all() {
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};
  ranks::check_training<Ranks, WholeRows, CrossEntropy, Sgd, Features<16>, Reference, ParameterServer<>>({5}, sgd);
  ranks::check_training<Ranks, WholeRows, MeanSquaredError, Sgd, Features<16>, Reference, ParameterServer<OnRank<1>>,
                        BucketBytes<4096>>({4, 1, 6}, sgd);
  ranks::check_training<Ranks, WholeRows, CrossEntropy, AdamW, Features<16>, Cpu<0, 1>, ParameterServer<Sharded>,
                        BucketBytes<1>>({3, 2, 2, 1}, {.learning_rate = 0.01f});
  ranks::check_training<Ranks, WholeRows, CrossEntropy, Sgd, Features<16>, Reference, ParameterServer<>,
                        MicroBatches<3>, BucketBytes<4096>>({5, 2}, sgd);
}

}  // namespace

TEST_CASE("bulk-synchronous servers train as one device with all samples", "[parameter_server]") {
  check_all<ranks::Threads>();
}
TEST_CASE("servers between processes do the same", "[parameter_server]") { check_all<processes::Job>(); }

namespace {

/// Trains ranks with the same samples, and gives each one's losses and parameters at the end.
template <class Consistency>
struct Asynchronously {
  using Rank = Trainer<WholeRows, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, Distributed<ThreadWorld>,
                       ParameterServer<Sharded, Consistency>, BucketBytes<4096>>;
  static constexpr auto floats = static_cast<std::size_t>(Weights<WholeRows>::table.parameter_floats);
  std::vector<float> first, last;
  std::vector<std::vector<float>> parameters;

  Asynchronously(int ranks, int steps) : first(3), last(3), parameters(static_cast<std::size_t>(ranks)) {
    const network::Samples<Rank> samples(24);
    ranks::run_well(ranks, [&](ThreadTransport& transport) {
      const ThreadWorld::Joined joined(transport);
      const auto rank = static_cast<std::size_t>(transport.rank());
      Rank trainer{{.learning_rate = 0.05f, .momentum = 0.5f}, 0};
      for (int step = 0; step < steps; ++step) {
        const float loss = trainer.step(samples.inputs.data(), samples.targets.data(), 24).loss;
        if (step == 0) first[rank] = loss;
        last[rank] = loss;
      }
      trainer.synchronize();
      parameters[rank].assign(trainer.weights().parameters(), trainer.weights().parameters() + floats);
    });
  }
};

}  // namespace

TEST_CASE("asynchronous servers train, and synchronize leaves the same parameters on all ranks", "[parameter_server]") {
  const auto check = [](const auto& found) {
    for (std::size_t rank = 0; rank < found.parameters.size(); ++rank) {
      CHECK(found.last[rank] < 0.5f * found.first[rank]);
      CHECK(found.parameters[rank] == found.parameters[0]);
    }
  };
  check(Asynchronously<Asynchronous>(2, 120));
  check(Asynchronously<BoundedStaleness<2>>(3, 120));
  // Two ranks that take no turns make twice the updates of one.
  CHECK(Asynchronously<Asynchronous>(2, 40).last[0] < Asynchronously<Asynchronous>(1, 40).last[0]);
}

namespace {

/// Ranks that are threads, whose servers take long to answer pulls, or do not as long as they are stuck.
class LateTransport : public ThreadTransport {
 public:
  inline static std::atomic<int> answered{0};
  inline static std::atomic<long> milliseconds{0};
  inline static std::atomic<bool> is_stuck{false};

  explicit LateTransport(const ThreadTransport& transport) : ThreadTransport(transport) {}
  void send(int to, const float* data, long floats, MessageLabel label) {
    using Kind = detail::StoreHeader::Kind;
    detail::StoreHeader header{.kind = Kind::leave};
    if (!numbers_follow_) std::memcpy(static_cast<void*>(&header), data, sizeof header);
    numbers_follow_ = header.kind == Kind::pulled || header.kind == Kind::push || header.kind == Kind::assign;
    if (header.kind == Kind::pulled) {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      while (is_stuck) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++answered;
    }
    ThreadTransport::send(to, data, floats, label);
  }

 private:
  bool numbers_follow_ = false;
};
struct LateWorld {
  static LateTransport connect() { return LateTransport(ThreadWorld::connect()); }
};

using Net = networks::Residual;
using Input = Image<2, 6, 5>;
template <class World, class... Policies>
using RankIn = Trainer<Net, CrossEntropy, Sgd, Input, Cpu<0, 1>, Distributed<World>, Policies...>;
constexpr Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};

/// Four steps, then each of those who read weights behind another step: numbers of all of them.
template <class Trainer>
std::vector<std::vector<float>> train_and_look(int ranks) {
  constexpr auto floats = static_cast<std::size_t>(Weights<Net>::table.parameter_floats);
  const network::Samples<Trainer> samples(4);
  const TemporaryFolder folder;
  return ranks::Threads::collect(ranks, [&](int rank) {
    Trainer trainer{sgd, 1};
    std::vector<float> result;
    const auto step = [&] {
      result.push_back(
          trainer.step(samples.inputs.data() + 2 * rank * Input::size, samples.targets.data() + 2 * rank, 2).loss);
    };
    const auto look = [&] {
      const float* const parameters = trainer.weights().parameters();
      result.insert(result.end(), parameters, parameters + floats);
    };
    for (int i = 0; i < 4; ++i) step();
    look();
    step();
    look();
    step();
    const auto output = trainer.predict(samples.inputs.data(), 3);
    result.insert(result.end(), output.begin(), output.end());
    step();
    const std::string file = folder / (std::to_string(rank) + ".safetensors");
    trainer.save(file);
    tenet::Trainer<Net, CrossEntropy, Sgd, Input> loaded;
    loaded.load(file);
    result.insert(result.end(), loaded.weights().parameters(), loaded.weights().parameters() + floats);
    step();
    trainer.synchronize();
    look();
    step();  // and ends with parameters on the way
    return result;
  });
}

}  // namespace

TEST_CASE("whoever reads parameters that come late has the new ones", "[parameter_server]") {
  LateTransport::is_stuck = false;
  const auto check = [](int ranks, auto late, auto usual) {
    CAPTURE(ranks);
    LateTransport::milliseconds = 1;
    CHECK(train_and_look<typename decltype(late)::type>(ranks) ==
          train_and_look<typename decltype(usual)::type>(ranks));
  };
  using Small = BucketBytes<1>;
  using Cut = MicroBatches<2>;  // the first piece has no step that waits
  constexpr std::type_identity<RankIn<ThreadWorld, ParameterServer<>, Small>> usual;
  check(1, std::type_identity<RankIn<LateWorld, ParameterServer<>, Small>>{}, usual);
  check(2, std::type_identity<RankIn<LateWorld, ParameterServer<OnRank<0>>, Small>>{}, usual);
  check(2, std::type_identity<RankIn<LateWorld, ParameterServer<>, Small, Cut>>{},
        std::type_identity<RankIn<ThreadWorld, ParameterServer<>, Small, Cut>>{});
  // By itself a rank has all of its own gradients.
  check(1, std::type_identity<RankIn<LateWorld, ParameterServer<Sharded, Asynchronous>, Small>>{}, usual);
  check(1, std::type_identity<RankIn<LateWorld, ParameterServer<Sharded, BoundedStaleness<1>>, Small>>{}, usual);
}

namespace {

/// Computes for longer than its gradients need to be sent.
struct Broad : Sequential<Linear<16, 256>, ReLU, Linear<256, 256>, Tanh, Linear<256, 256>, ReLU, Linear<256, 3>> {};

/// Behind how many of three steps of two ranks parameters are still to come.
template <class Consistency>
int steps_that_end_early() {
  using Rank = Trainer<Broad, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, Distributed<LateWorld>,
                       ParameterServer<OnRank<1>, Consistency>, BucketBytes<1>>;
  const network::Samples<Rank> samples(128);
  LateTransport::is_stuck = false;
  LateTransport::milliseconds = 5;
  std::atomic<int> result{0};
  ranks::run_well(2, [&](ThreadTransport& transport) {
    const ThreadWorld::Joined joined(transport);
    Rank trainer{sgd, 1};
    for (int step = 0; step < 3; ++step) {
      trainer.step(samples.inputs.data(), samples.targets.data(), 128);
      const int before = LateTransport::answered;
      trainer.weights();
      result += LateTransport::answered > before;
    }
  });
  return result;
}

}  // namespace

TEST_CASE("a step ends before all parameters have come", "[parameter_server]") {
  CHECK(steps_that_end_early<BulkSynchronous>() > 0);
  CHECK(steps_that_end_early<Asynchronous>() > 0);
  CHECK(steps_that_end_early<BoundedStaleness<1>>() > 0);
}

TEST_CASE("parameters that do not come any more are missed by whoever needs them", "[parameter_server]") {
  using Rank = RankIn<LateWorld, ParameterServer<OnRank<1>, Asynchronous>>;  // one bucket
  const network::Samples<Rank> samples(2);
  LateTransport::milliseconds = 0;
  const auto message = [&](auto needs_them) {
    std::atomic<int> there{0};
    std::atomic<bool> done{false};
    LateTransport::is_stuck = false;
    return ranks::run(
        2,
        [&](ThreadTransport& transport) {
          const ThreadWorld::Joined joined(transport);
          const struct Done {  // also where something is thrown
            ThreadTransport& of;
            std::atomic<bool>& flag;
            ~Done() {
              if (of.rank() == 0) LateTransport::is_stuck = !(flag = true);
            }
          } at_the_end{transport, done};
          Rank trainer{sgd, 1};
          const auto step = [&] { trainer.step(samples.inputs.data(), samples.targets.data(), 2); };
          step();
          trainer.weights();
          ++there;
          while (there < 2) std::this_thread::yield();
          if (transport.rank() == 1) {
            while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            return;
          }
          LateTransport::is_stuck = true;
          step();
          needs_them(trainer, step);
        },
        std::chrono::milliseconds(300))[0];
  };
  const std::string expected =
      "parameters 0 of step 2: rank 0, pull of key 0: waits for server 1; expected within 0.3 s, found no answer";
  CHECK(message([](auto&, auto step) { step(); }) == expected);
  CHECK(message([](auto& trainer, auto) { trainer.weights(); }) == expected);
  CHECK(message([&](auto& trainer, auto) { trainer.predict(samples.inputs.data(), 2); }) == expected);
  CHECK(message([](auto& trainer, auto) { trainer.synchronize(); }) == expected);
  CHECK(message([](auto&, auto) {}) == "");  // it ends without them
}

TEST_CASE("a step that has ended is not further ahead than the bound allows", "[parameter_server]") {
  constexpr int ahead = 1, steps = 12;
  using Rank = RankIn<LateWorld, ParameterServer<Sharded, BoundedStaleness<ahead>>, BucketBytes<512>>;
  const network::Samples<Rank> samples(2);
  LateTransport::milliseconds = 0;
  std::array<std::atomic<int>, 3> begun{};
  std::atomic<int> most{0};
  ranks::run_well(3, [&](ThreadTransport& transport) {
    const ThreadWorld::Joined joined(transport);
    const auto rank = static_cast<std::size_t>(transport.rank());
    Rank trainer{sgd, 1};
    for (int step = 0; step < steps; ++step) {
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const int own = ++begun[rank];
      trainer.step(samples.inputs.data(), samples.targets.data(), 2);
      for (const auto& other : begun)
        if (own - other > most) most = own - other;
    }
    trainer.synchronize();
  });
  CHECK(most == ahead);
}
