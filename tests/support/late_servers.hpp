#pragma once

#include <tenet/parallel/parameter_server.hpp>

#include "../temporary_folder.hpp"
#include "training_ranks.hpp"

/// Ranks whose parameter servers take long to answer, and what they do then.
namespace late {

/// Ranks that are threads, whose servers take long to answer pulls, or do not as long as they are stuck.
class LateTransport : public tenet::ThreadTransport {
 public:
  inline static std::atomic<int> answered{0};
  inline static std::atomic<long> milliseconds{0};
  inline static std::atomic<bool> is_stuck{false};

  explicit LateTransport(const tenet::ThreadTransport& transport) : ThreadTransport(transport) {}
  void send(int to, const float* data, long floats, tenet::MessageLabel label) {
    using Kind = tenet::detail::StoreHeader::Kind;
    tenet::detail::StoreHeader header{.kind = Kind::leave};
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
using Input = tenet::Image<2, 6, 5>;
template <class World, class Device, class... Policies>
using RankIn =
    tenet::Trainer<Net, tenet::CrossEntropy, tenet::Sgd, Input, Device, tenet::Distributed<World>, Policies...>;
inline constexpr tenet::Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};

/// Four steps, then each of those who read weights behind another step: numbers of all of them.
template <class Trainer>
std::vector<std::vector<float>> train_and_look(int ranks) {
  constexpr auto floats = static_cast<std::size_t>(tenet::Weights<Net>::table.parameter_floats);
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
    tenet::Trainer<Net, tenet::CrossEntropy, tenet::Sgd, Input> loaded;
    loaded.load(file);
    result.insert(result.end(), loaded.weights().parameters(), loaded.weights().parameters() + floats);
    step();
    trainer.synchronize();
    look();
    step();  // and ends with parameters on the way
    return result;
  });
}

/// Computes for longer than its gradients need to be sent.
struct Broad : tenet::Sequential<tenet::Linear<16, 256>, tenet::ReLU, tenet::Linear<256, 256>, tenet::Tanh,
                                 tenet::Linear<256, 256>, tenet::ReLU, tenet::Linear<256, 3>> {};

/// Behind how many of three steps of two ranks parameters are still to come.
template <class Device, class Consistency, class Place = tenet::OnRank<1>>
int steps_that_end_early() {
  using Rank =
      tenet::Trainer<Broad, tenet::CrossEntropy, tenet::Sgd, tenet::Features<16>, Device, tenet::Distributed<LateWorld>,
                     tenet::ParameterServer<Place, Consistency>, tenet::BucketBytes<1>>;
  constexpr int batch = TENET_TEST_SANITIZED ? 16 : 128;
  const network::Samples<Rank> samples(batch);
  LateTransport::is_stuck = false;
  LateTransport::milliseconds = 5;
  std::atomic<int> result{0};
  ranks::run_well(2, [&](tenet::ThreadTransport& transport) {
    const ThreadWorld::Joined joined(transport);
    Rank trainer{sgd, 1};
    for (int step = 0; step < 3; ++step) {
      trainer.step(samples.inputs.data(), samples.targets.data(), batch);
      const int before = LateTransport::answered;
      trainer.weights();
      result += LateTransport::answered > before;
    }
  });
  return result;
}

/// What rank 0 is told when it misses parameters that do not come any more, as it calls needs_them(trainer, step,
/// samples).
template <class Device, class Server>
std::string message_of_missing(auto needs_them) {
  using Rank = RankIn<LateWorld, Device, Server>;  // one bucket
  const network::Samples<Rank> samples(2);
  LateTransport::milliseconds = 0;
  std::atomic<int> there{0};
  std::atomic<bool> done{false};
  LateTransport::is_stuck = false;
  return ranks::run(
      2,
      [&](tenet::ThreadTransport& transport) {
        const ThreadWorld::Joined joined(transport);
        const struct Done {  // also where something is thrown
          tenet::ThreadTransport& of;
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
        needs_them(trainer, step, samples);
      },
      std::chrono::milliseconds(300))[0];
}

/// Whoever needs them is told.
template <class Device>
void check_missing() {
  using Server = tenet::ParameterServer<tenet::OnRank<1>, tenet::Asynchronous>;
  const auto message = [](auto needs_them) { return message_of_missing<Device, Server>(needs_them); };
  const std::string expected =
      "parameters 0 of step 2: rank 0, pull of key 0: waits for server 1; expected within 0.3 s, found no answer";
  CHECK(message([](auto&, auto step, auto&) { step(); }) == expected);
  CHECK(message([](auto& trainer, auto, auto&) { trainer.weights(); }) == expected);
  CHECK(message([](auto& trainer, auto, auto& samples) { trainer.predict(samples.inputs.data(), 2); }) == expected);
  CHECK(message([](auto& trainer, auto, auto&) { trainer.synchronize(); }) == expected);
  CHECK(message([](auto&, auto, auto&) {}) == "");  // it ends without them
}

/// By how many steps a rank that has ended one is ahead of the slowest, at most, where servers allow `ahead`.
template <class Device, long ahead>
int most_ahead() {
  constexpr int steps = 12;
  using Rank = RankIn<LateWorld, Device, tenet::ParameterServer<tenet::Sharded, tenet::BoundedStaleness<ahead>>,
                      tenet::BucketBytes<512>>;
  const network::Samples<Rank> samples(2);
  LateTransport::milliseconds = 0;
  std::array<std::atomic<int>, 3> begun{};
  std::atomic<int> most{0};
  ranks::run_well(3, [&](tenet::ThreadTransport& transport) {
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
  return most;
}

}  // namespace late
