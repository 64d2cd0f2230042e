// Parameter servers of three consistencies where ranks are slow in turns: prints {"bulk-synchronous": seconds, …}.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <tenet/comm/barrier.hpp>
#include <tenet/comm/thread_transport.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/tenet.hpp>
#include <thread>

using namespace tenet;

struct Small : Sequential<Linear<32, 64>, ReLU, Linear<64, 64>, ReLU, Linear<64, 10>> {};

namespace {

/// Ranks are threads, each of which says first which it is.
struct Threads {
  inline static thread_local ThreadTransport* own = nullptr;
  static ThreadTransport connect() { return *own; }
};

struct Found {
  double seconds = 0;
  long most_ahead = 0;
};

/// All ranks take so many steps; in each of them another one, drawn at random, takes three times as long. The time of a
/// step's work is slept: there are more ranks than cores.
template <class Consistency>
Found run(int ranks, int steps, std::chrono::microseconds work) {
  using Rank = Trainer<Small, CrossEntropy, Sgd, Features<32>, Cpu<0, 1>, Distributed<Threads>,
                       ParameterServer<Sharded, Consistency>>;
  constexpr int batch = 4;
  ThreadNetwork network(ranks, std::chrono::minutes(1));
  Barrier start(ranks);
  std::vector<std::atomic<long>> done(static_cast<std::size_t>(ranks));
  std::atomic<long> most_ahead{0};
  std::vector<std::thread> threads;
  std::atomic<double> longest{0};
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ThreadTransport transport(network, rank);
      Threads::own = &transport;
      Rank trainer{{.learning_rate = 0.01f}};
      std::vector<float> inputs(batch * 32);
      std::vector<std::int32_t> targets(batch);
      Random numbers(1, static_cast<std::uint64_t>(rank)), turns(2, 0);
      for (float& x : inputs) x = numbers.uniform(-1, 1);
      for (std::int32_t& target : targets) target = static_cast<std::int32_t>(numbers.below(10));
      trainer.step(inputs.data(), targets.data(), batch);  // the parameters have come
      start.arrive_and_wait(rank, {"start", -1, -1});
      const auto begin = std::chrono::steady_clock::now();
      for (int step = 1; step <= steps; ++step) {
        const bool slow = static_cast<int>(turns.below(static_cast<std::uint32_t>(ranks))) == rank;
        if (work.count() > 0) std::this_thread::sleep_for(slow ? 3 * work : work);
        trainer.step(inputs.data(), targets.data(), batch);
        done[static_cast<std::size_t>(rank)] = step;
        // What others have done is at least this many: they may have done more meanwhile.
        for (const std::atomic<long>& other : done) most_ahead = std::max<long>(most_ahead, step - 1 - other);
      }
      trainer.synchronize();
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (rank == 0) longest = seconds;
    });
  for (std::thread& thread : threads) thread.join();
  return {longest, most_ahead};
}

}  // namespace

int main() {
  using std::chrono::microseconds;
  constexpr int ranks = 4, steps = 200;
  double best[3] = {1e30, 1e30, 1e30};
  for (int round = 0; round < 3; ++round) {
    best[0] = std::min(best[0], run<BulkSynchronous>(ranks, steps, microseconds(3000)).seconds);
    best[1] = std::min(best[1], run<BoundedStaleness<8>>(ranks, steps, microseconds(3000)).seconds);
    best[2] = std::min(best[2], run<Asynchronous>(ranks, steps, microseconds(3000)).seconds);
  }
  constexpr int many = 10000;
  const long most_ahead = run<BoundedStaleness<8>>(2, many, microseconds(0)).most_ahead;
  std::printf(
      "{\"bulk_synchronous\": %.6f, \"bounded\": %.6f, \"asynchronous\": %.6f, \"most_ahead\": %ld, \"bound\": 8, "
      "\"steps\": %d}\n",
      best[0], best[1], best[2], most_ahead, many);
}
