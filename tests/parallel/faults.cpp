#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/tenet.hpp>
#include <thread>

#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/processes.hpp"
#include "../temporary_folder.hpp"

// A process of a training is killed, or stopped for good, at a random moment. The others end soon with an error that
// names it, and the last file that was saved is whole. TENET_FAULTS=50 asks for more of them.

using namespace tenet;
using namespace std::chrono_literals;

namespace {

constexpr auto limit = 3s;  // that a rank waits for another one; a slow disk may keep it waiting for a second
using Net = networks::WholeRows;

template <class... Policies>
struct Training {
  using Rank = Trainer<Net, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, Distributed<SharedMemory>, Policies...>;

  static void fault(Random& random, int ranks, int signal) {
    const int victim = static_cast<int>(random.below(static_cast<std::uint32_t>(ranks)));
    const auto moment = std::chrono::microseconds(random.below(30'000));
    CAPTURE(ranks, victim, signal, moment.count());
    const TemporaryFolder folder;
    const std::string file = folder / "weights.safetensors";
    const std::string job = processes::new_name().substr(7);
    processes::Started started(ranks, [&](int rank) -> std::vector<float> {
      processes::Job::enter(rank, ranks, job);
      setenv("TENET_TIMEOUT", "3", 1);
      Rank trainer{{.learning_rate = 0.01f, .momentum = 0.9f}, 3};
      const network::Samples<Rank> samples(8);
      for (;;) {
        trainer.step(samples.inputs.data(), samples.targets.data(), 8);
        if (rank == 0) trainer.save(file);
      }
    });
    for (int i = 0; !std::filesystem::exists(file) && i < 10'000; ++i) std::this_thread::sleep_for(1ms);
    REQUIRE(std::filesystem::exists(file));
    std::this_thread::sleep_for(moment);
    started.send(victim, signal);
    const auto begin = std::chrono::steady_clock::now();
    // One that is stopped is killed when the others have had time enough.
    const std::vector<std::string> messages = started.messages(limit + 3s);
    if (signal == SIGKILL) CHECK(std::chrono::steady_clock::now() - begin < limit + 3s);

    const std::string number = std::to_string(victim);
    bool named = false;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string& message = messages[static_cast<std::size_t>(rank)];
      CAPTURE(rank, message);
      if (rank == victim) {
        CHECK(message == "signal " + std::to_string(SIGKILL));
      } else {
        CHECK(message.find("rank") != std::string::npos);  // an error of its own, not a signal: it did not hang
        named = named || message.find("from rank " + number) != std::string::npos ||
                message.find("shares its numbers with rank " + number) != std::string::npos ||
                message.find("waits for server " + number) != std::string::npos;
      }
    }
    INFO(messages[0] + "\n" + messages[1]);
    CHECK(named);
    Trainer<Net, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>> loaded;  // of one process
    loaded.load(file);
  }
};

int faults() {
  const char* const asked = std::getenv("TENET_FAULTS");
  return asked != nullptr ? std::atoi(asked) : 12;
}

}  // namespace

TEST_CASE("whichever process is killed or stopped, and when: the others name it, and no file is lost", "[faults]") {
  Random random(std::chrono::steady_clock::now().time_since_epoch().count() & 0xffff);
  for (int i = 0; i < faults(); ++i) {
    // Of three ranks that wait for each other in turn, the one that is stopped need not be the first to be missed.
    const bool stops = i % 5 == 4;
    const int ranks = stops ? 2 : 3, signal = stops ? SIGSTOP : SIGKILL;
    switch (i % 6) {
      case 0:
        Training<>::fault(random, ranks, signal);
        break;
      case 1:
        Training<Ring, BucketBytes<1024>>::fault(random, ranks, signal);
        break;
      case 2:
        Training<ParameterServer<>>::fault(random, ranks, signal);
        break;
      case 3:
        Training<LocalSgd<5>>::fault(random, ranks, signal);
        break;
      case 4:
        Training<ParameterServer<Sharded, BoundedStaleness<3>>>::fault(random, ranks, signal);
        break;
      case 5:
        Training<MicroBatches<2>>::fault(random, ranks, signal);
        break;
    }
  }
}
