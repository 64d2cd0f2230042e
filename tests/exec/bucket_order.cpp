#include "tenet/exec/bucket_order.hpp"

#include <catch2/catch.hpp>
#include <tenet/exec/step_work.hpp>
#include <tenet/parallel/simulated_collectives.hpp>
#include <tenet/tenet.hpp>

#include "../../examples/models/lenet.hpp"
#include "../support/networks.hpp"

using namespace tenet;

namespace {

template <class Net, class Input>
using StepOf = Program<TrainingProgram<Net, CrossEntropy, Sgd, Input, ReferenceKernels>>;

using Times = detail::BucketTimes<8>;

/// What a pass takes whose buckets leave when they are ready, but for those from `first` on, which leave when all are,
/// in the order in which they are needed: until the next one could have begun.
double seconds_of(const Times& times, int count, int first, double of_size) {
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  double link = 0, seconds = times.pass;
  for (int b = 0; b < first; ++b) {
    link = std::max(link, times.ready[at(b)]) + of_size * times.size[at(b)];
    seconds = std::max(seconds, link - times.needed[at(b)]);
  }
  link = std::max(link, times.ready[at(count - 1)]);
  for (int b = count - 1; b >= first; --b) {
    link += of_size * times.size[at(b)];
    seconds = std::max(seconds, link - times.needed[at(b)]);
  }
  return seconds;
}

struct Deep : Sequential<Linear<256, 256>, ReLU, Linear<256, 256>, ReLU, Linear<256, 256>, ReLU, Linear<256, 256>, ReLU,
                         Linear<256, 256>, ReLU, Linear<256, 10>> {};
struct Wide : Sequential<Linear<784, 256>, ReLU, Linear<256, 128>, ReLU, Linear<128, 10>> {};
struct Images : Sequential<Conv2d<3, 16, 3, Padding<1>>, ReLU, Conv2d<16, 32, 3, Stride<2>>, ReLU,
                           Conv2d<32, 64, 3, Stride<2>>, ReLU, Flatten, Linear<3136, 128>, ReLU, Linear<128, 10>> {};
/// Has a parameter that no step before the first gradient reads.
struct HalfUsed {
  Linear<16, 3> used, unused;
  constexpr auto forward(auto x) const { return used(x); }
};

/// Seconds of each step for so many samples: by the costs that the order goes by, of which a core does 10^10 a second.
template <class P>
std::vector<double> seconds_of_costs(int samples) {
  const auto costs = detail::costs_so_far<P>();
  std::vector<double> seconds;
  for (std::size_t s = 0; s + 1 < costs.size(); ++s)
    seconds.push_back(1e-10 * (costs[s + 1].at(samples) - costs[s].at(samples)));
  return seconds;
}

/// A step of two ranks.
template <class P, class Plan>
SimulatedTraining described(const Plan& plan, const std::vector<double>& seconds, SimulatedLink link, bool is_late) {
  const auto until = [&](int step) {
    double sum = 0;
    for (int s = 0; s < step; ++s) sum += seconds[static_cast<std::size_t>(s)];
    return sum;
  };
  SimulatedTraining training;
  training.ranks = 2;
  training.link = link;
  training.exchange = SimulatedTraining::Exchange::buckets;
  training.pass = until(P::lowered.first_update);
  training.update_of_float = (until(P::lowered.after_update) - training.pass) / P::slots.parameter_floats;
  training.updates_late = is_late;
  for (int b = 0; b < plan.count; ++b) {
    const double ready = until(plan.buckets[static_cast<std::size_t>(b)].ready);
    if (b == plan.first_ready_behind(results_ready<P>))
      training.buckets.push_back({P::result_count + 1, ready, 0, SimulatedBucket::Kind::sum});
    plan.for_each_leaving(b, [&](int leaving) {
      const Bucket& bucket = plan.buckets[static_cast<std::size_t>(leaving)];
      training.buckets.push_back({bucket.floats, ready, 0, SimulatedBucket::Kind::gradients, until(bucket.needed)});
    });
  }
  return training;
}
/// Seconds of a step behind the first ones.
double step_of(const SimulatedTraining& training) { return training.ranks / simulate(training, 12).rate(4); }

/// The part by which steps are shorter, over the link where it is most.
struct Gain {
  double by_both = 0;   ///< than where all buckets are updated before a step ends
  double by_order = 0;  ///< than where the next pass updates buckets that have left when they were ready
};
/// Over links of all speeds no step is longer by more than a part of `loss`.
template <class P>
Gain gain_of(auto seconds_for, double loss) {
  static constexpr auto in_order = plan_exchange<P, false>(4096);
  static constexpr auto when_ready = plan_buckets(P::lowered, P::slots, 4096);
  static_assert(can_update_late<P, false>(in_order));
  Gain gain;
  for (const int samples : {1, 32, 1024})
    for (const double latency : {0.0, 1e-5, 1e-3})
      for (double rate = 1e5; rate < 1e12; rate *= 2) {
        const SimulatedLink link{.latency = latency, .bytes_per_second = rate};
        const std::vector<double> seconds = seconds_for(samples);
        const double before = step_of(described<P>(when_ready, seconds, link, false)),
                     late = step_of(described<P>(when_ready, seconds, link, true)),
                     found = step_of(described<P>(in_order, seconds, link, true));
        CAPTURE(samples, latency, rate);
        CHECK(late <= before * (1 + 1e-9));
        CHECK(found <= before * (1 + loss));
        gain.by_both = std::max(gain.by_both, 1 - found / before);
        gain.by_order = std::max(gain.by_order, 1 - found / late);
      }
  return gain;
}
template <class P>
void check_steps(double least) {
  // The costs that are compared, up to a thousandth; and the simulator's, which are others.
  CHECK(gain_of<P>(seconds_of_costs<P>, 0.001).by_order >= least);
  const Gain gain = gain_of<P>([](int samples) { return seconds_of_steps<P>(Machine{}, samples); }, 0.015);
  CHECK(gain.by_both >= least);
}

}  // namespace

TEST_CASE("the last buckets wait for each other where no pass begins later, whatever the link", "[bucket_order]") {
  Random random(3);
  const auto number = [&] { return static_cast<double>(random.uniform(0, 1)); };
  int waiting = 0, stopped = 0;
  for (int test = 0; test < 500; ++test) {
    const int count = 2 + static_cast<int>(random.below(7));
    Times times;
    times.pass = 1;
    for (int b = 0; b < count; ++b) {
      const auto at = static_cast<std::size_t>(b);
      times.ready[at] = 0.3 + 0.7 * number();
      times.needed[at] = 0.3 * number();
      times.size[at] = number() * number();
    }
    std::sort(times.ready.begin(), times.ready.begin() + count);
    std::sort(times.needed.begin(), times.needed.begin() + count, std::greater<>());
    times.ready[static_cast<std::size_t>(count - 1)] = 1;  // the first layer's is there behind all, and needed at once
    times.needed[static_cast<std::size_t>(count - 1)] = 0;
    const int first = detail::first_that_may_wait(times, count);
    REQUIRE(first >= 0);
    REQUIRE(first < count);
    waiting += count - 1 - first;
    // Links at which two buckets hold up the next pass equally are those where an order can be worse than another.
    std::vector<double> links{0, 1e-3, 1, 1e3};
    double behind_a = 0;
    for (int a = count - 1; a >= 0; --a) {
      behind_a += times.size[static_cast<std::size_t>(a)];
      double behind_b = behind_a;
      links.push_back((1 - times.ready[static_cast<std::size_t>(a)]) / behind_a);
      for (int b = a - 1; b >= 0; --b) {
        behind_b += times.size[static_cast<std::size_t>(b)];
        links.push_back((times.ready[static_cast<std::size_t>(a)] - times.ready[static_cast<std::size_t>(b)]) /
                        (behind_b - behind_a));
      }
    }
    double worst = 0;
    for (const double of_size : links) {
      const double when_ready = seconds_of(times, count, count - 1, of_size);
      CHECK(seconds_of(times, count, first, of_size) <= when_ready + 0.001 + 1e-9);
      if (first > 0) worst = std::max(worst, seconds_of(times, count, first - 1, of_size) - when_ready);
    }
    if (first > 0) CHECK(worst > 0);
    stopped += first > 0;
  }
  CHECK(waiting > 100);
  CHECK(stopped > 100);
}

TEST_CASE("buckets are sent once, and those that wait in the order of need", "[bucket_order]") {
  const auto check = []<class P>(std::type_identity<P>) {
    static constexpr auto plan = plan_exchange<P, false>(1024);
    std::vector<int> sent, needed;
    for (int b = 0; b < plan.count; ++b) {
      plan.for_each_leaving(b, [&](int leaving) {
        CHECK(plan.buckets[static_cast<std::size_t>(leaving)].ready <= plan.buckets[static_cast<std::size_t>(b)].ready);
        sent.push_back(leaving);
      });
      CHECK(static_cast<int>(sent.size()) == (b + 1 < plan.count ? std::min(b + 1, plan.in_turn) : plan.count));
    }
    for (std::size_t i = static_cast<std::size_t>(plan.in_turn); i < sent.size(); ++i)
      needed.push_back(plan.buckets[static_cast<std::size_t>(sent[i])].needed);
    CHECK(std::is_sorted(needed.begin(), needed.end()));
    for (int i = 0; i < plan.count; ++i) CHECK(plan.leaving_at(i) == sent[static_cast<std::size_t>(i)]);
    std::sort(sent.begin(), sent.end());
    for (int b = 0; b < plan.count; ++b) CHECK(sent[static_cast<std::size_t>(b)] == b);
  };
  check(std::type_identity<StepOf<LeNet, Image<1, 28, 28>>>{});
  check(std::type_identity<StepOf<Deep, Features<256>>>{});
  check(std::type_identity<StepOf<Images, Image<3, 32, 32>>>{});
}

TEST_CASE("parameters are updated late where the pass reads them before it writes gradients", "[bucket_order]") {
  using Whole = StepOf<Deep, Features<256>>;
  using Half = StepOf<HalfUsed, Features<16>>;
  STATIC_REQUIRE((can_update_late<Whole, false>(plan_exchange<Whole, false>(4096))));
  STATIC_REQUIRE((!can_update_late<Whole, true>(plan_exchange<Whole, true>(4096))));        // in pieces
  STATIC_REQUIRE((!can_update_late<Whole, false>(plan_exchange<Whole, false>(1L << 40))));  // one bucket
  STATIC_REQUIRE((!can_update_late<Half, false>(plan_exchange<Half, false>(1))));
  using Inside = Program<TrainingProgram<Deep, CrossEntropy, ClipGradNorm<Sgd>, Features<256>, ReferenceKernels>>;
  STATIC_REQUIRE((!can_update_late<Inside, false>(plan_exchange<Inside, false>(4096))));
}

TEST_CASE("a step over a slow link is shorter, and over none longer, where the next pass updates", "[bucket_order]") {
  check_steps<StepOf<Images, Image<3, 32, 32>>>(0.02);
  // Layers of one size are ready too early to wait, and so is LeNet's of most numbers: nothing is gained, or lost.
  check_steps<StepOf<Deep, Features<256>>>(0);
  check_steps<StepOf<Wide, Features<784>>>(0);
  check_steps<StepOf<LeNet, Image<1, 28, 28>>>(0);
}
