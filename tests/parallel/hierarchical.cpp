#include "tenet/parallel/hierarchical.hpp"

#include <atomic>
#include <tenet/parallel/distributed.hpp>

#include "../support/machines.hpp"
#include "../support/training_ranks.hpp"

using namespace tenet;
using ranks::OnMachines;

namespace {

/// Ranks that are threads, so many on each machine.
template <int ranks_of_machine>
struct OnMachinesOf : ranks::Threads {
  using World = ranks::MachineWorld<ranks_of_machine>;
};

/// What rank 0 has sent: messages, floats inside of its machine, and to others.
struct Sent {
  int messages;
  long inside, between;
  friend bool operator==(const Sent&, const Sent&) = default;
};
std::ostream& operator<<(std::ostream& out, const Sent& sent) {
  return out << sent.messages << " messages, " << sent.inside << " inside, " << sent.between << " between";
}
template <class Synchronisation>
Sent sent_by(const std::vector<int>& machine_of_rank, long floats) {
  Sent result{};
  const int n = static_cast<int>(machine_of_rank.size());
  ranks::run_well(n, [&](ThreadTransport& transport) {
    OnMachines on(transport, machine_of_rank);
    std::vector<float> data(static_cast<std::size_t>(floats), 1.0f);
    Synchronisation::reduce(on, data.data(), floats, {"bucket", 0, 1}, 0.5f);
    for (const float value : data)
      if (value != 0.5f * static_cast<float>(n))
        fail("reduce", "wrong sum", std::to_string(0.5 * n), std::to_string(value));
    if (on.rank() == 0) result = {on.messages, on.sent_inside, on.sent_between};
  });
  return result;
}

}  // namespace

TEST_CASE("ranks of machines of equal or different sizes train as one device does", "[hierarchical]") {
  using Net = networks::WholeRows;
  const auto check = [](auto of, std::vector<int> parts) {
    const auto with = [&]<class Inner, class Outer>(Hierarchical<Inner, Outer>) {
      ranks::check_training<decltype(of), Net, CrossEntropy, Sgd, Features<16>, Hierarchical<Inner, Outer>,
                            BucketBytes<4096>>(parts, Sgd{.learning_rate = 0.05f, .momentum = 0.9f});
    };
    with(Hierarchical<AllReduce, Ring>{});
    with(Hierarchical<Ring, AllReduce>{});
  };
  check(OnMachinesOf<2>{}, {3, 1, 2, 4});
  check(OnMachinesOf<3>{}, {3, 1, 2, 4});  // three ranks and one
  check(OnMachinesOf<3>{}, {1, 2, 1, 2, 1, 2});
}

TEST_CASE("Inner says what goes inside of machines, Outer what goes between", "[hierarchical]") {
  // Halving of 4 ranks sends twice twice, a ring three times twice; between 4 machines the same.
  const std::vector<int> four_of_four{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  constexpr long m = 16 * 16 * 500, inside = 2 * 3 * m / 4, between = 2 * 3 * m / 4 / 4;
  CHECK(sent_by<Hierarchical<AllReduce, AllReduce>>(four_of_four, m) == Sent{4 + 4, inside, between});
  CHECK(sent_by<Hierarchical<AllReduce, Ring>>(four_of_four, m) == Sent{4 + 6, inside, between});
  CHECK(sent_by<Hierarchical<Ring, AllReduce>>(four_of_four, m) == Sent{6 + 4, inside, between});
  CHECK(sent_by<Hierarchical<Ring, Ring>>(four_of_four, m) == Sent{6 + 6, inside, between});
  // What a rank sends altogether is what its traffic says.
  CHECK(inside + between == Hierarchical<Ring, Ring>::traffic.gradients->moved(16, m));
  // One machine, and one rank each.
  const std::vector<int> one{0, 0, 0, 0}, four{0, 1, 2, 3};
  CHECK(sent_by<Hierarchical<Ring, AllReduce>>(one, m) == Sent{6, inside, 0});
  CHECK(sent_by<Hierarchical<AllReduce, Ring>>(one, m) == Sent{4, inside, 0});
  CHECK(sent_by<Hierarchical<Ring, AllReduce>>(four, m) == Sent{4, 0, inside});
  CHECK(sent_by<Hierarchical<AllReduce, Ring>>(four, m) == Sent{6, 0, inside});
}

TEST_CASE("few numbers go in the quickest way, whatever Inner and Outer", "[hierarchical]") {
  const std::vector<int> of_rank{0, 0, 1, 1};
  CHECK(sent_by<Hierarchical<Ring, Ring>>(of_rank, 3) == sent_by<AllReduce>(of_rank, 3));
  CHECK(sent_by<Hierarchical<Ring, Ring>>(of_rank, 3) == Sent{2, 3, 3});
}

TEST_CASE("a hierarchy is expected to take what its levels take", "[hierarchical]") {
  constexpr long m = 16 * 8 * 500;
  LinkCost link{1e-5, 1e-8, 0};
  const auto seconds = [&]<class Inner, class Outer>(Hierarchical<Inner, Outer>, int workers, long floats) {
    return Hierarchical<Inner, Outer>::traffic.gradients->seconds(workers, floats, link);
  };
  const Hierarchical<Ring, AllReduce> ring_inside;
  const Hierarchical<AllReduce, Ring> ring_between;
  CHECK(seconds(ring_inside, 8, m) == AllReduceTimes(8, m, link).by_ring);  // nothing is known of machines
  CHECK(seconds(ring_between, 8, m) == AllReduceTimes(8, m, link).least());
  link.machine = {.count = 2, .fewest = 4, .most = 4, .seconds = 1e-6, .seconds_per_float = 1e-9};
  const LinkCost flat = detail::between_machines(link);
  CHECK(seconds(ring_inside, 8, m) == Approx(6 * 1e-6 + 2 * 0.75 * m * 1e-9 + AllReduceTimes(2, m / 4, flat).least()));
  CHECK(seconds(ring_between, 8, m) == Approx(4 * 1e-6 + 2 * 0.75 * m * 1e-9 + AllReduceTimes(2, m / 4, flat).by_ring));
  CHECK(seconds(ring_inside, 8, 10) == AllReduceTimes(8, 10, link).least());
  link.machine = {.count = 8};
  CHECK(seconds(ring_inside, 8, m) == AllReduceTimes(8, m, link).least());
  CHECK(seconds(ring_between, 8, m) == AllReduceTimes(8, m, link).by_ring);
}

TEST_CASE("AllReduce goes by machines by itself, and gives the same bits with Reproducible", "[hierarchical]") {
  const std::vector<int> of_rank{0, 0, 0, 0, 1, 1, 1, 1};
  CHECK(sent_by<AllReduce>(of_rank, 16 * 8 * 500).between == 16 * 500 * 2);  // 2 (M - 1)/M of a quarter, in halves
  ranks::check_bits<OnMachinesOf<2>, networks::WholeRows, Features<16>>({2, 4, 8});
  ranks::check_bits<OnMachinesOf<3>, networks::WholeRows, Features<16>>({2, 4});
  using Policy = Policies<Features<16>, Distributed<ThreadWorld>, Hierarchical<AllReduce, AllReduce>, Reproducible>;
  static_assert(std::is_same_v<decltype(Policy::explanation<mistake::Nothing>())::type,
                               mistake::NotReproducible<Distributed<ThreadWorld>, mistake::Nothing>>);
}

static_assert(
    std::is_same_v<
        decltype(Policies<
                 Features<16>, Distributed<ThreadWorld>,
                 Hierarchical<AllReduce, Hierarchical<AllReduce, LocalSgd<4>>>>::explanation<mistake::Nothing>())::type,
        mistake::LevelUnknown<Hierarchical<AllReduce, Hierarchical<AllReduce, LocalSgd<4>>>, mistake::Nothing>>);

TEST_CASE("a summary says what goes inside of machines and between them", "[hierarchical]") {
  const auto line = []<class Policy>() {
    using T = Trainer<networks::WholeRows, CrossEntropy, PlainSgd, Features<16>, Distributed<ThreadWorld>, Policy>;
    return detail::synchronisation_text<typename T::Chosen, typename T::Training>();
  };
  CHECK(line.operator()<Hierarchical<AllReduce, Ring>>().starts_with(
      "synchronisation: all-reduce inside of machines, rings between them (synchronous); each of n ranks sends "
      "2 (n - 1)/n · "));
  CHECK(line.operator()<Hierarchical<Ring, AllReduce>>().starts_with(
      "synchronisation: rings inside of machines, all-reduce between them (synchronous); "));
  CHECK(line.operator()<Hierarchical<Ring, LocalSgd<8>>>().starts_with(
      "synchronisation: rings inside of machines, local SGD between them (at most 7 steps ahead); each of n ranks of a "
      "machine sends 2 (n - 1)/n · "));
  const std::string alone = line.operator()<Hierarchical<AllReduce, LocalSgd<8>>>();
  CHECK_THAT(alone, Catch::Matchers::Contains(" of gradients a step, each of the n ranks of all machines sends at "
                                              "most ⌈log₂ n⌉ · "));
  CHECK_THAT(alone, Catch::Matchers::Contains(" of parameters every 8 steps, 1/8 of it a step, in "));
  CHECK(Hierarchical<Ring, Ring>::name == std::string("rings inside of machines and between them"));
  CHECK(Hierarchical<AllReduce, AllReduce>::name == std::string("all-reduce inside of machines and between them"));
}

namespace {

using Input = Features<16>;
using networks::WholeRows;
constexpr Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};
template <class World, class... Tags>
using Rank = Trainer<WholeRows, MeanSquaredError, Sgd, Input, Distributed<World>, Tags...>;
using One = Trainer<WholeRows, MeanSquaredError, Sgd, Input>;
/// With values that a rank drops by its number among all.
struct WithDropout : Sequential<Linear<16, 32>, ReLU, Dropout<25>, Linear<32, 3>> {};
template <class World, class... Tags>
using DroppingRank = Trainer<WithDropout, MeanSquaredError, Sgd, Input, Distributed<World>, Tags...>;

template <class Weights>
std::vector<float> parameters_of(Weights& weights) {
  return {weights.parameters(), weights.parameters() + Weights::table.parameter_floats};
}

/// What ranks have after some steps, each with 4 samples of its own, and behind `synchronize` if asked.
template <class TrainerOfRank, class World>
std::vector<std::vector<float>> train(int ranks, int steps, bool synchronize = false) {
  const network::Samples<One> samples(4 * ranks);
  return ranks::Threads::collect(ranks, [&](int rank) {
    TrainerOfRank trainer{sgd, static_cast<std::uint64_t>(3 + rank)};
    for (int step = 0; step < steps; ++step)
      trainer.step(samples.inputs.data() + 4 * rank * Input::size,
                   samples.targets.data() + 4 * rank * One::Target::size, 4);
    if (synchronize) trainer.synchronize();
    return parameters_of(trainer.weights());
  });
}
template <int ranks_of_machine, class Synchronisation, class... Tags>
std::vector<std::vector<float>> train_on(int ranks, int steps, bool synchronize = false) {
  using World = ranks::MachineWorld<ranks_of_machine>;
  return train<Rank<World, Synchronisation, BucketBytes<1024>, Tags...>, World>(ranks, steps, synchronize);
}

/// What one device has after some steps with the samples of so many ranks.
std::vector<float> alone(int first, int ranks, int steps) {
  const network::Samples<One> samples(4 * (first + ranks));
  One trainer{sgd, 3};
  for (int step = 0; step < steps; ++step)
    trainer.step(samples.inputs.data() + 4 * first * Input::size,
                 samples.targets.data() + 4 * first * One::Target::size, 4 * ranks);
  return parameters_of(trainer.weights());
}

}  // namespace

TEST_CASE("machines train by themselves, then parameters become the mean of all ranks'", "[hierarchical]") {
  const auto check = [](const std::vector<std::vector<float>>& found, int of_first) {
    const auto ranks = static_cast<int>(found.size());
    const std::vector<float> first = alone(0, of_first, 3), second = alone(of_first, ranks - of_first, 3);
    std::vector<float> expected(first.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = (static_cast<float>(of_first) * first[i] + static_cast<float>(ranks - of_first) * second[i]) /
                    static_cast<float>(ranks);
    for (const auto& of_rank : found) CHECK(of_rank == found[0]);  // to the bit
    ranks::check_close(found[0], expected);
  };
  check(train_on<2, Hierarchical<AllReduce, LocalSgd<3>>>(4, 3), 2);
  check(train_on<2, Hierarchical<Ring, LocalSgd<3>>, MicroBatches<2>>(4, 3), 2);
  check(train_on<3, Hierarchical<AllReduce, LocalSgd<3>>>(4, 3), 3);  // three ranks and one
}

TEST_CASE("between two meetings each machine has parameters of its own", "[hierarchical]") {
  using Alone = Hierarchical<AllReduce, LocalSgd<4>>;
  const auto found = train_on<2, Alone>(4, 3);
  for (int machine = 0; machine < 2; ++machine) {
    const auto first = static_cast<std::size_t>(2 * machine);
    CHECK(found[first] == found[first + 1]);
    ranks::check_close(found[first], alone(2 * machine, 2, 3));
  }
  CHECK(found[0] != found[2]);
  const auto met = train_on<2, Alone>(4, 3, true), later = train_on<2, Alone>(4, 4);
  for (const auto& of_rank : met) CHECK(of_rank == met[0]);
  for (std::size_t i = 0; i < met[0].size(); ++i)
    CHECK(met[0][i] == Approx(0.5f * (found[0][i] + found[2][i])).margin(1e-6));
  for (const auto& of_rank : later) CHECK(of_rank == later[0]);
}

TEST_CASE("machines alone are what their ranks are on one machine, and where each has one to itself",
          "[hierarchical]") {
  CHECK(train_on<4, Hierarchical<AllReduce, LocalSgd<2>>>(4, 3) == train_on<4, AllReduce>(4, 3));
  CHECK(train_on<4, Hierarchical<Ring, LocalSgd<2>>>(4, 3) == train_on<4, Ring>(4, 3));
  using World = ranks::MachineWorld<1>;
  CHECK(train_on<1, Hierarchical<AllReduce, LocalSgd<2>>>(3, 5) == train<Rank<World, LocalSgd<2>>, World>(3, 5));
  CHECK(train<DroppingRank<World, Hierarchical<AllReduce, LocalSgd<2>>>, World>(3, 5) ==
        train<DroppingRank<World, LocalSgd<2>>, World>(3, 5));
  // Of threads nothing is said: they are on one machine.
  using Known = Hierarchical<AllReduce, LocalSgd<2>>;
  CHECK(train<Rank<ThreadWorld, Known>, ThreadWorld>(3, 5) == train<Rank<ThreadWorld, AllReduce>, ThreadWorld>(3, 5));
}

namespace {

/// Two ranks on each machine; what all of them send to other machines is counted.
struct Counted : OnMachines {
  using OnMachines::OnMachines;
  void send(int to, const float* data, long floats, MessageLabel label) {
    if (!of_ranks->are_together(rank(), to)) between += floats;
    OnMachines::send(to, data, floats, label);
  }
  inline static std::atomic<long> between = 0;
};
struct CountedWorld {
  static Counted connect() { return {*ThreadWorld::joined, {0, 0, 1, 1}}; }
};

/// Between the machines, by all ranks.
long sent_in(int steps) {
  const network::Samples<One> samples(4);
  Counted::between = 0;
  ranks::Threads::collect(4, [&](int) {
    Rank<CountedWorld, Hierarchical<AllReduce, LocalSgd<4>>, BucketBytes<1024>> trainer{sgd, 3};
    for (int step = 0; step < steps; ++step) trainer.step(samples.inputs.data(), samples.targets.data(), 4);
    return std::vector<float>{};
  });
  return Counted::between;
}

}  // namespace

TEST_CASE("nothing but parameters goes between machines that train by themselves", "[hierarchical]") {
  constexpr long floats = Weights<WholeRows>::table.parameter_floats;
  const long begun = sent_in(1), met = sent_in(4);
  CHECK(begun == floats);  // all begin with what rank 0 has
  CHECK(sent_in(3) == begun);
  CHECK(met == begun + 2 * floats);  // each machine's part of the sum to the other one
  CHECK(sent_in(7) == met);
  CHECK(sent_in(8) == met + 2 * floats);
}

namespace {

/// Parameters, then running statistics.
template <class Trainer>
std::vector<float> state_of(Trainer& trainer) {
  auto& weights = trainer.weights();
  std::vector<float> result(weights.parameters(), weights.parameters() + weights.table.parameter_floats);
  result.insert(result.end(), weights.buffers(), weights.buffers() + weights.table.buffer_floats);
  return result;
}
/// Of ranks with batch norm, two on each machine, behind two steps, or behind `synchronize`.
template <class... Policies>
std::vector<std::vector<float>> states(bool synchronize) {
  using T = Trainer<networks::Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Reference,
                    Distributed<ranks::MachineWorld<2>>, Hierarchical<AllReduce, LocalSgd<3>>, Policies...>;
  const network::Samples<T> samples(16);
  return ranks::Threads::collect(4, [&](int rank) {
    T trainer{sgd, static_cast<std::uint64_t>(3 + rank)};
    for (int step = 0; step < 2; ++step)
      trainer.step(samples.inputs.data() + 4 * rank * 60, samples.targets.data() + 4 * rank, 4);
    if (synchronize) trainer.synchronize();
    return state_of(trainer);
  });
}

}  // namespace

TEST_CASE("running statistics are those of a machine's first rank, then of rank 0", "[hierarchical]") {
  const auto buffers = [](const std::vector<float>& state) {
    return std::vector<float>(state.begin() + Weights<networks::Residual>::table.parameter_floats, state.end());
  };
  const auto apart = states<>(false), met = states<>(true);
  CHECK(apart[0] == apart[1]);
  CHECK(apart[2] == apart[3]);
  CHECK(buffers(apart[0]) != buffers(apart[2]));
  for (const auto& of_rank : met) {
    CHECK(of_rank == met[0]);
    CHECK(buffers(of_rank) == buffers(apart[0]));
  }
}

TEST_CASE("SyncBatchNorm takes the statistics of a machine's samples", "[hierarchical]") {
  using Whole = Trainer<networks::Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Reference>;
  const network::Samples<Whole> samples(16);
  const auto found = states<SyncBatchNorm>(false);
  for (int machine = 0; machine < 2; ++machine) {
    Whole whole{sgd, 3};
    for (int step = 0; step < 2; ++step)
      whole.step(samples.inputs.data() + 8 * machine * 60, samples.targets.data() + 8 * machine, 8);
    ranks::check_close(found[static_cast<std::size_t>(2 * machine)], state_of(whole));
  }
}
