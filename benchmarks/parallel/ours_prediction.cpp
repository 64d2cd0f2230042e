// Predicted and measured step times of two workers on this machine, and of ranks that are slow in turns: prints
// {"NETWORK, POLICIES": {"predicted": seconds, "measured": seconds}, …}.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <tenet/comm/thread_transport.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/parallel/step_time.hpp>
#include <tenet/tenet.hpp>
#include <thread>

#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"

using namespace tenet;

namespace {

double seconds_of(auto call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Ranks are threads, each of which says first which it is.
struct Threads {
  inline static thread_local ThreadTransport* own = nullptr;
  static ThreadTransport connect() { return *own; }
};

template <class Net, class... Tags>
using Rank = Trainer<Net, CrossEntropy, PlainSgd, Image<1, 28, 28>, Cpu<0, 1>, Tags...>;

/// Samples that are not all the same.
struct Samples {
  explicit Samples(int count)
      : inputs(784 * static_cast<std::size_t>(count)), targets(static_cast<std::size_t>(count)) {
    Random random(1);
    for (float& x : inputs) x = random.uniform(-1, 1);
    for (std::int32_t& target : targets) target = static_cast<std::int32_t>(random.below(10));
  }
  std::vector<float> inputs;
  std::vector<std::int32_t> targets;
};

/// Calls body(transport) on two threads, each kept to its half of the processors: with its communication thread.
template <class Body>
void on_two_threads(Body body) {
  ThreadNetwork network(2, std::chrono::minutes(1));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      keep_to_part(rank, 2);
      ThreadTransport transport(network, rank);
      Threads::own = &transport;
      body(transport);
    });
  for (std::thread& thread : threads) thread.join();
}

/// The quickest of some steps, in seconds; of two ranks that of the first.
template <class Trainer>
double measured(int batch, int steps) {
  double best = 1e30;
  const auto run = [&](int samples, bool counts) {
    Trainer trainer{{.learning_rate = 1e-6f}};
    const Samples given(samples);
    for (int step = 0; step < steps; ++step) {
      const double seconds = seconds_of([&] { trainer.step(given.inputs.data(), given.targets.data(), samples); });
      if (counts && step > 0) best = std::min(best, seconds);
    }
  };
  if constexpr (Trainer::Chosen::has_ranks)
    on_two_threads([&](ThreadTransport& transport) { run(batch, transport.rank() == 0); });
  else
    run(batch * Trainer::Chosen::Strategy::replicas, true);
  return best;
}

/// How fast a core copies, and what messages between two threads take, of as many gradients as a network has: those of
/// a large one are in no cache when they are sent.
template <class Net>
StepTimeOptions constants() {
  StepTimeOptions options;
  constexpr long gradients = Weights<Net>::table.parameter_floats;
  std::vector<float> from(1 << 24, 1.0f), to(1 << 24);
  double copy = 1e30, small = 1e30, large = 1e30;
  for (int round = 0; round < 10; ++round)
    copy = std::min(copy, seconds_of([&] { std::memcpy(to.data(), from.data(), from.size() * sizeof(float)); }));
  on_two_threads([&](ThreadTransport& transport) {
    std::vector<float> data(static_cast<std::size_t>(gradients));
    const auto quickest = [&](long floats, long of_message, int rounds) {
      double best = 1e30;
      for (int round = 0; round < rounds; ++round)
        best = std::min(
            best, seconds_of([&] {
              for (long first = 0; first < floats; first += of_message)
                all_reduce(transport, data.data() + first, std::min(of_message, floats - first), {"sum", 0, round});
            }));
      return best;
    };
    const double one = quickest(1, 1, 50'000), all = quickest(gradients, 1 << 20, gradients > 1 << 20 ? 30 : 300);
    if (transport.rank() == 0) small = one, large = all;
  });
  options.machine.bytes_per_second = 2 * static_cast<double>(from.size()) * sizeof(float) / copy;
  options.inside = {small, static_cast<double>(gradients) * sizeof(float) / large};  // (n-1)/n · m, there and back
  options.link = options.inside;
  // Two threads that compute and two that communicate.
  options.core_share = available_processors() < 4 ? 1 : 0;
  // A queue's thread that has slept, and the one that has waited for it meanwhile.
  DeviceQueue queue{{.tasks = 1, .spins = 0}};
  options.waking = 1e30;
  for (int round = 0; round < 2000; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    const auto submitted = std::chrono::steady_clock::now();
    double waking = 0;
    queue.submit([&] { waking = std::chrono::duration<double>(std::chrono::steady_clock::now() - submitted).count(); });
    queue.synchronize();
    options.waking = std::min(options.waking, waking);
  }
  std::fprintf(stderr, "waking %.1f us, a message %.2f us, %.1f GB/s, copying %.1f GB/s\n", 1e6 * options.waking,
               1e6 * options.inside.latency, 1e-9 * options.inside.bytes_per_second,
               1e-9 * options.machine.bytes_per_second);
  return options;
}

bool is_first = true;
void report(const std::string& name, double predicted, double measured) {
  std::printf("%s\"%s\": {\"predicted\": %.9f, \"measured\": %.9f}", is_first ? "{" : ", ", name.c_str(), predicted,
              measured);
  is_first = false;
}

/// All in turns, as what else the machine does changes, for half a minute at a time; the quickest of each.
template <class Net, template <class...> class Of = Rank>
void compare(const std::string& network, int batch, int steps, StepTimeOptions options) {
  options.batch_of_worker = batch;
  struct Times {
    double predicted = 1e30, measured = 1e30;
  };
  std::array<Times, 4> quickest;
  const auto of = [&]<class Real, class Predicted>(Times& times, std::type_identity<Real>,
                                                   std::type_identity<Predicted>) {
    StepTimeOptions here = options;
    here.workers = Predicted::Chosen::has_ranks ? 2 : 0;
    here.seconds_of_steps = measured_on_this_machine<Real>(steps);
    times.predicted = std::min(times.predicted, predict_step_time<Predicted>(here).step);
    times.measured = std::min(times.measured, measured<Real>(batch, steps));
  };
  const auto same = [&]<class Real>(Times& times, std::type_identity<Real> real) { of(times, real, real); };
  for (int round = 0; round < 6; ++round) {
    same(quickest[0], std::type_identity<Rank<Net>>{});
    same(quickest[1], std::type_identity<Rank<Net, DataParallel<2>>>{});
    same(quickest[2], std::type_identity<Rank<Net, DataParallel<2>, Ring>>{});
    of(quickest[3], std::type_identity<Rank<Net, Distributed<Threads>>>{},
       std::type_identity<Rank<Net, Distributed<Imagined>>>{});
  }
  const char* const policies[]{"Single", "DataParallel<2>", "DataParallel<2>, Ring", "Distributed, AllReduce"};
  for (std::size_t i = 0; i < quickest.size(); ++i)
    report(network + ", " + policies[i], quickest[i].predicted, quickest[i].measured);
}

struct Small : Sequential<Linear<32, 64>, ReLU, Linear<64, 64>, ReLU, Linear<64, 10>> {};

/// What `ours_staleness` measures: four ranks, 3 ms a step, in each step another one three times slower; seconds of 200
/// steps over those of bulk-synchronous ones.
void staleness(StepTimeOptions options) {
  const auto seconds = [&]<class Consistency>(std::type_identity<Consistency>) {
    using Predicted = Trainer<Small, CrossEntropy, Sgd, Features<32>, Cpu<0, 1>, Distributed<Imagined>,
                              ParameterServer<Sharded, Consistency>>;
    options.workers = 4;
    options.core_share = 0;  // they sleep instead of computing
    options.batch_of_worker = 4;
    options.seconds_of_steps = [](int) {  // slept, before the first one
      std::vector<double> steps = seconds_of_steps<typename Predicted::Training>(Machine{}, 4);
      steps[0] += 3e-3;
      return steps;
    };
    options.slowness = slow_in_turns(4, 3);
    options.steps = 200;
    return predict_step_time<Predicted>(options).step;
  };
  const double rounds = seconds(std::type_identity<BulkSynchronous>{});
  std::printf(", \"slow in turns\": {\"bounded\": %.6f, \"asynchronous\": %.6f}",
              rounds / seconds(std::type_identity<BoundedStaleness<8>>{}),
              rounds / seconds(std::type_identity<Asynchronous>{}));
}

/// Seconds that predicting a step of 16,384 ranks takes, the least of three times.
template <class... Policies>
double seconds_of_predicting() {
  using Predicted = Rank<LeNet, Distributed<Imagined>, Policies...>;
  double best = 1e30;
  for (int time = 0; time < 3; ++time) {
    const auto begin = std::chrono::steady_clock::now();
    const double step = predict_step_time<Predicted>({.workers = 16384, .batch_of_worker = 32}).step;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (step > 0) best = std::min(best, seconds.count());
  }
  return best;
}
void many_ranks() {
  std::printf(", \"16,384 workers\": {\"Ring\": %.4f, \"AllReduce\": %.4f}", seconds_of_predicting<Ring>(),
              seconds_of_predicting<AllReduce>());
}

}  // namespace

/// program [NETWORK]: one of them, or all.
int main(int argc, char** argv) {
  const auto is_wanted = [&](const char* network) { return argc < 2 || std::strcmp(argv[1], network) == 0; };
  const StepTimeOptions options = constants<LeNet>();
  if (is_wanted("LeNet")) {
    compare<LeNet>("LeNet, batch 32", 32, 300, options);
    compare<LeNet>("LeNet, batch 128", 128, 100, options);
  }
  if (is_wanted("ResNet-18")) compare<ResNet18<>>("ResNet-18, batch 16", 16, 4, constants<ResNet18<>>());
  staleness(options);
  many_ranks();
  std::printf("}\n");
}
