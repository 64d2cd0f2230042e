#include "tenet/parallel/resident_ranks.hpp"

#include "../support/far_device.hpp"
#include "../support/machines.hpp"
#include "../support/training_ranks.hpp"
#include "tenet/parallel/hierarchical.hpp"
#include "tenet/parallel/local_sgd.hpp"
#include "tenet/parallel/parameter_server.hpp"
#include "tenet/parallel/resident_replicas.hpp"
#include "tenet/parallel/resident_servers.hpp"
#include "tenet/parallel/sharded_optimizer.hpp"

using namespace tenet;
using ranks::check_close;

namespace {

/// With what is kept from step to step, and a batch norm, whose statistics are those of a rank's samples.
struct Net : Sequential<Conv2d<1, 4, 3>, BatchNorm2d<4>, ReLU, Dropout<25>, Flatten, Linear<16, 3>> {};
using Learner = Trainer<Net, CrossEntropy, Sgd, Image<1, 4, 4>>;

using Machines = Distributed<ranks::MachineWorld<2>>;
/// Ranks with so many devices each.
template <int devices>
using RanksOf = Distributed<ThreadWorld, std::conditional_t<devices == 1, Single, DataParallel<devices>>>;

/// Losses, parameters and statistics of a rank after some steps; in each the ranks have `parts` of the samples.
template <class Device, class Strategy, class... Policies>
std::vector<std::vector<float>> numbers_of(const std::vector<int>& parts) {
  int all = 0;
  for (const int part : parts) all += part;
  const network::Samples<Learner> samples(all);
  return ranks::Threads::collect(static_cast<int>(parts.size()), [&](int rank) {
    Trainer<Net, CrossEntropy, Sgd, Image<1, 4, 4>, Device, Strategy, Policies...> trainer{
        {.learning_rate = 0.05f, .momentum = 0.9f}, static_cast<std::uint64_t>(rank) + 3};
    std::vector<float> numbers;
    for (int step = 0; step < 5; ++step) {
      const int turned = (rank + (step > 2 ? 1 : 0)) % static_cast<int>(parts.size());  // sizes change
      int before = 0;
      for (int r = 0; r < turned; ++r) before += parts[static_cast<std::size_t>(r)];
      const StepResult result = trainer.step(samples.inputs.data() + before * 16, samples.targets.data() + before,
                                             parts[static_cast<std::size_t>(turned)]);
      numbers.insert(numbers.end(), {result.loss, result.accuracy});
    }
    const float* const gradients = trainer.gradients();
    auto& weights = trainer.weights();
    numbers.insert(numbers.end(), weights.parameters(), weights.parameters() + weights.table.parameter_floats);
    numbers.insert(numbers.end(), weights.buffers(), weights.buffers() + weights.table.buffer_floats);
    const auto scores = trainer.predict(samples.inputs.data(), 2);
    numbers.insert(numbers.end(), scores.begin(), scores.end());
    if (!(false || ... || detail::HasServers<Policies>))  // to which a rank's own gradient went, where there are such
      numbers.insert(numbers.end(), gradients, gradients + weights.table.parameter_floats);
    return numbers;
  });
}

template <class Strategy, class... Policies>
void check_with() {
  for (const std::vector<int>& parts : {std::vector<int>{4, 4}, {5, 1, 3}, {3, 4, 2, 3}}) {
    const auto expected = numbers_of<Reference, Strategy, BucketBytes<64>, Policies...>(parts),
               found = numbers_of<far::Device, Strategy, BucketBytes<64>, Policies...>(parts);
    CAPTURE(parts.size());
    check_close(found[0], expected[0]);
    for (const auto& of_rank : found) CHECK(of_rank == found[0]);  // to the bit
  }
}
template <class... Policies>
void check() {
  check_with<RanksOf<1>, Policies...>();
}

}  // namespace

TEST_CASE("ranks whose devices have memories of their own train as those on the host do",
          "[parallel][resident_ranks]") {
  check<>();
}

TEST_CASE("MicroBatches: each takes its samples in pieces", "[parallel][resident_ranks]") { check<MicroBatches<2>>(); }

TEST_CASE("Ring: gradients go from device to device, and from rank to rank", "[parallel][resident_ranks]") {
  check_with<RanksOf<2>, Ring>();
}

namespace {

/// Of each rank, whose parameters are its own between two meetings.
template <class... Policies>
void check_ranks_that_differ() {
  for (const std::vector<int>& parts : {std::vector<int>{4, 4}, {5, 1, 3}}) {
    const auto expected = numbers_of<Reference, RanksOf<1>, Policies...>(parts),
               found = numbers_of<far::Device, RanksOf<1>, Policies...>(parts);
    CHECK(found[1] != found[0]);
    for (std::size_t rank = 0; rank < parts.size(); ++rank) check_close(found[rank], expected[rank]);
  }
}

enum class Until { steps, meeting, next_step };

/// Parameters and statistics behind 3 steps, behind `synchronize`, or behind a step more. Who reads them sooner would
/// have the device fetch them anew.
template <class Device>
std::vector<std::vector<float>> numbers_around_meeting(int ranks, Until end) {
  const network::Samples<Learner> samples(4 * ranks);
  return ranks::Threads::collect(ranks, [&](int rank) {
    Trainer<Net, CrossEntropy, Sgd, Image<1, 4, 4>, Device, Distributed<ThreadWorld>, LocalSgd<100>> trainer{
        {.learning_rate = 0.05f, .momentum = 0.9f}, static_cast<std::uint64_t>(rank) + 3};
    const auto step = [&] { trainer.step(samples.inputs.data() + rank * 64, samples.targets.data() + rank * 4, 4); };
    for (int i = 0; i < 3; ++i) step();
    if (end != Until::steps) trainer.synchronize();
    if (end == Until::next_step) step();
    auto& weights = trainer.weights();
    std::vector<float> numbers(weights.parameters(), weights.parameters() + weights.table.parameter_floats);
    numbers.insert(numbers.end(), weights.buffers(), weights.buffers() + weights.table.buffer_floats);
    return numbers;
  });
}

}  // namespace

TEST_CASE("LocalSgd: each trains by itself, then the devices' parameters become their mean",
          "[parallel][resident_ranks]") {
  check_ranks_that_differ<LocalSgd<3>, MicroBatches<2>>();

  constexpr int ranks = 3;
  for (const Until end : {Until::steps, Until::meeting, Until::next_step}) {
    const auto expected = numbers_around_meeting<Reference>(ranks, end),
               found = numbers_around_meeting<far::Device>(ranks, end);
    CAPTURE(static_cast<int>(end));
    for (std::size_t rank = 0; rank < found.size(); ++rank) {
      check_close(found[rank], expected[rank]);
      if (rank > 0) CHECK((found[rank] == found[0]) == (end == Until::meeting));  // to the bit
    }
  }
}

TEST_CASE("machines train by themselves, then the devices' parameters become their mean",
          "[parallel][resident_ranks]") {
  const auto check_machines = []<class... Policies>() {
    for (const std::vector<int>& parts : {std::vector<int>{4, 4}, {5, 1, 3}, {3, 4, 2, 3}}) {
      CAPTURE(parts.size());
      const auto expected = numbers_of<Reference, Machines, Policies...>(parts),
                 found = numbers_of<far::Device, Machines, Policies...>(parts);
      for (std::size_t rank = 0; rank < parts.size(); ++rank) check_close(found[rank], expected[rank]);
      CHECK(found[1] == found[0]);  // of one machine
      if (parts.size() > 2) CHECK(found[2] != found[0]);
    }
  };
  check_machines.operator()<Hierarchical<AllReduce, LocalSgd<3>>>();
  check_machines.operator()<Hierarchical<Ring, LocalSgd<1>>, MicroBatches<2>>();
}

TEST_CASE("ranks with several devices, or machines of such, train by themselves between two meetings",
          "[parallel][resident_ranks]") {
  const auto check_ranks = []<class Strategy, class... Policies>(std::type_identity<Strategy>, int together) {
    const std::vector<int> parts{5, 3, 4, 6};
    const auto expected = numbers_of<Reference, Strategy, Policies...>(parts),
               found = numbers_of<far::Device, Strategy, Policies...>(parts);
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      check_close(found[rank], expected[rank]);
      if (rank > 0) CHECK((found[rank] == found[0]) == (static_cast<int>(rank) < together));
    }
  };
  using Two = DataParallel<2>;
  check_ranks.operator()<Distributed<ThreadWorld, Two>, LocalSgd<3>>({}, 1);
  check_ranks.operator()<Distributed<ranks::MachineWorld<2>, Two>, Hierarchical<AllReduce, LocalSgd<3>>>({}, 2);
  check_ranks.operator()<Distributed<ranks::MachineWorld<2>, Two>, Hierarchical<Ring, LocalSgd<2>>, MicroBatches<2>>({},
                                                                                                                     2);
}

TEST_CASE("Hierarchical: devices of a machine add up parts of the gradients, then the machines do",
          "[parallel][resident_ranks]") {
  check_with<Machines, Hierarchical<AllReduce, Ring>>();
  check_with<Machines, Hierarchical<Ring, AllReduce>, MicroBatches<2>>();
  check_with<Machines, Hierarchical<AllReduce, AllReduce>, SyncBatchNorm>();
  check_with<RanksOf<1>, Hierarchical<AllReduce, Ring>>();  // on one machine
}

TEST_CASE("ShardedOptimizer: each updates its part of the parameters", "[parallel][resident_ranks]") {
  check<ShardedOptimizer>();
  check<ShardedOptimizer, MicroBatches<2>>();
}

TEST_CASE("a parameter server between ranks: who owns a part of the parameters updates it",
          "[parallel][resident_ranks]") {
  check<ParameterServer<Sharded>>();
  check<ParameterServer<OnRank<1>>>();
}

TEST_CASE("OnCpu: servers in the hosts' memory add up and update for the ranks' devices",
          "[parallel][resident_ranks]") {
  check<ParameterServer<OnCpu>>();
  check<ParameterServer<OnCpu>, MicroBatches<2>>();
}

TEST_CASE("ranks with several such devices each train as those on the host do", "[parallel][resident_ranks]") {
  check_with<RanksOf<2>>();
  check_with<RanksOf<3>, MicroBatches<2>>();
}

TEST_CASE("of several devices of each rank each updates what it owns, to the bits of those that update all",
          "[parallel][resident_ranks]") {
  const std::vector<int> parts{4, 1, 3};
  const auto expected = numbers_of<far::Device, RanksOf<2>, BucketBytes<64>>(parts);
  const auto check_owners = [&](const std::vector<std::vector<float>>& found, std::size_t gradients_left_out) {
    for (const auto& of_rank : found) {
      REQUIRE(of_rank.size() + gradients_left_out == expected[0].size());
      CHECK(std::equal(of_rank.begin(), of_rank.end(), expected[0].begin()));
    }
  };
  check_owners(numbers_of<far::Device, RanksOf<2>, BucketBytes<64>, ShardedOptimizer>(parts), 0);
  constexpr auto floats = static_cast<std::size_t>(Weights<Net>::table.parameter_floats);
  check_owners(numbers_of<far::Device, RanksOf<2>, BucketBytes<64>, ParameterServer<Sharded>>(parts), floats);
  check_owners(numbers_of<far::Device, RanksOf<2>, BucketBytes<64>, ParameterServer<OnRank<5>>>(parts), floats);
}

TEST_CASE("SyncBatchNorm: they train as one device with the samples of all", "[parallel][resident_ranks]") {
  using networks::Residual;
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f};
  ranks::check_training<ranks::Threads, Residual, CrossEntropy, Sgd, Image<2, 6, 5>, far::Device, SyncBatchNorm>(
      {2, 3, 1}, sgd);
  ranks::check_training<ranks::WithReplicas<ranks::Threads, 2>, Residual, CrossEntropy, Sgd, Image<2, 6, 5>,
                        far::Device, SyncBatchNorm>({2, 3, 1}, sgd);
}
