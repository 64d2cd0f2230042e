#include "tenet/parallel/simulated_servers.hpp"

#include <catch2/catch.hpp>

#include "../support/message.hpp"

using namespace tenet;

namespace {

constexpr SimulatedLink ethernet{.latency = 1e-4, .bytes_per_second = 1e9};

SimulatedTraining training_of(int ranks, std::vector<long> keys, double pass) {
  SimulatedTraining training;
  training.ranks = ranks;
  training.link = ethernet;
  training.pass = pass;
  for (const long floats : keys) training.buckets.push_back({floats, pass, 0});
  return training;
}

double step_of(const SimulatedTraining& training, const SimulatedServers& servers, int steps = 6) {
  return training.ranks / simulate(training, servers, steps).rate(2);
}

}  // namespace

TEST_CASE("one server takes from and gives to all ranks, one after the other", "[simulated_servers]") {
  constexpr long m = 10'000'000;
  for (const int ranks : {2, 5, 64}) {
    CAPTURE(ranks);
    const double found = step_of(training_of(ranks, {m}, 1e-2), {Consistency::bulk_synchronous(), {0}});
    // Whoever is answered first computes and pushes while the others are still being answered.
    CHECK(found == Approx(1e-2 + ranks * ethernet.busy(m) + 2 * ethernet.latency).epsilon(1e-4));
  }
}

TEST_CASE("the next pass waits for each bucket where it reads it", "[simulated_servers]") {
  // Rank 0 serves, rank 1 asks. The bucket that is read first is ready last, with the end of the pass; b later it is on
  // the server, whose answers take b each and come one after the other: the first 2 a behind the end of the push.
  //
  //   step ends:       push acknowledged             2 a + b + h behind the pass
  //   bucket 1 comes:  2 a + 2 b + h, the next pass begins with it
  //   bucket 0 comes:  2 a + 3 b + h, which the pass reads `needed` after its beginning
  constexpr long m = 1'000'000;
  constexpr double pass = 1e-2;
  const double a = ethernet.latency, h = ethernet.busy(detail::StoreHeader::floats_of),
               b = ethernet.busy(m + detail::StoreHeader::floats_of);
  for (const Consistency consistency :
       {Consistency::bulk_synchronous(), Consistency::asynchronous(), Consistency::bounded_staleness(2)})
    for (const double needed : {0.0, 3e-3, 6e-3, pass}) {
      CAPTURE(consistency.in_rounds, consistency.staleness, needed);
      SimulatedTraining training = training_of(2, {m, m}, pass);
      training.buckets[0].ready = 5e-3;  // it has been pushed when the other one is ready
      training.buckets[0].needed = needed;
      // Without rounds rank 0 does not come to its first push; with a bound it is as quick as rank 1.
      if (consistency.staleness == Consistency::unbounded)
        training.slowness = [](int device, long) { return device == 0 ? 1e3 : 1.0; };
      const SimulatedSteps steps = simulate(training, {consistency, {0}}, 8);
      const double first = 2 * a + 2 * b + h, late = std::max(0.0, b - needed);
      CHECK((steps.end(1, 7) - steps.end(1, 3)) / 4 == Approx(pass + first + late).epsilon(1e-9));
      // A bound keeps the step from ending before what the next one begins with is there.
      const bool is_bounded = consistency.staleness == 2;
      CHECK(steps.end(1, 0) == Approx(pass + (is_bounded ? first : first - b)).epsilon(1e-9));
    }
}

TEST_CASE("means over all ranks come before parameters", "[simulated_servers]") {
  constexpr long m = 1'000'000;
  constexpr double pass = 3e-2;
  SimulatedTraining training = training_of(2, {m, m, m}, pass);
  training.buckets[0].ready = 1e-2;
  training.buckets[1].ready = 2e-2;
  training.result_floats = 1;
  training.buffer_floats = 100;
  const double b = ethernet.busy(m), a = ethernet.latency;
  const auto step = [&] { return 2 / simulate(training, {Consistency::bulk_synchronous(), {0}}, 6).rate(2); };
  // Behind the push of the last bucket come results, whose push and pull go together; running statistics are the third
  // push, and wait for the first one's acknowledgement; then parameters: six latencies.
  CHECK(step() == Approx(pass + 6 * a + 4 * b).epsilon(1e-3));
  CHECK(simulate(training, {Consistency::bulk_synchronous(), {0}}, 1).end(1, 0) ==
        Approx(pass + 4 * a + b).epsilon(1e-3));
  training.buckets[0].needed = training.buckets[1].needed = 1e-2;  // while two of them come
  CHECK(step() == Approx(pass + 6 * a + 2 * b).epsilon(1e-3));
  // Of pieces of a batch the first one begins when all parameters are there.
  training.before = pass;
  CHECK(step() == Approx(2 * pass + 6 * a + 4 * b).epsilon(1e-3));
}

TEST_CASE("one bucket does not wait for means", "[simulated_servers]") {
  constexpr long m = 1'000'000;
  SimulatedTraining training = training_of(2, {m}, 1e-2);
  training.result_floats = 1;
  const double b = ethernet.busy(m), a = ethernet.latency;
  const SimulatedSteps steps = simulate(training, {Consistency::bulk_synchronous(), {0}}, 6);
  CHECK(2 / steps.rate(2) == Approx(1e-2 + 2 * a + 2 * b).epsilon(0.02));
}

TEST_CASE("what lies on all ranks is the traffic of all of them", "[simulated_servers]") {
  constexpr long m = 10'000'000;
  for (const int ranks : {2, 5, 32}) {
    CAPTURE(ranks);
    // Each sends its parts in the order of servers: the last server's come when all others' have been sent.
    const double found = step_of(training_of(ranks, {m}, 0), {Consistency::bulk_synchronous(), {}});
    CHECK(found > 2 * (ranks - 1.0) / ranks * ethernet.busy(m));
    CHECK(found < 3 * ethernet.busy(m) + 10 * ranks * ethernet.latency);
  }
}

TEST_CASE("small values lie on one server, key by key in turn", "[simulated_servers]") {
  // Two keys of 8000 numbers: fewer than 4096 for each of four servers, so that ranks 0 and 1 serve.
  const double busy = ethernet.busy(8000);
  const double two = step_of(training_of(4, {8000, 8000}, 0), {Consistency::bulk_synchronous(), {}});
  const double one = step_of(training_of(4, {8000, 8000}, 0), {Consistency::bulk_synchronous(), {2}});
  CHECK(one == Approx(2 * 4 * busy + 2 * ethernet.latency).epsilon(0.03));
  CHECK(two < one - 2 * busy);
}

TEST_CASE("a server's sums and updates take its time", "[simulated_servers]") {
  constexpr long m = 1'000'000;
  SimulatedServers servers{Consistency::bulk_synchronous(), {0}};
  const double plain = step_of(training_of(3, {m}, 0), servers);
  servers.update_of_float = 1e-8;
  CHECK(step_of(training_of(3, {m}, 0), servers) == Approx(plain + 1e-8 * m).epsilon(1e-3));  // one a round
  servers.consistency = Consistency::asynchronous();
  const SimulatedSteps alone = simulate(training_of(3, {m}, 0), servers, 40);
  CHECK(3 / alone.rate_while_all_run(4) == Approx(3e-8 * m).epsilon(0.05));  // one a push
}

TEST_CASE("what a rank sends to itself, and what it answers, is copied", "[simulated_servers]") {
  constexpr long m = 1'000'000;
  SimulatedServers servers{Consistency::bulk_synchronous(), {0}};
  const double plain = step_of(training_of(3, {m}, 0), servers);
  servers.copy_of_float = 1e-8;
  // Of rank 0 the push, which comes while others' do, three answers, of which the last ones go when others' have, and
  // what it gets.
  const double copied = step_of(training_of(3, {m}, 0), servers);
  CHECK(copied > plain + 2e-8 * m);
  CHECK(copied < plain + 5.001e-8 * m);
  servers.servers = {1};
  CHECK(step_of(training_of(1, {m}, 1e-2), {Consistency::bulk_synchronous(), {}, 0, 0, 1e-8}) ==
        Approx(1e-2 + 3e-8 * m).epsilon(1e-6));
}

TEST_CASE("a store's thread wakes while its rank computes, and need not while that waits", "[simulated_servers]") {
  SimulatedTraining training = training_of(1, {1000}, 1e-2);
  training.waking = 1e-3;
  CHECK(step_of(training, {}) == Approx(1e-2).epsilon(1e-6));  // what is ready when the pass ends is waited for
  training = training_of(1, {1000, 1000}, 1e-2);
  training.waking = 1e-3;
  training.buckets[0].ready = 5e-3;  // while the rank computes, which has no other processor for the thread
  CHECK(step_of(training, {}) == Approx(1e-2).epsilon(1e-6));
  training.core_share = 1;
  CHECK(step_of(training, {}) == Approx(1.1e-2).epsilon(1e-6));
  // Rank 1 serves both, and is still computing when rank 0 pushes; asynchronously rank 0 waits for its answers.
  training = training_of(2, {1000}, 1e-2);
  training.slowness = [](int rank, long) { return rank == 1 ? 1e3 : 1.0; };
  const auto alone = [&] { return simulate(training, {Consistency::asynchronous(), {1}}, 5).end(0, 4) / 5; };
  const double awake = alone();
  training.waking = 1e-3;
  CHECK(alone() == Approx(awake + 1e-3).epsilon(0.02));  // the server's thread, for the push
  // Who wakes that pays for it: once a step, for its push; what it asks for then comes while that is awake.
  const auto with_ringing = [&](double seconds) {
    SimulatedServers servers{Consistency::asynchronous(), {1}};
    servers.ringing = seconds;
    return simulate(training, servers, 5).end(0, 4) / 5;
  };
  CHECK(with_ringing(2e-3) == Approx(with_ringing(0) + 2e-3).epsilon(0.02));
}

TEST_CASE("each message costs whoever receives it", "[simulated_servers]") {
  SimulatedServers servers{Consistency::bulk_synchronous()};
  servers.handling = 1e-4;
  // A push, a pull, and the answers of both.
  CHECK(step_of(training_of(1, {1000}, 1e-2), servers) == Approx(1e-2 + 4e-4).epsilon(1e-6));
}

TEST_CASE("nobody is further ahead than the staleness bound allows", "[simulated_servers]") {
  for (const long bound : {0L, 1L, 3L}) {
    SimulatedTraining training = training_of(4, {5000, 70'000}, 1e-3);
    training.slowness = [](int device, long step) { return device == (step / 7) % 4 ? 5.0 : 1.0; };
    const SimulatedSteps steps = simulate(training, {Consistency::bounded_staleness(bound), {}}, 60);
    double most_ahead = 0;
    for (int rank = 0; rank < 4; ++rank)
      for (int other = 0; other < 4; ++other)
        for (int step = static_cast<int>(bound) + 1; step < 60; ++step) {
          CHECK(steps.end(rank, step) >= steps.end(other, step - static_cast<int>(bound) - 1));
          if (steps.end(rank, step) < steps.end(other, step - static_cast<int>(bound))) ++most_ahead;
        }
    CHECK(most_ahead > 0);  // the bound is made use of
  }
}

TEST_CASE("asynchronous ranks do not wait for a slow one", "[simulated_servers]") {
  SimulatedTraining training = training_of(4, {5000}, 1e-2);
  training.slowness = [](int device, long) { return device == 1 ? 4.0 : 1.0; };
  const double quick = 1e-2 + 4 * ethernet.latency;
  const SimulatedSteps steps = simulate(training, {Consistency::asynchronous(), {}}, 40);
  CHECK(steps.rate_while_all_run(4) == Approx(3 / quick + 1 / (quick + 3e-2)).epsilon(0.05));
  const SimulatedSteps rounds = simulate(training, {Consistency::bulk_synchronous(), {}}, 40);
  CHECK(rounds.rate(4) == Approx(4 / (quick + 3e-2)).epsilon(0.05));
}

TEST_CASE("servers that are no ranks are refused", "[simulated_servers]") {
  CHECK(message_of([] {
          simulate(training_of(2, {10}, 0), {Consistency::asynchronous(), {2}}, 1);
        }) == "ParameterServer: no such server; expected a rank from 0 to 1, found 2");
}

TEST_CASE("a store's thread that has no core of its own holds up the pass beside it", "[simulated_servers]") {
  // The parameters come while the next pass runs, which needs them at its end: rank 0 receives a push and sends an
  // answer meanwhile, rank 1 receives that. Rank 1 also waits for its own push, and its pull.
  constexpr long m = 10'000'000;
  const double a = ethernet.latency, b = ethernet.busy(m);
  for (const double share : {0.0, 0.25, 0.75, 1.0}) {
    CAPTURE(share);
    SimulatedTraining training = training_of(2, {m}, 1.0);
    training.buckets[0].needed = training.pass;
    training.core_share = share;
    const SimulatedSteps steps = simulate(training, {Consistency::bulk_synchronous(), {0}}, 4);
    for (int step = 1; step < 4; ++step) {
      CHECK(steps.end(0, step) - steps.end(0, step - 1) == Approx(1 + share * 2 * b).epsilon(1e-5));
      CHECK(steps.end(1, step) - steps.end(1, step - 1) == Approx(1 + b + 2 * a + share * b).epsilon(1e-5));
    }
  }
}
