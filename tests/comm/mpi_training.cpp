#include <tenet/comm/mpi.hpp>
#include <tenet/parallel/hierarchical.hpp>
#include <tenet/parallel/hogwild.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/parallel/resident_ranks.hpp>
#include <tenet/parallel/resident_replicas.hpp>
#include <tenet/parallel/sharded_optimizer.hpp>

#include "../support/far_device.hpp"
#include "../support/message.hpp"
#include "../support/said_machine.hpp"
#include "../support/training_ranks.hpp"

// A part of the program of comm/mpi.cpp, which mpirun runs: what trains on ranks that it has started.

using namespace tenet;
using namespace std::chrono_literals;

namespace {

using One = Cpu<0, 1>;
constexpr Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};

struct Rank {
  int number, of;
  Rank() {
    const boost::mpi::communicator world;
    number = world.rank();
    of = world.size();
  }
};

/// Parameters, and running statistics if asked for.
template <class Net>
std::vector<float> numbers_of(auto& trainer, bool with_buffers = false) {
  auto& weights = trainer.weights();
  std::vector<float> result(weights.parameters(), weights.parameters() + Weights<Net>::table.parameter_floats);
  if (with_buffers)
    result.insert(result.end(), weights.buffers(), weights.buffers() + Weights<Net>::table.buffer_floats);
  return result;
}

/// All ranks have the same, to the bit.
void check_same(const std::vector<float>& found) {
  MpiTransport transport({}, 20s);
  std::vector<float> of_root = found;
  broadcast(transport, 0, of_root.data(), static_cast<long>(found.size()), {"parameters", 0, 0});
  CHECK(of_root == found);
}

/// Trains with the policies on all ranks, and on one device with the samples of all.
template <class Net, class Input, class Device, class World, class... Policies>
void check_training_of() {
  using Whole = Trainer<Net, CrossEntropy, Sgd, Input, Reference>;
  using Part = Trainer<Net, CrossEntropy, Sgd, Input, Device, World, BucketBytes<4096>, Policies...>;
  const Rank rank;
  const auto count_of = [](int r) { return 2 + r % 3; };
  int all = 0, first = 0;
  for (int r = 0; r < rank.of; ++r) {
    if (r < rank.number) first += count_of(r);
    all += count_of(r);
  }
  const network::Samples<Whole> samples(all);
  Whole whole{sgd, 0};
  Part part{sgd, static_cast<std::uint64_t>(rank.number)};
  for (int step = 0; step < 20; ++step) {
    const float expected = whole.step(samples.inputs.data(), samples.targets.data(), all).loss;
    const StepResult found =
        part.step(samples.inputs.data() + first * Input::size, samples.targets.data() + first, count_of(rank.number));
    CHECK(found.loss == Approx(expected).epsilon(1e-4));
  }
  constexpr bool with_buffers = Part::Chosen::BatchNorm::shares_batch;
  const std::vector<float> expected = numbers_of<Net>(whole, with_buffers), found = numbers_of<Net>(part, with_buffers);
  double worst = 0, largest = 1e-30;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    worst = std::fmax(worst, std::fabs(static_cast<double>(found[i]) - expected[i]));
    largest = std::fmax(largest, std::fabs(static_cast<double>(expected[i])));
  }
  CHECK(worst < 1e-4 * largest);
  check_same(found);
}
template <class Device, class World = Distributed<MpiMessages>, class... Policies>
void check_training() {
  check_training_of<networks::WholeRows, Features<16>, Device, World, Policies...>();
}

}  // namespace

TEST_CASE("training on ranks is training on one device with the samples of all", "[mpi_training]") {
  check_training<One>();
  check_training<One, Distributed<Mpi>>();
}

TEST_CASE("the same on devices with memories of their own", "[mpi_training]") {
  check_training<far::Device>();
  check_training<far::Device, Distributed<Mpi>, ShardedOptimizer>();
  check_training<far::Device, Distributed<Mpi, DataParallel<2>>>();
}

TEST_CASE("the same with parameter servers, and with the optimizer's state in parts", "[mpi_training]") {
  check_training<One, Distributed<MpiMessages>, ParameterServer<Sharded>>();
  check_training<One, Distributed<Mpi>, ParameterServer<OnRank<0>>>();
  check_training<One, Distributed<Mpi>, ShardedOptimizer>();
}

TEST_CASE("the same by a ring, of batches in pieces", "[mpi_training]") {
  check_training<One, Distributed<MpiMessages>, Ring>();
  check_training<One, Distributed<Mpi>, Ring, MicroBatches<2>>();
}

TEST_CASE("the same on several machines, of equal or different sizes", "[mpi_training]") {
  const Rank rank;
  for (const int of_machine : {2, 3}) {
    CAPTURE(of_machine);
    const SaidMachine said(rank.number / of_machine);
    check_training<One, Distributed<Mpi>>();
    check_training<One, Distributed<Mpi>, Hierarchical<AllReduce, Ring>>();
    check_training<One, Distributed<MpiMessages>, Hierarchical<Ring, AllReduce>>();
    check_training<One, Distributed<Mpi>, ShardedOptimizer>();
    check_training<One, Distributed<Mpi>, ParameterServer<OnRank<0>>>();
    check_training<One, Distributed<Mpi, DataParallel<2>>>();
  }
}

TEST_CASE("the same on ranks with replicas", "[mpi_training]") {
  check_training<One, Distributed<Mpi, DataParallel<2>>>();
}

TEST_CASE("the same with statistics of batch norm of all samples", "[mpi_training]") {
  check_training_of<networks::Residual, Image<2, 6, 5>, One, Distributed<Mpi>, SyncBatchNorm>();
}

TEST_CASE("Reproducible: the bits of one process, on any number of ranks", "[mpi_training]") {
  const Rank rank;
  if (8 % rank.of != 0) return;
  using Net = networks::Residual;
  using Input = Image<2, 6, 5>;
  Trainer<Net, CrossEntropy, Sgd, Input, One, Reproducible> one{sgd, 3};
  Trainer<Net, CrossEntropy, Sgd, Input, One, Distributed<Mpi>, Reproducible, BucketBytes<300>> part{sgd, 3};
  const std::vector<float> expected = ranks::bits_after_steps(one, 24, 0, 1);
  CHECK(ranks::bits_after_steps(part, 24, rank.number, rank.of) == expected);
  for (const int of_machine : {2, 3}) {
    const SaidMachine said(rank.number / of_machine);
    Trainer<Net, CrossEntropy, Sgd, Input, One, Distributed<Mpi>, Reproducible, BucketBytes<300>> again{sgd, 3};
    CHECK(ranks::bits_after_steps(again, 24, rank.number, rank.of) == expected);
  }
}

namespace {

/// Trains on ranks that do not meet in every step, each with samples of its own. The loss falls below `most`, from 1.1
/// of an untrained network, and all ranks have the same at the end.
template <class World, class... Policies>
void check_progress(float most) {
  using Net = networks::WholeRows;
  using Part = Trainer<Net, CrossEntropy, Sgd, Features<16>, One, World, Policies...>;
  const Rank rank;
  constexpr int count = 6;
  const network::Samples<Part> samples(count * rank.of);
  Part part{{.learning_rate = 0.1f, .momentum = 0.5f}, static_cast<std::uint64_t>(rank.number)};
  float loss = 0;
  for (int step = 0; step < 303; ++step)
    loss =
        part.step(samples.inputs.data() + count * rank.number * 16, samples.targets.data() + count * rank.number, count)
            .loss;
  part.synchronize();
  CAPTURE(rank.of);
  CHECK(loss < most);
  check_same(numbers_of<Net>(part));
}

}  // namespace

TEST_CASE("ranks that do not wait for each other train, and have the same when they have met", "[mpi_training]") {
  check_progress<Distributed<MpiMessages>, ParameterServer<Sharded, Asynchronous>, BucketBytes<4096>>(0.4f);
  check_progress<Distributed<Mpi>, ParameterServer<Sharded, BoundedStaleness<2>>, BucketBytes<4096>>(0.4f);
  check_progress<Distributed<Mpi>, LocalSgd<5>>(0.4f);  // 303 steps: what comes behind the last mean is not lost
  const SaidMachine said(Rank().number / 2);
  check_progress<Distributed<Mpi>, Hierarchical<AllReduce, LocalSgd<5>>, BucketBytes<4096>>(0.4f);
  check_progress<Distributed<MpiMessages, DataParallel<2>>, Hierarchical<Ring, LocalSgd<5>>>(0.4f);
}
TEST_CASE("ranks that share the parameters train", "[mpi_training][one_machine]") {
  check_progress<Distributed<Mpi>, Hogwild<4>>(0.4f);
}

namespace {

/// Ranks that could have shared memory, and do not.
struct WithoutMemory {
  static Mpi::Transport connect() { return MpiMessages::connect(); }
};

}  // namespace

TEST_CASE("Hogwild says that ranks have no memory in common", "[mpi_training]") {
  const int ranks = Rank().of;
  const std::string message = message_of([] { check_progress<Distributed<WithoutMemory>, Hogwild<4>>(0.4f); });
  if (ranks == 1)
    CHECK(message == "");  // it has all memory in common with itself
  else
    CHECK(message ==
          "Hogwild: these ranks have no memory in common, for want of room or because they run on several machines; "
          "expected ranks of one machine that share it, or ParameterServer<Sharded, Asynchronous> in place of Hogwild, "
          "found " +
              std::to_string(ranks) + " ranks that exchange messages");
  if (ranks < 4) return;
  const SaidMachine said(Rank().number / 2);  // two of them have memory in common, all have not
  CHECK(message_of([] { check_progress<Distributed<Mpi>, Hogwild<4>>(0.4f); }) == message);
}
