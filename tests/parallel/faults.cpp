#include <deque>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/parallel/sharded_optimizer.hpp>
#include <tenet/tenet.hpp>
#include <thread>

#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/processes.hpp"
#include "../temporary_folder.hpp"

// A process of a training is killed, or stopped, at a random moment. Is it stopped for good, the others end soon with
// an error that names it, and the last file that was saved is whole; is it stopped for a while, they wait for it.
// TENET_FAULTS=200 asks for more of them.

using namespace tenet;
using namespace std::chrono_literals;

namespace {

constexpr auto limit = 3s;  // that a rank waits for another one; a slow disk may keep it waiting for a second
using Net = networks::WholeRows;
template <class... Policies>
using On = Trainer<Net, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, Policies...>;

/// What a process of a training does: so many steps, or steps without end, behind each of which rank 0 saves.
template <class... Policies>
std::vector<float> train(int rank, int ranks, const std::string& file, long steps) {
  using Rank = On<Policies...>;
  Rank trainer{{.learning_rate = 0.01f, .momentum = 0.9f}, 3};
  const network::Samples<Rank> samples(8 * ranks);
  const auto step = [&] {
    return trainer.step(samples.inputs.data() + 8 * rank * 16, samples.targets.data() + 8 * rank, 8).loss;
  };
  float loss = 0;
  for (long i = 0; steps == 0 || i < steps; ++i) {
    loss = step();
    if (rank == 0 && (steps == 0 || i == 0)) trainer.save(file);
  }
  trainer.synchronize();
  if (!(loss < 0.4f)) fail("training", "the loss", "below 0.4, from 1.1", std::to_string(loss));
  const float* const parameters = trainer.weights().parameters();
  return {parameters, parameters + Weights<Net>::table.parameter_floats};
}

struct Training {
  const char* name;
  std::vector<float> (*train)(int rank, int ranks, const std::string& file, long steps);
  int most_ranks = 3;
  bool has_one_result = true;  // whoever comes first
};
using Between = Distributed<SharedMemory>;
using Small = BucketBytes<1024>;  // more than one for each server
const Training trainings[]{
    {"all-reduce", train<Between>},
    {"ring", train<Between, Ring, Small>},
    {"ranks with replicas", train<Distributed<SharedMemory, DataParallel<2>>>},
    {"micro-batches", train<Between, MicroBatches<2>>},
    {"reproducible", train<Between, Reproducible>, 2},
    {"sharded optimizer", train<Between, ShardedOptimizer>},
    {"local SGD", train<Between, LocalSgd<5>>},
    {"bulk-synchronous servers", train<Between, ParameterServer<>>},
    {"a server on rank 0", train<Between, ParameterServer<OnRank<0>>>},
    {"servers of bounded staleness", train<Between, ParameterServer<Sharded, BoundedStaleness<3>>>, 3, false},
    {"asynchronous servers", train<Between, ParameterServer<Sharded, Asynchronous>, Small>, 3, false},
};

/// Processes that train, and what happens to one of them.
class Job {
 public:
  Job(const Training& training, int ranks, long steps)
      : training_(&training), ranks_(ranks), started_(ranks, [&](int rank) {
          processes::Job::enter(rank, ranks, name_);
          setenv("TENET_TIMEOUT", "3", 1);
          return training.train(rank, ranks, file_, steps);
        }) {}

  processes::Started& processes() { return started_; }
  int victim() const { return victim_; }
  std::chrono::steady_clock::time_point time() const { return time_; }

  /// Sends one of them a signal, at a random moment when the training is under way.
  void strike(Random& random, int signal, int most_microseconds) {
    signal_ = signal;
    victim_ = static_cast<int>(random.below(static_cast<std::uint32_t>(ranks_)));
    moment_ = std::chrono::microseconds(random.below(static_cast<std::uint32_t>(most_microseconds)));
    CAPTURE(training_->name, ranks_, victim_, signal, moment_.count());
    for (int i = 0; !std::filesystem::exists(file_) && i < 10'000; ++i) std::this_thread::sleep_for(1ms);
    REQUIRE(std::filesystem::exists(file_));
    std::this_thread::sleep_for(moment_);
    REQUIRE(!started_.has_ended(victim_, 0ms));
    started_.send(victim_, signal);
    time_ = std::chrono::steady_clock::now();
  }

  /// The others have ended in time, and say for whom they have waited.
  void check_named() {
    CAPTURE(training_->name, ranks_, victim_, signal_, moment_.count());
    const auto latest = time_ + limit + 3s;
    for (int rank = 0; rank < ranks_; ++rank)
      if (rank != victim_)
        CHECK(started_.has_ended(
            rank, std::chrono::duration_cast<std::chrono::milliseconds>(latest - std::chrono::steady_clock::now())));
    started_.send(victim_, SIGKILL);
    const std::vector<std::string> messages = started_.messages(1s);
    const std::string number = std::to_string(victim_);
    bool named = false;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::string& message = messages[static_cast<std::size_t>(rank)];
      CAPTURE(rank, message);
      if (rank == victim_) {
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
    On<> loaded;  // of one process
    loaded.load(file_);
  }

 private:
  const Training* training_;
  int ranks_, victim_ = 0, signal_ = 0;
  std::chrono::microseconds moment_{};
  std::chrono::steady_clock::time_point time_;
  TemporaryFolder folder_;
  std::string file_ = folder_ / "weights.safetensors", name_ = processes::new_name().substr(7);
  processes::Started started_;
};

int faults() {
  const char* const asked = std::getenv("TENET_FAULTS");
  return asked != nullptr ? std::atoi(asked) : 50;
}
Random by_the_clock() { return Random(std::chrono::steady_clock::now().time_since_epoch().count() & 0xffff); }

constexpr int at_once = 4;  // trainings, so that the limits of those with a stopped process pass together

}  // namespace

TEST_CASE("whichever process is killed or stopped, and when: the others name it, and no file is lost", "[faults]") {
  Random random = by_the_clock();
  constexpr int all = std::size(trainings);
  for (int first = 0; first < faults(); first += at_once) {
    std::deque<Job> jobs;
    for (int i = first; i < std::min(first + at_once, faults()); ++i) {
      const Training& training = trainings[i % all];
      const bool stops = (i + i / all) % 2 == 1;  // each training in turn
      // Of three ranks that wait for each other in turn, the one that is stopped need not be the first to be missed.
      jobs.emplace_back(training, stops ? 2 : training.most_ranks, 0).strike(random, stops ? SIGSTOP : SIGKILL, 30'000);
    }
    for (Job& job : jobs) job.check_named();
  }
}

TEST_CASE("a process that is stopped for less than the limit changes nothing", "[faults]") {
  Random random = by_the_clock();
  constexpr long steps = 2000;  // still under way when it is stopped, also where others use the machine
  for (const Training& training : trainings) {
    CAPTURE(training.name);
    const auto expected = Job(training, 2, steps).processes().numbers();
    Job delayed(training, 2, steps);
    delayed.strike(random, SIGSTOP, 5'000);
    std::this_thread::sleep_until(delayed.time() + 500ms);
    for (const int rank : {0, 1}) CHECK(!delayed.processes().has_ended(rank, 0ms));
    delayed.processes().send(delayed.victim(), SIGCONT);
    const auto found = delayed.processes().numbers();
    REQUIRE(found[0].size() == static_cast<std::size_t>(Weights<Net>::table.parameter_floats));
    CHECK(found[1] == found[0]);
    CHECK(expected[1] == expected[0]);
    if (training.has_one_result) CHECK(found[0] == expected[0]);
  }
}
