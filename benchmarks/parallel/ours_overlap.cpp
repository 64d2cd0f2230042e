// How much of the communication hides behind the backward pass where the link is slow: trainings of two ranks, threads
// of one core each, whose messages take as long as over a link of 1 Gbit/s and 50 us. Prints, by case, the seconds of a
// step: without that link and with it; what the link's timers take from a step; what the ranks' messages take on the
// link; and what of that the plan of buckets allows to be hidden, where the program's steps take what they take on one
// core.
//
// The link adds some tenths of a millisecond to a step of several, and a machine that others share is a tenth quicker
// or slower from one second to the next. So steps with and without the link stand beside each other in an order that is
// drawn, and what the link adds is the median of their differences. A message comes when its thread has slept for as
// long as it takes. That timer is no part of a link, but takes 20 to 35 us of the core from whoever computes there on a
// virtual machine. So as many threads sleep as long in steps without the link, and nobody waits for them; steps in
// which nobody sleeps tell what that takes.
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <tenet/comm/collective_time.hpp>
#include <tenet/comm/thread_transport.hpp>
#include <tenet/exec/step_work.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/tenet.hpp>
#include <thread>

#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"
#include "median.hpp"

using namespace tenet;
using Clock = std::chrono::steady_clock;

namespace {

constexpr SimulatedLink slow_link{.latency = 5e-5, .bytes_per_second = 1.25e8};
/// What ranks choose their messages by: that link, and sums of what another core has written.
constexpr LinkCost slow_cost{slow_link.latency, sizeof(float) / slow_link.bytes_per_second, 4e-10};

/// Sleeps like a message's. A timer of the kernel needs not be 50 us late, as is usual.
void sleep_until(Clock::time_point moment) {
  [[maybe_unused]] thread_local const int wakes_in_time = prctl(PR_SET_TIMERSLACK, 1);
  std::this_thread::sleep_until(moment);
}

/// By how much a thread is late that has slept until a moment, where another one computes on its core: the median. On
/// a virtual machine that is 15 us, which are no part of a link.
Clock::duration lateness() {
  std::vector<Clock::duration> late(200);
  std::atomic<bool> is_over{false};
  std::thread([&] {
    keep_to_part(0, available_processors());
    std::thread computes([&] {
      while (!is_over.load(std::memory_order_relaxed)) tenet::pause();
    });
    std::thread sleeps([&] {
      ask_for_short_turns();
      for (Clock::duration& each : late) {
        const auto moment = Clock::now() + std::chrono::microseconds(120);
        sleep_until(moment);
        each = Clock::now() - moment;
      }
    });
    sleeps.join();
    is_over = true;
    computes.join();
  }).join();
  return median(late);
}

Clock::duration late{};  // measured before anything trains

void sleep_for_message(double seconds) {
  sleep_until(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)) -
              late);
}

/// Messages between threads that come as late as over a link. Whoever waits sleeps: the link takes no core from anyone,
/// but for what a timer takes.
class SlowTransport : public ThreadTransport {
 public:
  SlowTransport(ThreadNetwork& network, int rank, const std::atomic<bool>& is_slow)
      : ThreadTransport(network, rank), is_slow_(&is_slow) {}

  LinkCost link() const { return slow_cost; }

  template <class Use>
  void receive(int from, long floats, MessageLabel label, Use&& use) {
    take(floats);
    ThreadTransport::receive(from, floats, label, use);
  }
  void receive_into(int from, float* to, long floats, MessageLabel label) {
    take(floats);
    ThreadTransport::receive_into(from, to, floats, label);
  }

 private:
  /// The sender has begun as early as this one, as a rule: it has the same to do.
  void take(long floats) const {
    if (is_slow_->load(std::memory_order_relaxed)) sleep_for_message(slow_link.latency + slow_link.busy(floats));
  }

  const std::atomic<bool>* is_slow_;
};

struct World {
  inline static thread_local ThreadNetwork* network = nullptr;
  inline static thread_local int rank = 0;
  inline static thread_local std::atomic<bool> is_slow{false};  ///< of the rank's next step
  static SlowTransport connect() { return SlowTransport(*network, rank, is_slow); }
};

/// Sleeps as a step's messages do, on the core of whoever makes it, when it is asked to.
class Sleeper {
 public:
  explicit Sleeper(std::vector<double> messages) : messages_(std::move(messages)), thread_([this] { run(); }) {}
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() {
    is_over_ = true;
    begin();
    thread_.join();
  }
  void begin() {
    ++steps_;
    steps_.notify_one();
  }
  /// Returns when it has slept: its sleeps may be longer than a step.
  void end() const {
    for (int slept; (slept = slept_) != steps_;) slept_.wait(slept);
  }

 private:
  void run() {
    ask_for_short_turns();
    for (int step = 0;; ++step) {
      steps_.wait(step);
      if (is_over_) return;
      for (const double seconds : messages_) sleep_for_message(seconds);
      ++slept_;
      slept_.notify_one();
    }
  }

  std::vector<double> messages_;
  std::atomic<int> steps_{0}, slept_{0};
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

struct Seconds {
  double fast, slow, timers;
};

/// Steps of rank 0 without the link and with it, timers beside both: medians of the former, of what the link adds, and
/// of what the timers do.
template <class Trainer>
Seconds seconds_of_step(int batch, int turns, const std::vector<double>& messages) {
  ThreadNetwork network(2);
  std::vector<double> fast, link, timers;
  const auto run = [&](int rank) {
    keep_to_part(rank, 2);
    World::network = &network;
    World::rank = rank;
    Trainer trainer{{.learning_rate = 1e-6f}};
    Sleeper sleeper(messages);
    const std::vector<float> inputs(static_cast<std::size_t>(batch) * 784, 0.1f);
    const std::vector<std::int32_t> targets(static_cast<std::size_t>(batch));
    enum Kind { slow, beside, alone };
    const auto step = [&](Kind kind) {
      World::is_slow = kind == slow;
      if (kind == beside) sleeper.begin();
      const auto begin = Clock::now();
      trainer.step(inputs.data(), targets.data(), batch);
      trainer.weights();  // with all buckets, which the next step would wait for as it needs them
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      sleeper.end();
      return seconds;
    };
    step(alone);
    std::mt19937 draws(1);  // the same for both ranks
    Kind order[]{slow, beside, alone};
    for (int turn = 0; turn < turns; ++turn) {
      std::shuffle(std::begin(order), std::end(order), draws);
      double seconds[3]{};
      for (const Kind kind : order) seconds[kind] = step(kind);
      if (rank != 0) continue;
      fast.push_back(seconds[beside]);
      link.push_back(seconds[slow] - seconds[beside]);
      timers.push_back(seconds[beside] - seconds[alone]);
    }
  };
  std::thread other(run, 1);
  std::thread(run, 0).join();
  other.join();
  const double seconds = median(fast);
  return {seconds, seconds + median(link), median(timers)};
}

template <class Net, class Buckets>
void report(const char* name, int batch, int turns, bool is_last) {
  using Rank = Trainer<Net, CrossEntropy, PlainSgd, Image<1, 28, 28>, Cpu<0, 1>, Distributed<World>, Buckets>;
  using Program = typename Rank::Training;
  using Exchange = typename Rank::template ExecutionOf<Program>::Exchange;
  static constexpr auto& plan = Exchange::plan;
  // What leaves goes one after the other, results and running statistics before a bucket.
  std::vector<double> messages, of_bucket;
  const auto leaves = [&](double seconds, int count) {
    messages.insert(messages.end(), static_cast<std::size_t>(count), seconds / count);
    of_bucket.back() += seconds;
  };
  const auto leaves_as_sum = [&](long floats) {  // as a whole, or in two halves
    if (AllReduceTimes(2, floats, slow_cost).quickest() == AllReduceWay::doubling)
      leaves(seconds_by_doubling(2, floats, slow_link), 1);
    else
      leaves(seconds_by_halving(2, floats, slow_link), 2);
  };
  for (int b = 0; b < plan.count; ++b) {
    of_bucket.push_back(0);
    if (b == Exchange::results_leave) leaves_as_sum(1 + Program::result_count);  // and the number of samples
    if (Program::writes_buffers && b == Exchange::statistics_leave)
      leaves(slow_link.latency + slow_link.busy(Program::slots.buffer_floats), 1);
    leaves_as_sum(plan.buckets[static_cast<std::size_t>(b)].floats);
  }
  const Seconds found = seconds_of_step<Rank>(batch, turns, messages);
  const std::vector<double> seconds = measured_seconds_of_steps<Cpu<0, 1>, Program>(batch, turns);
  const double alone = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const auto until = [&](int step) {  // two at the same time take longer
    return std::accumulate(seconds.begin(), seconds.begin() + step, 0.0) * found.fast / alone;
  };
  // Each bucket is updated when it has come, while others are still on their way.
  const double pass = until(Program::lowered.first_update), update = found.fast - pass;
  double link = 0, device = pass;
  for (int i = 0; i < plan.count; ++i) {
    const auto b = static_cast<std::size_t>(plan.leaving_at(i));
    const Bucket& bucket = plan.buckets[b];
    // Those behind `in_turn` leave when all are ready.
    const Bucket& last = plan.buckets[static_cast<std::size_t>(i < plan.in_turn ? i : plan.count - 1)];
    link = std::max(link, until(last.ready)) + of_bucket[b];
    device = std::max(device, link) +
             update * static_cast<double>(bucket.floats) / static_cast<double>(Program::slots.parameter_floats);
  }
  const double communicating = std::accumulate(messages.begin(), messages.end(), 0.0);
  std::printf(
      "\"%s, %d samples\": {\"fast\": %.6f, \"slow\": %.6f, \"timers\": %.6f, \"communicating\": %.6f, "
      "\"allowed\": %.6f}%s",
      name, batch, found.fast, found.slow, found.timers, communicating, communicating - (device - found.fast),
      is_last ? "" : ", ");
}

}  // namespace

int main() {
  late = lateness();
  std::printf("{");
  report<LeNet, BucketBytes<65536>>("LeNet", 256, 200, false);
  report<LeNet, BucketBytes<65536>>("LeNet", 512, 120, false);
  report<ResNet18<>, BucketBytes<1 << 20>>("ResNet-18", 16, 16, false);
  report<ResNet18<>, BucketBytes<1 << 20>>("ResNet-18", 32, 12, true);
  std::printf("}\n");
}
