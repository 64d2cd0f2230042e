#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <tenet/comm/thread_transport.hpp>
#include <tenet/core/doorbell.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/key_value_store.hpp>
#include <tenet/parallel/relaxed_access.hpp>
#include <tenet/parallel/step_time.hpp>
#include <tenet/tenet.hpp>
#include <thread>

/// Predicted beside measured step times of two workers on this machine. A program prints
/// {"NETWORK, POLICIES": {"predicted": seconds, "measured": seconds}, …}.
namespace prediction {

using namespace tenet;

inline double seconds_of(auto call) {
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
template <class Trainer>
struct Samples {
  explicit Samples(int count)
      : inputs(static_cast<std::size_t>(Trainer::Input::size) * static_cast<std::size_t>(count)),
        targets(static_cast<std::size_t>(count)) {
    Random random(1);
    for (float& x : inputs) x = random.uniform(-1, 1);
    for (std::int32_t& target : targets) target = static_cast<std::int32_t>(random.below(10));
  }
  std::vector<float> inputs;
  std::vector<std::int32_t> targets;
};

/// Calls body(transport) on one or two threads; of two each is kept to its half of the processors: with its
/// communication thread.
template <class Body>
void on_threads(int count, Body body) {
  ThreadNetwork network(count, std::chrono::minutes(1));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      if (count > 1) keep_to_part(rank, count);
      ThreadTransport transport(network, rank);
      Threads::own = &transport;
      body(transport);
    });
  for (std::thread& thread : threads) thread.join();
}

/// Seconds of a step: the quickest of some windows of `window` steps each; of two ranks those of the first, while the
/// other one has steps to take, too.
template <class Trainer>
double measured(int batch, int steps, int window) {
  constexpr bool has_ranks = Trainer::Chosen::has_ranks;
  constexpr int replicas = Trainer::Chosen::Strategy::replicas;
  double best = 1e30;
  std::array<std::atomic<int>, 2> taken{};
  const auto run = [&](int rank, int ranks) {
    const int samples = batch * replicas, windows = (steps + window - 1) / window;
    Trainer trainer{{.learning_rate = 1e-4f}};  // parameters change in each step: Hogwild writes no others
    const Samples<Trainer> given(samples);
    for (int number = 0; number < windows; ++number) {
      const double seconds = seconds_of([&] {
        for (int step = 0; step < window; ++step) trainer.step(given.inputs.data(), given.targets.data(), samples);
      });
      taken[static_cast<std::size_t>(rank)] = number + 1;
      const bool is_alone = ranks == 2 && taken[static_cast<std::size_t>(1 - rank)] == windows && number + 1 < windows;
      if (rank == 0 && number > 0 && !is_alone) best = std::min(best, seconds / window);
    }
    if constexpr (requires { trainer.synchronize(); }) trainer.synchronize();
  };
  if constexpr (has_ranks)
    on_threads(2 / replicas, [&](ThreadTransport& transport) { run(transport.rank(), transport.size()); });
  else
    run(0, 1);
  return best;
}

/// How fast numbers are read and written that others may write meanwhile, of as many as there are; some do not change,
/// as some gradients of a network are nought.
inline double shared_bytes_per_second(std::vector<float> shared) {
  std::vector<float> before(shared.size()), now(shared.size());
  const auto count = static_cast<long>(shared.size());
  double seconds = 1e30;
  for (int round = 0; round < 1000; ++round) {
    const double load = seconds_of([&] { RelaxedAccess::load(shared.data(), before.data(), count); });
    for (std::size_t i = 0; i < now.size(); ++i) now[i] = before[i] + (i % 10 == 0 ? 0.0f : 1.0f);
    seconds = std::min(
        seconds, load + seconds_of([&] { RelaxedAccess::store(before.data(), now.data(), shared.data(), count); }));
  }
  return 2 * static_cast<double>(count) * sizeof(float) / seconds;
}

/// What it takes to wake a thread that sleeps at a doorbell.
inline double seconds_of_ringing() {
  Doorbell doorbell;
  doorbell.open();
  std::atomic<int> awake{0};
  constexpr int rounds = 500;
  std::thread sleeper([&] {
    for (int round = 0; round < rounds; ++round) {
      doorbell.sleep_unless([] { return false; }, std::chrono::milliseconds(20));
      ++awake;
    }
  });
  double best = 1e30;
  for (int round = 0; round < rounds; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    best = std::min(best, seconds_of([&] { doorbell.ring(); }));
    wait_until([&] { return awake > round; }, std::chrono::seconds(1));
  }
  sleeper.join();
  return best;
}

/// How fast a core copies, and what messages between two threads take, of as many gradients as a network has: those of
/// a small one are in a cache when they are added up, those of a large one in none when they are sent.
template <class Net>
StepTimeOptions constants() {
  StepTimeOptions options;
  constexpr long gradients = Weights<Net>::table.parameter_floats;
  std::vector<float> from(static_cast<std::size_t>(gradients), 1.0f), to(from.size());
  double copy = 1e30, small = 1e30, large = 1e30;
  for (int round = 0; round < (gradients > 1 << 20 ? 10 : 1000); ++round)
    copy = std::min(copy, seconds_of([&] { std::memcpy(to.data(), from.data(), from.size() * sizeof(float)); }));
  if constexpr (gradients < 1 << 20) options.shared_bytes_per_second = shared_bytes_per_second(from);
  on_threads(2, [&](ThreadTransport& transport) {
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
  // A push to a server in the same thread: there, and the answer.
  on_threads(1, [&](ThreadTransport& transport) {
    KeyValueStore store(transport, {.consistency = Consistency::asynchronous()});
    float number = 1;
    store.assign(0, {&number, 1}).wait();
    options.handling = 1e30;
    for (int round = 0; round < 2000; ++round)
      options.handling = std::min(options.handling, seconds_of([&] {
                                                      store.push(0, {&number, 1}, {.wakes = false}).wait();
                                                    }) / 2);
  });
  options.ringing = seconds_of_ringing();
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
  std::fprintf(stderr,
               "waking %.1f us, a message %.2f us, of a store %.2f us, ringing %.2f us, %.1f GB/s, copying %.1f GB/s\n",
               1e6 * options.waking, 1e6 * options.inside.latency, 1e6 * options.handling, 1e6 * options.ringing,
               1e-9 * options.inside.bytes_per_second, 1e-9 * options.machine.bytes_per_second);
  return options;
}

inline void report(const std::string& name, double predicted, double measured) {
  static bool is_first = true;
  std::printf("%s\"%s\": {\"predicted\": %.9f, \"measured\": %.9f}", is_first ? "{" : ", ", name.c_str(), predicted,
              measured);
  is_first = false;
}

/// A trainer's policies, with what they are called; `Imagined` where ranks are asked for their time only, or the same.
template <class Real_, class Predicted_ = Real_>
struct Policy {
  using Real = Real_;
  using Predicted = Predicted_;
  const char* name;
  int window = 1;  ///< steps that are measured together
};

/// All in turns, as what else the machine does changes, for half a minute at a time; the quickest of each.
template <class... Policies>
void compare(const std::string& network, int batch, int steps, int rounds, StepTimeOptions options,
             const Policies&... policies) {
  options.batch_of_worker = batch;
  struct Times {
    double predicted = 1e30, measured = 1e30;
  };
  std::array<Times, sizeof...(policies)> quickest;
  const auto take = [&]<class Real, class Predicted>(const Policy<Real, Predicted>& policy, Times& times) {
    StepTimeOptions here = options;
    here.workers = Predicted::Chosen::has_ranks ? 2 : 0;
    here.seconds_of_steps = measured_on_this_machine<Real>(steps);
    times.predicted = std::min(times.predicted, predict_step_time<Predicted>(here).step);
    times.measured = std::min(times.measured, measured<Real>(batch, steps, policy.window));
  };
  for (int round = 0; round < rounds; ++round) {
    std::size_t i = 0;
    (take(policies, quickest[i++]), ...);
  }
  std::size_t i = 0;
  const auto show = [&](const char* name) {
    report(network + ", " + name, quickest[i].predicted, quickest[i].measured);
    ++i;
  };
  (show(policies.name), ...);
}

}  // namespace prediction
