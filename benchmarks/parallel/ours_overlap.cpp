// How much of the communication hides behind the backward pass where the link is slow: trainings of two ranks, threads
// of one core each, whose messages take as long as over a link of 1 Gbit/s and 50 us. Prints, by case, the seconds of a
// step: without that link and with it; what the ranks' messages take on it; and what of that the plan of buckets allows
// to be hidden, where the program's steps take what they take on one core.
#include <sys/prctl.h>

#include <tenet/comm/collective_time.hpp>
#include <tenet/comm/thread_transport.hpp>
#include <tenet/exec/step_work.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/tenet.hpp>
#include <thread>

#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"

using namespace tenet;
using Clock = std::chrono::steady_clock;

namespace {

constexpr SimulatedLink slow_link{.latency = 5e-5, .bytes_per_second = 1.25e8};

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
  std::nth_element(late.begin(), late.begin() + late.size() / 2, late.end());
  return late[late.size() / 2];
}

Clock::duration late{};  // measured before anything trains

/// Messages between threads that come as late as over a link. Whoever waits sleeps: the link takes no core from anyone.
class SlowTransport : public ThreadTransport {
 public:
  SlowTransport(ThreadNetwork& network, int rank, bool is_slow) : ThreadTransport(network, rank), is_slow_(is_slow) {}

  template <class Use>
  void receive(int from, long floats, MessageLabel label, Use&& use) {
    take(floats, [&] { ThreadTransport::receive(from, floats, label, use); });
  }
  void receive_into(int from, float* to, long floats, MessageLabel label) {
    take(floats, [&] { ThreadTransport::receive_into(from, to, floats, label); });
  }

 private:
  template <class Receive>
  void take(long floats, Receive receive) {
    if (!is_slow_) return receive();
    const auto seconds = std::chrono::duration<double>(slow_link.latency + slow_link.busy(floats));
    sleep_until(Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds) - late);
    receive();  // the sender has begun as early as this one, as a rule: it has the same to do
  }

  bool is_slow_;
};

struct World {
  inline static thread_local ThreadNetwork* network = nullptr;
  inline static thread_local int rank = 0;
  inline static thread_local bool is_slow = false;
  static SlowTransport connect() { return SlowTransport(*network, rank, is_slow); }
};

/// The quickest of some steps of rank 0.
template <class Trainer>
double seconds_of_step(int batch, int steps, bool is_slow) {
  ThreadNetwork network(2);
  double best = 1e30;
  const auto run = [&](int rank) {
    keep_to_part(rank, 2);
    World::network = &network;
    World::rank = rank;
    World::is_slow = is_slow;
    Trainer trainer{{.learning_rate = 1e-6f}};
    const std::vector<float> inputs(static_cast<std::size_t>(batch) * 784, 0.1f);
    const std::vector<std::int32_t> targets(static_cast<std::size_t>(batch));
    for (int step = 0; step < steps; ++step) {
      const auto begin = Clock::now();
      trainer.step(inputs.data(), targets.data(), batch);
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      if (rank == 0 && step > 0) best = std::min(best, seconds);
    }
  };
  std::thread other(run, 1);
  std::thread(run, 0).join();
  other.join();
  return best;
}

template <class Net, class Buckets>
void report(const char* name, int batch, int steps, bool is_last) {
  using Rank = Trainer<Net, CrossEntropy, PlainSgd, Image<1, 28, 28>, Cpu<0, 1>, Distributed<World>, Ring, Buckets>;
  using Program = typename Rank::Training;
  using Exchange = GradientExchange<Program, Ring, Buckets::bucket_bytes, SlowTransport>;
  static constexpr auto& plan = Exchange::plan;
  double fast = 1e30, slow = 1e30;
  std::vector<double> seconds;
  for (int round = 0; round < 3; ++round) {
    fast = std::min(fast, seconds_of_step<Rank>(batch, steps, false));
    slow = std::min(slow, seconds_of_step<Rank>(batch, steps, true));
    const std::vector<double> found = measured_seconds_of_steps<Cpu<0, 1>, Program>(batch, steps);
    if (seconds.empty()) seconds = found;
    for (std::size_t s = 0; s < seconds.size(); ++s) seconds[s] = std::min(seconds[s], found[s]);
  }
  double alone = 0;
  for (const double each : seconds) alone += each;
  const auto until = [&](int step) {  // two at the same time take longer
    double sum = 0;
    for (int s = 0; s < step; ++s) sum += seconds[static_cast<std::size_t>(s)];
    return sum * fast / alone;
  };
  // What leaves goes one after the other, results and running statistics before a bucket; then each bucket is updated,
  // while others are still on their way.
  const double pass = until(Program::lowered.first_update), update = fast - pass;
  double messages = 0, link = 0, device = pass;
  for (int b = 0; b < plan.count; ++b) {
    const Bucket& bucket = plan.buckets[static_cast<std::size_t>(b)];
    double own = seconds_by_ring(2, bucket.floats, slow_link);
    if (b == Exchange::results_leave) own += seconds_by_ring(2, Program::result_count, slow_link);
    if (Program::writes_buffers && b == Exchange::statistics_leave)
      own += slow_link.latency + slow_link.busy(Program::slots.buffer_floats);
    messages += own;
    link = std::max(link, until(bucket.ready)) + own;
    device = std::max(device, link) +
             update * static_cast<double>(bucket.floats) / static_cast<double>(Program::slots.parameter_floats);
  }
  std::printf("\"%s, %d samples\": {\"fast\": %.6f, \"slow\": %.6f, \"communicating\": %.6f, \"allowed\": %.6f}%s",
              name, batch, fast, slow, messages, messages - (device - fast), is_last ? "" : ", ");
}

}  // namespace

int main() {
  late = lateness();
  std::printf("{");
  report<LeNet, BucketBytes<32768>>("LeNet", 256, 60, false);
  report<LeNet, BucketBytes<32768>>("LeNet", 512, 40, false);
  report<ResNet18<>, BucketBytes<1 << 20>>("ResNet-18", 16, 6, false);
  report<ResNet18<>, BucketBytes<1 << 20>>("ResNet-18", 32, 4, true);
  std::printf("}\n");
}
