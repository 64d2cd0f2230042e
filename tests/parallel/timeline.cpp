// Timelines of several devices and ranks; the policy itself is tested in tests/train/timeline.cpp.
#include "tenet/train/timeline.hpp"

#include <barrier>
#include <tenet/parallel/hierarchical.hpp>
#include <tenet/parallel/hogwild.hpp>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/parallel/sharded_optimizer.hpp>
#include <thread>

#include "../support/machines.hpp"
#include "../support/trace.hpp"
#include "../support/training_ranks.hpp"

using namespace tenet;
using Catch::Matchers::Contains;

namespace {

using networks::WholeRows;
using Buckets = BucketBytes<4096>;
template <class... Policies>
using Learner = Trainer<WholeRows, CrossEntropy, Sgd, Features<16>, Reference, Policies..., Timeline<>>;

/// The files of ranks that train for some steps, in one.
template <class Rank>
trace::File train_all(int ranks, int steps, int batch = 16) {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  for (int rank = 0; rank < ranks; ++rank) paths.push_back(folder / (std::to_string(rank) + ".json"));
  const network::Samples<Rank> samples(batch);
  std::barrier written(ranks);
  ranks::run_well(ranks, [&](ThreadTransport& transport) {
    const ThreadWorld::Joined joined(transport);
    Rank trainer{{.learning_rate = 0.05f}, 0};
    for (int step = 0; step < steps; ++step) trainer.step(samples.inputs.data(), samples.targets.data(), batch);
    trainer.synchronize();
    trainer.timeline().write(paths[static_cast<std::size_t>(transport.rank())]);
    written.arrive_and_wait();  // who ends tells the others so, which is in no file
  });
  TraceEvents::merge(paths, folder / "all.json");
  return trace::read(folder / "all.json");
}
template <class... Policies>
trace::File train_ranks(int ranks, int steps, int batch = 16) {
  return train_all<Learner<Distributed<ThreadWorld>, Policies...>>(ranks, steps, batch);
}
template <class... Policies>
trace::File train_two(int steps, int batch = 16) {
  return train_ranks<Policies...>(2, steps, batch);
}

std::vector<trace::Event> named(std::vector<trace::Event> events, const std::string& name) {
  std::erase_if(events, [&](const trace::Event& event) { return event.name != name; });
  return events;
}
/// What is planned to move for rank 0, but for what is not the name of some numbers.
std::vector<trace::Event> planned_communication(const trace::File& file, const std::string& but = "results") {
  auto planned = file.of(TimelineReport::planned_process, 2, "collective");
  std::erase_if(planned, [&](const trace::Event& event) { return event.name == but; });
  return planned;
}
/// Nobody says how long a ring of somebody else takes.
struct Untold : Ring {
  static constexpr const char* name = "untold";
  static constexpr Moving moving{"sends", "", detail::ring_moves.moved};
  static constexpr Traffic traffic{.gradients = &moving};
};

bool overlap(const trace::Event& a, const trace::Event& b) { return a.begin < b.end() && b.begin < a.end(); }

}  // namespace

TEST_CASE("two ranks: buckets leave before the backward pass ends, and both ranks are in one file", "[timeline]") {
  constexpr int steps = 6;
  using Rank = Learner<Distributed<ThreadWorld>, Buckets>;
  constexpr auto plan = plan_buckets(Rank::Training::lowered, Rank::Training::slots, 1024);
  REQUIRE(plan.count > 2);
  const trace::File file = train_two<Buckets>(steps, TENET_TEST_SANITIZED ? 256 : 2048);
  for (const long rank : {0L, 1L}) {
    CHECK(file.processes.at(rank) == "rank " + std::to_string(rank));
    CHECK(file.processes.at(TimelineReport::planned_process + rank) == "planned, rank " + std::to_string(rank));
    CHECK(file.rows.at({rank, 1}) == "device 0");
    CHECK(file.rows.at({rank, 2}) == "communication");
    const auto training = file.of(rank, 1, "training step");
    REQUIRE(training.size() == steps);
    const auto collectives = file.of(rank, 2, "collective");
    CHECK(named(collectives, "parameters").size() == 1);  // those of rank 0, at the beginning
    CHECK(named(collectives, "results").size() == steps);
    int early = 0;
    for (std::size_t t = 0; t < steps; ++t) {
      const auto compute = file.within(training[t], "step");
      REQUIRE(static_cast<int>(compute.size()) == Rank::Training::lowered.first_update);
      const auto backward = named(file.within(training[t], "pass"), "backward");
      REQUIRE(backward.size() == 1);
      // The buckets of the step before are updated where the forward pass needs them, each when it has come.
      const auto updates = file.within(training[t], "update");
      REQUIRE(static_cast<int>(updates.size()) == (t == 0 ? 0 : plan.count));
      std::vector<double> come;
      for (int b = 0; t > 0 && b < plan.count; ++b)
        come.push_back(named(collectives, "bucket " + std::to_string(b))[t - 1].end());
      std::sort(come.begin(), come.end());
      for (std::size_t i = 0; i < come.size(); ++i) CHECK(come[i] <= updates[i].begin);
      if (t > 0) CHECK(updates.back().end() <= backward[0].begin + 0.002);  // us, of decimal numbers
      for (int b = 0; b < plan.count; ++b) {
        const auto bucket = named(collectives, "bucket " + std::to_string(b));
        REQUIRE(bucket.size() == steps);
        CHECK(bucket[t].arguments["bytes"].number == 4.0 * static_cast<double>(plan.buckets[b].floats));
        CHECK(bucket[t].arguments["step"].number == static_cast<double>(t + 1));
        // Behind the steps that compute it.
        CHECK(compute[static_cast<std::size_t>(plan.buckets[b].ready) - 1].end() <= bucket[t].begin);
      }
      const auto results = named(collectives, "results")[t], first = named(collectives, "bucket 0")[t];
      CHECK(results.end() <= first.begin);
      early += named(collectives, "bucket 0")[t].begin < backward[0].end();
      for (const trace::Event& wait : named(file.within(training[t], "wait"), "wait for gradients"))
        CHECK(wait.end() <= backward[0].begin + 0.002);  // for buckets of the step before
    }
    CHECK(early > 0);  // in each step, but where other programs keep the communication thread from running
    // What moves is within the collective that it is of.
    long messages = 0;
    for (const trace::Event& bucket : named(collectives, "bucket 1"))
      for (const trace::Event& message : file.of(rank, 2, "message"))
        if (bucket.contains(message)) {
          CHECK(message.name == "share bucket 1");
          CHECK(message.arguments["bytes"].number == bucket.arguments["bytes"].number);
          ++messages;
        }
    CHECK(messages == steps);
    // The planned buckets, one after the other, none before its gradients.
    const long planned = TimelineReport::planned_process + rank;
    const auto planned_steps = file.of(planned, 1, "step");
    auto buckets = file.of(planned, 2, "collective");
    std::erase_if(buckets, [](const trace::Event& event) { return event.name == "results"; });
    REQUIRE(static_cast<int>(buckets.size()) == plan.count);
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      CHECK(buckets[b].begin + 0.002 >=
            planned_steps[static_cast<std::size_t>(plan.buckets[static_cast<int>(b)].ready) - 1].end());
      if (b > 0) CHECK(buckets[b].begin + 0.002 >= buckets[b - 1].end());
    }
  }
  // One clock: what both ranks do together, they do at the same time.
  const auto first = named(file.of(0, 2, "collective"), "bucket 0"),
             second = named(file.of(1, 2, "collective"), "bucket 0");
  for (std::size_t t = 0; t < steps; ++t) CHECK(overlap(first[t], second[t]));
}

namespace {

/// As `AllReduce`, but the last bucket takes long.
struct LastTakesLong : AllReduce {
  inline static int last = 0;
  template <Transport T>
  static void reduce(T& transport, float* data, long floats, MessageLabel label, float weight) {
    if (label.number == last) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    AllReduce::reduce(transport, data, floats, label, weight);
  }
};

}  // namespace

TEST_CASE("two ranks: buckets that have come are updated while the last one is on its way", "[timeline]") {
  using Rank = Learner<Distributed<ThreadWorld>, LastTakesLong, Buckets>;
  constexpr auto plan = plan_buckets(Rank::Training::lowered, Rank::Training::slots, 1024);
  LastTakesLong::last = plan.count - 1;
  const trace::File file = train_two<LastTakesLong, Buckets>(1);
  for (const long rank : {0L, 1L}) {
    const auto updates = file.of(rank, 1, "update");
    const auto last = named(file.of(rank, 2, "collective"), "bucket " + std::to_string(plan.count - 1));
    REQUIRE(static_cast<int>(updates.size()) == plan.count);
    REQUIRE(last.size() == 1);
    for (std::size_t b = 0; b + 1 < updates.size(); ++b) CHECK(updates[b].end() < last[0].end());
    CHECK(updates.back().begin >= last[0].end());
  }
}

TEST_CASE("ranks that record train as one device does", "[timeline]") {
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f};
  using ranks::Threads;
  ranks::check_training<Threads, WholeRows, CrossEntropy, Sgd, Features<16>, Reference, Timeline<>>({5, 3}, sgd);
  ranks::check_training<Threads, WholeRows, CrossEntropy, Sgd, Features<16>, Reference, ParameterServer<>, Timeline<>>(
      {5, 3}, sgd);
  ranks::check_training<ranks::WithReplicas<Threads, 2>, WholeRows, CrossEntropy, Sgd, Features<16>, Reference, Buckets,
                        Timeline<>>({5, 3}, sgd);
}

TEST_CASE("parameter servers: requests are recorded from being asked for until they are done", "[timeline]") {
  constexpr std::size_t steps = 4;
  using Rank = Learner<Distributed<ThreadWorld>, ParameterServer<>, Buckets>;
  const auto count = static_cast<std::size_t>(plan_buckets(Rank::Training::lowered, Rank::Training::slots, 1024).count);
  const trace::File file = train_two<ParameterServer<>, Buckets>(steps);
  for (const long rank : {0L, 1L}) {
    std::map<std::string, std::size_t> found;
    for (const trace::Event& request : file.overlapping) {
      if (request.process != rank) continue;
      ++found[request.name];
      CHECK(request.category == "request");
    }
    for (std::size_t b = 0; b < count; ++b) {
      CHECK(found["push " + std::to_string(b)] == steps);
      CHECK(found["pull " + std::to_string(b)] == steps + 2);  // at the beginning, and to synchronize
    }
    CHECK(file.of(rank, 2, "message").size() > 2 * count * steps);
    CHECK(file.of(rank, 1, "training step").size() == steps);
  }
}

TEST_CASE("parameter servers: waiting for a rank that is late is not moving", "[timeline]") {
  using Rank = Learner<Distributed<ThreadWorld>, ParameterServer<>>;
  const network::Samples<Rank> samples(16);
  CommunicationOverlap found;
  ranks::run_well(2, [&](ThreadTransport& transport) {
    const ThreadWorld::Joined joined(transport);
    Rank trainer{{.learning_rate = 0.05f}, 0};
    for (int step = 0; step < 4; ++step) {
      if (transport.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      trainer.step(samples.inputs.data(), samples.targets.data(), 16);
    }
    trainer.synchronize();
    if (transport.rank() == 0) found = trainer.timeline().overlap();
  });
  CHECK(found.seconds > 0.15);
  CHECK(found.moving_seconds > 0);
  CHECK(found.moving_seconds < 0.5 * found.seconds);
}

TEST_CASE("what servers get and send is planned, and their updates are not the ranks'", "[timeline]") {
  using Rank = Learner<Distributed<ThreadWorld>, ParameterServer<Sharded, Asynchronous>>;
  const trace::File file = train_two<ParameterServer<Sharded, Asynchronous>>(3);
  const long plan = TimelineReport::planned_process;
  CHECK(file.processes.at(plan) == "planned, rank 0");
  const auto moved = planned_communication(file, "");
  REQUIRE(moved.size() == 2);  // nobody agrees on anything
  CHECK(moved[0].name == "bucket 0");
  CHECK(moved[1].name == "parameters 0");
  CHECK(moved[1].begin + 0.002 >= moved[0].end());
  const auto steps = file.of(plan, 1, "step");
  CHECK(static_cast<int>(steps.size()) == Rank::Training::lowered.first_update);
  CHECK(moved[0].begin + 0.002 >= steps.back().end());

  const auto in_rounds = planned_communication(train_two<ParameterServer<>, Buckets>(3), "");
  constexpr auto buckets = plan_buckets(Rank::Training::lowered, Rank::Training::slots, 1024);
  CHECK(static_cast<int>(in_rounds.size()) == 2 * buckets.count + 1);
  CHECK(named(in_rounds, "results").size() == 1);
  CHECK(in_rounds[static_cast<std::size_t>(buckets.count)].name == "results");
}

TEST_CASE("what nobody knows the time of is not planned, and the report says so", "[timeline]") {
  using Rank = Learner<Distributed<ThreadWorld>, Untold>;
  const network::Samples<Rank> samples(16);
  ranks::run_well(2, [&](ThreadTransport& transport) {
    const ThreadWorld::Joined joined(transport);
    Rank trainer{{.learning_rate = 0.05f}, 0};
    for (int step = 0; step < 3; ++step) trainer.step(samples.inputs.data(), samples.targets.data(), 16);
    const std::string text = trainer.timeline().text();
    if (text.find("\n  communication is not planned: untold\n") == std::string::npos) throw Error(text);
  });
  const trace::File file = train_two<Untold>(3);
  CHECK(file.processes.at(TimelineReport::planned_process) == "planned without communication, rank 0");
  CHECK(planned_communication(file, "").empty());
}

TEST_CASE("a step's micro-batches, and sums that its passes wait for, are planned", "[timeline]") {
  using Cut = Learner<Distributed<ThreadWorld>, MicroBatches<2>>;
  const trace::File cut = train_two<MicroBatches<2>>(3);
  constexpr int once = Cut::Training::lowered.first_update, all = Cut::Training::lowered.used.steps;
  const auto steps = cut.of(TimelineReport::planned_process, 1, "step");
  CHECK(static_cast<int>(steps.size()) == once + all);
  CHECK(cut.of(TimelineReport::planned_process, 1, "pass").size() == 5);
  const auto bucket = named(planned_communication(cut), "bucket 0");
  REQUIRE(bucket.size() == 1);
  CHECK(bucket[0].begin + 0.002 >= steps[static_cast<std::size_t>(2 * once - 1)].end());

  using Normalized = Trainer<networks::Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Reference, Distributed<ThreadWorld>,
                             SyncBatchNorm, Timeline<>>;
  const trace::File normalized = train_all<Normalized>(2, 3);
  std::size_t expected = 0;
  for (int s = 0; s < Normalized::Training::lowered.first_update; ++s)
    expected += is_sum_over_workers(Normalized::Training::lowered.steps[s]);
  const auto sums = named(planned_communication(normalized), "sum over the batch");
  REQUIRE(sums.size() == expected);
  std::size_t measured = 0;  // with their numbers
  for (const trace::Event& event : normalized.of(0, 2, "collective")) measured += event.name.starts_with(sums[0].name);
  CHECK(measured == 3 * sums.size());
  const auto passes = normalized.of(TimelineReport::planned_process, 1, "step");
  for (const trace::Event& sum : sums)
    for (const trace::Event& step : passes) CHECK((step.end() < sum.begin + 0.003 || step.begin > sum.end() - 0.003));
  CHECK(named(planned_communication(normalized, ""), "running statistics").size() == 1);
}

TEST_CASE("what is planned to move is what the synchronisation moves", "[timeline]") {
  using Rank = Learner<Distributed<ThreadWorld>, Buckets>;
  constexpr auto plan = plan_buckets(Rank::Training::lowered, Rank::Training::slots, 1024);
  constexpr auto count = static_cast<std::size_t>(plan.count);
  const LinkCost link = [] {
    ThreadNetwork network(2);
    return ThreadTransport(network, 0).link();
  }();
  // In microseconds; a file has a thousandth of them.
  constexpr int ranks = 4;
  const auto check = [&](const std::vector<trace::Event>& found, std::size_t from, const char* name,
                         const Moving& moving, const auto& bucket_of) {
    REQUIRE(found.size() >= from + count);
    for (std::size_t i = 0; i < count; ++i) {
      const int b = bucket_of(i);
      const long floats = plan.buckets[static_cast<std::size_t>(b)].floats;
      CHECK(found[from + i].name == name + (" " + std::to_string(b)));
      CHECK(found[from + i].duration == Approx(1e6 * moving.seconds(ranks, floats, link)).margin(0.002));
    }
  };
  const auto in_order = [](std::size_t i) { return static_cast<int>(i); };
  const auto by_ring = planned_communication(train_ranks<Ring, Buckets>(ranks, 3));
  CHECK(by_ring.size() == count);
  check(by_ring, 0, "bucket", detail::ring_moves, in_order);
  check(planned_communication(train_ranks<Buckets>(ranks, 3)), 0, "bucket", detail::all_reduce_moves, in_order);
  // The same link, another way: the two differ.
  CHECK(detail::ring_moves.seconds(ranks, plan.buckets[0].floats, link) >
        1.1 * detail::all_reduce_moves.seconds(ranks, plan.buckets[0].floats, link));

  const trace::File file = train_ranks<ShardedOptimizer, Buckets>(ranks, 3);
  const auto sharded = planned_communication(file);
  CHECK(sharded.size() == 2 * count);
  check(sharded, 0, "bucket", detail::scatter_moves, in_order);
  check(sharded, count, "parameters", detail::gather_moves, [&](std::size_t i) { return plan.by_need[i]; });
  const auto steps = file.of(TimelineReport::planned_process, 1, "step");
  CHECK(static_cast<int>(steps.size()) == Rank::Training::lowered.used.steps);
  CHECK(sharded[count].begin + 0.002 >= steps[static_cast<std::size_t>(Rank::Training::lowered.first_update)].begin);
}

TEST_CASE("local SGD: what ranks send now and then is recorded, and planned for such steps", "[timeline]") {
  const trace::File file = train_two<LocalSgd<2>>(4);
  const auto planned = planned_communication(file);
  const auto steps = file.of(TimelineReport::planned_process, 1, "step");
  REQUIRE(!steps.empty());
  bool meets = false;
  for (const trace::Event& training : file.of(0, 1, "training step"))
    if (std::abs(training.begin - steps[0].begin) < 0.002)
      meets = static_cast<long>(training.arguments["step"].number) % 2 == 0;
  CHECK(planned.size() == (meets ? 1 : 0));
  if (meets) CHECK(planned[0].name == "parameters");
  if (meets) CHECK(planned[0].begin + 0.002 >= steps.back().end());
  const auto always = planned_communication(train_two<LocalSgd<1>>(3));
  REQUIRE(always.size() == 1);
  CHECK(always[0].arguments["bytes"].number == 4.0 * static_cast<double>(Weights<WholeRows>::table.parameter_floats));
  CHECK(planned_communication(train_two<LocalSgd<100>>(3)).empty());
  for (const long rank : {0L, 1L}) {
    long averaged = 0;
    for (const trace::Event& message : file.of(rank, 2, "message")) averaged += message.name == "share parameters";
    CHECK(averaged >= 3);  // twice in the training, and to synchronize
  }
}

TEST_CASE("machines by themselves: buckets move in each step, parameters when all ranks meet", "[timeline]") {
  constexpr int steps = 5, steps_alone = 2;
  const trace::File file =
      train_all<Learner<Distributed<ranks::MachineWorld<2>>, Hierarchical<AllReduce, LocalSgd<steps_alone>>, Buckets>>(
          4, steps);
  for (long rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    long buckets = 0, outside = 0, averaged = 0;
    for (const trace::Event& event : file.of(rank, 2, "collective"))
      buckets += event.name.starts_with("bucket ") && event.arguments["step"].number > 0;
    for (const auto& [row, name] : file.rows) {
      int from = 0, to = 0;
      if (row.first != rank || std::sscanf(name.c_str(), "link from %d to %d", &from, &to) != 2) continue;
      for (const trace::Event& message : file.of(row.first, row.second, "message")) {
        const bool has_parameters = message.name.ends_with(" parameters");
        averaged += has_parameters && message.arguments["step"].number > 0 && from / 2 != to / 2;
        outside += !has_parameters && from / 2 != to / 2;
      }
    }
    CHECK(buckets >= 2 * steps);
    CHECK(outside == 0);
    CHECK(averaged >= 3);  // twice in the training, and to synchronize
  }
  // Planned are buckets, and, if the measured step is one in which all meet, parameters behind them.
  const auto parameters_of = [](const trace::File& of) {
    auto planned = planned_communication(of);
    REQUIRE(planned.size() >= 2);
    CHECK(planned[0].name.starts_with("bucket "));
    return std::erase_if(planned, [](const trace::Event& event) { return event.name != "parameters"; }), planned;
  };
  const auto steps_of = file.of(TimelineReport::planned_process, 1, "step");
  REQUIRE(!steps_of.empty());
  bool meets = false;
  for (const trace::Event& training : file.of(0, 1, "training step"))
    if (std::abs(training.begin - steps_of[0].begin) < 0.002)
      meets = static_cast<long>(training.arguments["step"].number) % steps_alone == 0;
  CHECK(parameters_of(file).size() == (meets ? 1 : 0));
  using Seldom = Learner<Distributed<ranks::MachineWorld<2>>, Hierarchical<AllReduce, LocalSgd<100>>, Buckets>;
  CHECK(parameters_of(train_all<Seldom>(4, 3)).empty());
}

TEST_CASE("links: what one rank has sent another one has received, and when", "[timeline]") {
  constexpr int ranks = 3;
  const trace::File file = train_ranks<Ring, Buckets>(ranks, 3);
  std::vector<trace::Event> sent[ranks][ranks], received[ranks][ranks];
  int shared = 0;
  for (const auto& [row, name] : file.rows) {
    int from = 0, to = 0;
    if (std::sscanf(name.c_str(), "link from %d to %d", &from, &to) != 2) {
      shared += name == "link from " + std::to_string(row.first) + " to all";
      continue;
    }
    CAPTURE(name, row.first);
    REQUIRE((row.first == from || row.first == to));
    (row.first == from ? sent : received)[from][to] = file.of(row.first, row.second, "message");
    for (const trace::Event& message : file.of(row.first, row.second, "message")) {
      CHECK(message.name.starts_with(row.first == from ? "send " : "receive "));
      CHECK(message.arguments["peer"].number == (row.first == from ? to : from));
    }
  }
  CHECK(shared == ranks);  // results are few numbers, which lie in memory that all have
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to) {
      CAPTURE(from, to);
      const auto &out = sent[from][to], &in = received[from][to];
      REQUIRE(out.size() == in.size());
      for (std::size_t i = 0; i < out.size(); ++i) {
        CHECK(out[i].arguments["bytes"].number == in[i].arguments["bytes"].number);
        CHECK(out[i].begin < in[i].end());
      }
      if (to == (from + 1) % ranks) CHECK(out.size() >= 3 * 4);  // each step 2 · 2 messages for each bucket
    }
}

TEST_CASE("links: ranks talk to the server, and not to each other", "[timeline]") {
  constexpr int ranks = 3;
  const trace::File file = train_ranks<ParameterServer<OnRank<1>>>(ranks, 3);
  std::set<std::string> found;
  for (const auto& [row, name] : file.rows)
    if (name.starts_with("link ")) found.insert(name.substr(10));
  CHECK(found == std::set<std::string>{"0 to 1", "1 to 0", "1 to 1", "1 to 2", "2 to 1"});
}

TEST_CASE("a sharded optimizer: parameters are gathered while other buckets are updated", "[timeline]") {
  const trace::File file = train_two<ShardedOptimizer, Buckets>(3);
  for (const long rank : {0L, 1L}) {
    long buckets = 0, parameters = 0;
    for (const trace::Event& collective : file.of(rank, 2, "collective")) {
      buckets += collective.name.find("bucket ") == 0;
      parameters += collective.name.find("parameters") == 0;
    }
    CHECK(buckets >= 6);
    CHECK(parameters == buckets + 1);  // and those of rank 0 at the beginning
  }
}

TEST_CASE("Hogwild between ranks has nothing to send in a step", "[timeline]") {
  const trace::File file = train_two<Hogwild<4>>(3);
  for (const long rank : {0L, 1L}) {
    CHECK(file.of(rank, 1, "training step").size() == 3);
    CHECK(file.of(rank, 2, "collective").empty());
  }
}

TEST_CASE("replicas have a row each, and a row for what each sends", "[timeline]") {
  const auto rows_of = [](auto& trainer, int batch = 64) {
    const network::Samples<std::remove_reference_t<decltype(trainer)>> samples(batch);
    for (int step = 0; step < 3; ++step) trainer.step(samples.inputs.data(), samples.targets.data(), batch);
    return trace::File(trainer.timeline().events().text());
  };
  Learner<DataParallel<2>> direct{{.learning_rate = 0.05f}, 0};
  const trace::File file = rows_of(direct);
  CHECK(file.rows.at({0, 1}) == "replica 0");
  CHECK(file.rows.at({0, 2}) == "replica 1");
  CHECK(file.rows.count({0, 3}) == 0);
  for (const long row : {1L, 2L}) {
    CHECK(named(file.of(0, row, "pass"), "backward").size() == 3);
    const auto updates = file.of(0, row, "update"), waits = file.of(0, row, "wait");
    REQUIRE(updates.size() == 3);
    REQUIRE(waits.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(waits[i].end() <= updates[i].begin);
    CHECK(waits[0].name == "wait for gradients of all replicas");
  }
  CHECK(file.of(0, 1, "training step").size() == 3);

  Learner<DataParallel<2>, Ring, Buckets> ring{{.learning_rate = 0.05f}, 0};
  const trace::File by_ring = rows_of(ring, 4096);
  std::set<std::string> names;
  for (const long row : {3L, 4L}) {
    names.insert(by_ring.rows.at({0, row}));
    CHECK(named(by_ring.of(0, row, "collective"), "bucket 0").size() == 3);
  }
  CHECK(names == std::set<std::string>{"communication of replica 0", "communication of replica 1"});
  // What each of them sent the other one, and received from it.
  std::map<std::string, int> links;
  for (const auto& [row, name] : by_ring.rows)
    if (name.starts_with("link from ")) {
      ++links[name];
      CHECK(!by_ring.of(row.first, row.second, "message").empty());
    }
  CHECK(links == std::map<std::string, int>{{"link from 0 to 1", 2}, {"link from 1 to 0", 2}});
  const CommunicationOverlap found = ring.timeline().overlap();
  CHECK(found.seconds > 0);
  CHECK(found.hidden_seconds > 0);
  CHECK(found.hidden_seconds <= found.seconds);
  CHECK_THAT(ring.timeline().text(), Contains("% of it hidden behind computation"));

  Learner<DataParallel<2>, Hogwild<8>> free{{.learning_rate = 0.05f}, 0};
  const trace::File hogwild = rows_of(free);
  CHECK(hogwild.of(0, 1, "update").size() + hogwild.of(0, 2, "update").size() == 3 * 8);
}

TEST_CASE("devices that share a program have their steps, measured and planned", "[timeline]") {
  using Towers = Trainer<networks::Towers, CrossEntropy, Sgd, Features<16>, Reference, InterOpParallel<2>, Timeline<>>;
  Towers trainer{{.learning_rate = 0.05f}, 0};
  const network::Samples<Towers> samples(256);
  for (int step = 0; step < 5; ++step) trainer.step(samples.inputs.data(), samples.targets.data(), 256);
  const trace::File file = trace::File(trainer.timeline().events().text());
  using P = Towers::Training;
  const long plan = TimelineReport::planned_process;
  std::size_t expected[2]{};
  for (int s = 0; s < P::lowered.first_update; ++s) ++expected[P::order.device_of(P::lowered.steps[s].number)];
  REQUIRE(expected[1] > 0);
  for (const long device : {0L, 1L}) {
    CHECK(file.rows.at({0, device + 1}) == "device " + std::to_string(device));
    CHECK(file.rows.at({plan, device + 1}) == "device " + std::to_string(device));
    std::size_t measured = 0, planned = 0;
    for (const trace::Event& step : file.of(0, device + 1, "step")) measured += step.arguments["pass"].text != "update";
    for (const trace::Event& step : file.of(plan, device + 1, "step"))
      planned += step.arguments["pass"].text != "update";
    CHECK(measured == 5 * expected[device]);
    CHECK(planned == expected[device]);
    CHECK(file.of(0, device + 1, "update").size() == 5);  // each a part of it
  }
  // No planned step before those that it needs have ended, wherever they run.
  std::map<std::string, double> ends;
  double end[2]{};
  const auto first = file.of(plan, 1, "step"), second = file.of(plan, 2, "step");
  for (const trace::Event& step : first) end[0] = std::max(end[0], step.end());
  for (const trace::Event& step : second) end[1] = std::max(end[1], step.end());
  double sum = 0;
  for (const trace::Event& step : first) sum += step.duration;
  for (const trace::Event& step : second) sum += step.duration;
  CHECK(std::max(end[0], end[1]) - first[0].begin < sum);  // they run at once
}
