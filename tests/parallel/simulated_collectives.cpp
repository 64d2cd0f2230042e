#include "tenet/parallel/simulated_collectives.hpp"

#include <catch2/catch.hpp>
#include <tenet/comm/simulated_transport.hpp>

using namespace tenet;

namespace {

constexpr SimulatedLink ethernet{.latency = 2e-5, .bytes_per_second = 1.25e9};

/// Eight buckets of 1 MiB, one every 2.5 ms.
SimulatedTraining eight_buckets(int ranks) {
  SimulatedTraining training;
  training.ranks = ranks;
  training.link = ethernet;
  training.exchange = SimulatedTraining::Exchange::buckets;
  training.pass = 8 * 2.5e-3;
  for (int b = 0; b < 8; ++b) training.buckets.push_back({1 << 18, (b + 1) * 2.5e-3, 0});
  return training;
}

/// The same with threads and numbers.
double with_numbers(int ranks) {
  SimulatedNetwork network(ranks, {.link = ethernet});
  return network.run([](SimulatedTransport& transport) {
    std::vector<float> gradients(1 << 18);
    for (int bucket = 0; bucket < 8; ++bucket) {
      const double complete = (bucket + 1) * 2.5e-3;
      if (transport.now() < complete) transport.compute(complete - transport.now());
      all_reduce(transport, gradients.data(), 1 << 18, {"bucket", bucket, 1});
    }
  });
}

}  // namespace

TEST_CASE("buckets that hide behind the backward pass take what they take on a simulated network",
          "[simulated_collectives]") {
  for (const int ranks : {1, 2, 3, 8}) {
    CAPTURE(ranks);
    const SimulatedSteps steps = simulate(eight_buckets(ranks), 1);
    double last = 0;
    for (int rank = 0; rank < ranks; ++rank) last = std::max(last, steps.end(rank, 0));
    CHECK(last == Approx(with_numbers(ranks)).epsilon(1e-14));
  }
  CHECK(simulate(eight_buckets(8), 1).end(0, 0) == Approx(0.0216).epsilon(1e-3));
}

TEST_CASE("a communication thread that sleeps has to wake", "[simulated_collectives]") {
  SimulatedTraining training = eight_buckets(2);
  const double awake = simulate(training, 1).end(0, 0);
  training.waking = 1e-4;  // each bucket has been sent before the next one is there
  CHECK(simulate(training, 1).end(0, 0) == Approx(awake + 1e-4).epsilon(1e-12));
  training.counts_during = true;
  training.pass = 0;
  for (SimulatedBucket& bucket : training.buckets) bucket.ready = 0;  // it does not sleep in between
  const double busy = simulate(training, 1).end(0, 0);
  training.waking = 0;
  CHECK(busy == Approx(simulate(training, 1).end(0, 0) + 1e-4).epsilon(1e-12));
  // A single bucket is sent by the thread that computes.
  training = eight_buckets(2);
  training.buckets.erase(training.buckets.begin(), training.buckets.end() - 1);
  const double single = simulate(training, 1).end(0, 0);
  training.waking = 1e-4;
  CHECK(simulate(training, 1).end(0, 0) == single);
}

TEST_CASE("messages that a core copies hold up what it computes", "[simulated_collectives]") {
  // In a ring of two ranks each sends half of a bucket's numbers twice: two of them take 1 s each way.
  SimulatedTraining training;
  training.ranks = 2;
  training.link = {.latency = 0, .bytes_per_second = 4};
  training.by_ring = true;
  training.exchange = SimulatedTraining::Exchange::buckets;
  const auto end = [&](double pass, std::vector<double> ready, double share) {
    training.pass = pass;
    training.core_share = share;
    training.buckets.clear();
    for (const double seconds : ready) training.buckets.push_back({2, seconds, 0});
    const SimulatedSteps steps = simulate(training, 1);
    CHECK(steps.end(1, 0) == steps.end(0, 0));
    return steps.end(0, 0);
  };
  const double each = end(0, {0}, 0);  // a bucket by itself
  CHECK(each == Approx(2));
  for (const double share : {0.0, 0.25, 1.0}) {
    CAPTURE(share);
    CHECK(end(20, {1, 10}, share) == Approx(20 + 2 * share * each));  // both beside the pass, which takes longer
    CHECK(end(5, {5}, share) == Approx(5 + each));                    // behind it
    CHECK(end(20, {5, 5}, share) == Approx(20 + 2 * share * each));   // one after the other
  }
  // The pass ends while messages are under way: its last half second goes at half the speed.
  CHECK(end(5, {4.5}, 0.5) == Approx(6.5));
  CHECK(end(5, {4.5, 5}, 0.5) == Approx(8.5));
  CHECK(end(5, {4.5}, 1) == Approx(7));  // it stands still until they are there
}

TEST_CASE("a device updates buckets that have come while others are on their way", "[simulated_collectives]") {
  SimulatedTraining training = eight_buckets(2);
  for (SimulatedBucket& bucket : training.buckets) bucket.ready = training.pass;
  const double bucket = ethernet.latency + ethernet.busy(1 << 18);  // by doubling
  CHECK(simulate(training, 1).end(0, 0) == Approx(training.pass + 8 * bucket));
  const auto end = [&](double update) {
    training.update_of_float = update / (1 << 18);
    return simulate(training, 1).end(0, 0);
  };
  CHECK(end(bucket / 2) == Approx(training.pass + 8 * bucket + bucket / 2));  // that of the last one is seen
  CHECK(end(3 * bucket) == Approx(training.pass + bucket + 8 * 3 * bucket));  // the first bucket is
  CHECK(simulate(training, 1).computing == Approx(2 * (training.pass + 8 * 3 * bucket)));
  training.buckets.insert(training.buckets.begin(), {8, training.pass, 0, SimulatedBucket::Kind::broadcast});
  CHECK(simulate(training, 1).end(1, 0) ==
        Approx(training.pass + ethernet.latency + ethernet.busy(8) + bucket + 8 * 3 * bucket).epsilon(1e-3));
}

TEST_CASE("a step that leaves buckets to the next one ends with its pass, and the next one waits for what it needs",
          "[simulated_collectives]") {
  SimulatedTraining training;
  training.ranks = 2;
  training.link = {.latency = 0, .bytes_per_second = 4};  // by doubling a number takes a second
  training.exchange = SimulatedTraining::Exchange::buckets;
  training.pass = 10;
  training.updates_late = true;
  training.update_of_float = 0.5;
  using Kind = SimulatedBucket::Kind;
  training.buckets = {{1, 3, 0, Kind::sum}, {6, 5, 0, Kind::gradients, 2}, {4, 10, 0, Kind::gradients, 0}};
  const SimulatedSteps steps = simulate(training, 3);
  CHECK(steps.end(0, 0) == Approx(10));
  // The last bucket, which the pass needs first, comes at 15 and is updated in 2 s; while the pass waits for it, it
  // updates the other one, from 11 to 14. Then it takes 10.
  CHECK(steps.end(0, 1) == Approx(15 + 2 + 10));
  // Those of the second step come at 28 and at 32.
  CHECK(steps.end(0, 2) == Approx(32 + 2 + 10));
  CHECK(steps.computing == Approx(2 * 3 * (10 + 5)));
  // Needed first, sent first: behind 14 s it has come, and the other one at 20, 2 s before it is needed at 18.
  training.buckets = {{1, 3, 0, Kind::sum}, {4, 10, 0, Kind::gradients, 0}, {6, 10, 0, Kind::gradients, 2}};
  CHECK(simulate(training, 2).end(1, 1) == Approx(14 + 2 + 2 + 2 + 3 + 8));
  // Results that come late end a step late.
  training.buckets[0] = {5, 9, 0, Kind::sum};
  CHECK(simulate(training, 1).end(1, 0) == Approx(14));
  // A core that copies does so in the next pass, too: 10 s of messages, at half the speed.
  training.buckets = {{10, 10, 0, Kind::gradients, 9}};
  training.core_share = 0.5;
  training.update_of_float = 0;
  CHECK(simulate(training, 2).end(0, 0) == Approx(10));
  CHECK(simulate(training, 2).end(0, 1) == Approx(10 + 5 + 10));
}

TEST_CASE("ranks that are not equally quick wait for the slowest at every exchange", "[simulated_collectives]") {
  SimulatedTraining training = eight_buckets(4);
  training.slowness = [](int device, long step) { return device == 2 && step > 0 ? 2.0 : 1.0; };
  const SimulatedSteps steps = simulate(training, 3);
  const double usual = simulate(eight_buckets(4), 1).end(0, 0);
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(steps.end(rank, 0) == Approx(usual).epsilon(1e-4));
    CHECK(steps.end(rank, 1) - steps.end(rank, 0) == Approx(usual + 8 * 2.5e-3).epsilon(1e-3));
  }
}

TEST_CASE("a rank's bucket is there when the last of its replicas has computed it", "[simulated_collectives]") {
  SimulatedTraining training = eight_buckets(2);
  training.replicas = 2;
  training.behind = 1e-3;
  training.meeting = 1e-6;
  training.slowness = [](int device, long) { return device == 3 ? 3.0 : 1.0; };
  const SimulatedSteps steps = simulate(training, 1);
  const double last_bucket = simulate(eight_buckets(2), 1).end(0, 0) - 8 * 2.5e-3;
  CHECK(steps.end(0, 0) == Approx(3 * 8 * 2.5e-3 + last_bucket + 1e-3 + 2e-6).epsilon(1e-6));
  CHECK(steps.end(1, 0) == Approx(3 * 8 * 2.5e-3 + last_bucket + 3e-3 + 2e-6).epsilon(1e-6));
  CHECK(steps.computing == Approx((8 * 2.5e-3 + 1e-3) * (1 + 2)));  // of a rank the mean of its devices
}

TEST_CASE("local SGD exchanges all parameters after some steps", "[simulated_collectives]") {
  SimulatedTraining training;
  training.ranks = 4;
  training.link = ethernet;
  training.exchange = SimulatedTraining::Exchange::parameters;
  training.parameter_floats = 1 << 20;
  training.steps_alone = 3;
  training.pass = 1e-3;
  const SimulatedSteps steps = simulate(training, 6);
  const double exchange = 4 * ethernet.latency + 2 * 0.75 * ethernet.busy(1 << 20);
  CHECK(steps.end(0, 1) == Approx(2e-3));
  CHECK(steps.end(0, 2) == Approx(3e-3 + exchange));
  CHECK(steps.end(3, 5) == Approx(6e-3 + 2 * exchange));
  CHECK(4 / steps.rate(3) == Approx(1e-3 + exchange / 3));
}

TEST_CASE("machines by themselves exchange buckets, and all ranks parameters after some steps",
          "[simulated_collectives]") {
  SimulatedTraining training = eight_buckets(4);
  training.exchange = SimulatedTraining::Exchange::both;
  training.inside = {.latency = 1e-6, .bytes_per_second = 1e10};
  training.ranks_of_machine = 2;
  training.steps_alone = 3;
  training.parameter_floats = 8 << 18;
  SimulatedTraining machine = eight_buckets(2);
  machine.link = training.inside;
  const double alone = simulate(machine, 1).end(0, 0);
  RankTimes times = training.times();
  time_all_reduce(times, training.parameter_floats);
  const SimulatedSteps steps = simulate(training, 6);
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(steps.end(rank, 0) == Approx(alone).epsilon(1e-12));
    CHECK(steps.end(rank, 1) == Approx(2 * alone).epsilon(1e-12));
    CHECK(steps.end(rank, 2) == Approx(3 * alone + times.last()).epsilon(1e-12));
    CHECK(steps.end(rank, 5) == Approx(2 * steps.end(rank, 2)).epsilon(1e-12));
  }
  // A core that copies is free of it when all have met: each step is like the first one.
  SimulatedTraining late = training;
  late.updates_late = true;
  late.core_share = 0.5;
  late.steps_alone = 1;
  const SimulatedSteps met = simulate(late, 2);
  CHECK(met.end(0, 1) == Approx(2 * met.end(0, 0)).epsilon(1e-12));
  late.steps_alone = 2;
  CHECK(simulate(late, 2).end(0, 0) < met.end(0, 0));
  // On one machine there is no mean to be taken; alone on one there is nothing else.
  training.ranks_of_machine = 4;
  SimulatedTraining together = eight_buckets(4);
  together.link = training.inside;
  CHECK(simulate(training, 3).end(0, 2) == Approx(simulate(together, 3).end(0, 2)).epsilon(1e-12));
  training.ranks_of_machine = 1;
  RankTimes flat = training.times();
  time_all_reduce(flat, training.parameter_floats);
  CHECK(simulate(training, 2).end(0, 1) == Approx(2 * training.pass).epsilon(1e-12));
  CHECK(simulate(training, 3).end(0, 2) == Approx(3 * training.pass + flat.last()).epsilon(1e-12));
}
