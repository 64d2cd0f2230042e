#include <catch2/catch.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <vector>

#include "../support/machines.hpp"
#include "../support/same_training.hpp"
#include "../support/thread_world.hpp"
#include "tenet/comm/thread_transport.hpp"
#include "tenet/cuda.hpp"
#include "tenet/device/cuda_on_host.hpp"
#include "tenet/parallel/hierarchical.hpp"
#include "tenet/parallel/local_sgd.hpp"
#include "tenet/parallel/nccl.hpp"
#include "tenet/parallel/parameter_server.hpp"
#include "tenet/parallel/sharded_optimizer.hpp"
#include "tenet/tenet.hpp"

using namespace tenet;

namespace {

struct Net : Sequential<Conv2d<1, 4, 3>, BatchNorm2d<4>, ReLU, Flatten, Linear<144, 3>> {};
template <class Device, class Strategy, class... Policies>
using TrainerBy = Trainer<Net, CrossEntropy, Sgd, Image<1, 8, 8>, Device, Strategy, Policies...>;

/// Two trainers learn the same: of whole batches, and some that leave a device without samples.
template <class Here, class There>
void check_same() {
  std::vector<float> images(12 * 64);
  std::vector<std::int32_t> labels(12);
  Random random(5);
  for (float& pixel : images) pixel = random.uniform(-1, 1);
  for (std::int32_t& label : labels) label = static_cast<int>(random.below(3));
  Here here{{.learning_rate = 0.05f}, 3};
  There there{{.learning_rate = 0.05f}, 3};
  check_same_training(here, there, images.data(), labels.data(), {4, 4, 12, 4, 1, 12, 1}, 1e-4f);
}
/// Several of a device train as replicas of the reference device do by `AllReduce`.
template <class Device, class Strategy, class Synchronisation = AllReduce, class... Policies>
void check_training_by() {
  check_same<TrainerBy<Reference, DataParallel<Strategy::replicas>, AllReduce, BucketBytes<64>, Policies...>,
             TrainerBy<Device, Strategy, Synchronisation, BucketBytes<64>, Policies...>>();
}
template <class Device, int replicas, class... Policies>
void check_training() {
  check_training_by<Device, DataParallel<replicas>, Policies...>();
}
/// Calls task() as the only rank.
template <class Task>
void run_as_rank(const Task& task) {
  ThreadNetwork network(1);
  ThreadTransport transport(network, 0);
  const ThreadWorld::Joined joined(transport);
  task();
}
template <class Device, int replicas, class... Policies>
void check_rank() {
  run_as_rank(check_training_by<Device, Distributed<ThreadWorld, DataParallel<replicas>>, Policies...>);
}

}  // namespace

TEST_CASE("several devices train together, in pieces, through memories that are closed to the host", "[cuda][nccl]") {
  check_training<CudaOnHost<>, 2, AllReduce, MicroBatches<2>>();
  check_training<CudaOnHost<>, 2, ParameterServer<Sharded>>();
  check_training<CudaOnHost<>, 2, ParameterServer<OnCpu>>();
  check_rank<CudaOnHost<>, 2>();
}

TEST_CASE("one GPU, and two, train through NCCL", "[cuda][nccl]") {
  if (gpu::device_count() > 0)
    check_training<Cuda<0>, 1, AllReduce, SyncBatchNorm>();  // whose sums are NCCL's, with one GPU, too
  if (gpu::device_count() > 1) check_training<Cuda<0>, 2>();
  if (gpu::device_count() > 1) check_training<Cuda<0>, 2, ParameterServer<Sharded>>();
  if (gpu::device_count() > 0) check_training<Cuda<0>, 1, ParameterServer<OnCpu>, SyncBatchNorm>();
  if (gpu::device_count() > 1) check_training<Cuda<0>, 2, ParameterServer<OnCpu>>();
  if (gpu::device_count() > 0) check_rank<Cuda<0>, 1, Ring>();
  if (gpu::device_count() > 1) check_rank<Cuda<0>, 2, ShardedOptimizer>();
}

TEST_CASE("a rank's gradients go to servers from a memory that is closed to the host, recorded", "[cuda][nccl]") {
  const auto check = []<class Server>(std::type_identity<Server>) {
    run_as_rank(check_same<TrainerBy<Reference, Single>, TrainerBy<CudaOnHost<>, Distributed<ThreadWorld>, Server>>);
    if (gpu::device_count() > 0)
      run_as_rank(check_same<TrainerBy<Reference, Single>, TrainerBy<Cuda<0>, Distributed<ThreadWorld>, Server>>);
  };
  check(std::type_identity<ParameterServer<Sharded, Asynchronous>>{});
  check(std::type_identity<ParameterServer<OnCpu>>{});
}

TEST_CASE("a GPU that is the only rank, and meets nobody, trains by itself", "[cuda][nccl]") {
  if (gpu::device_count() > 0)
    run_as_rank(check_same<TrainerBy<Reference, Single>, TrainerBy<Cuda<0>, Distributed<ThreadWorld>, LocalSgd<2>>>);
  using Machines = Hierarchical<AllReduce, LocalSgd<2>>;
  if (gpu::device_count() > 0)
    run_as_rank(check_same<TrainerBy<Reference, Single>, TrainerBy<Cuda<0>, Distributed<ThreadWorld>, Machines>>);
  if (gpu::device_count() > 0)
    run_as_rank(check_same<TrainerBy<Reference, Single>,
                           TrainerBy<Cuda<0>, Distributed<ThreadWorld, DataParallel<1>>, Machines>>);
}

namespace {

/// GPUs of two machines, in turns.
struct OnTwo : ranks::OnMachines {
  explicit OnTwo(const ThreadTransport& own)
      : OnMachines(own, [&] {
          std::vector<int> machine_of_rank;
          for (int rank = 0; rank < own.size(); ++rank) machine_of_rank.push_back(rank % 2);
          return machine_of_rank;
        }()) {}
};

/// What work(stream, communicator, numbers there) leaves of each GPU's numbers.
template <class Transport = ThreadTransport, class Communicator = DeviceCommunicator<gpu::Stream, Transport>,
          class Numbers, class Work>
std::vector<std::vector<float>> numbers_after(const Numbers& numbers_of, const Work& work) {
  const int count = gpu::device_count();
  ThreadNetwork network(std::max(count, 1));
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> found(static_cast<std::size_t>(count));
  for (int r = 0; r < count; ++r)
    threads.emplace_back([&, r] {
      gpu::Stream stream(r);
      Transport transport(ThreadTransport(network, r));
      Communicator communicator(stream, transport);
      std::vector<float> numbers = numbers_of(r);
      const auto floats = static_cast<long>(numbers.size());
      DeviceBuffer<gpu::Stream> there;
      there.grow(stream, floats, "a test");
      for (int round = 0; round < 2; ++round) {
        stream.copy_in(there.data(), numbers.data(), 4 * floats);
        communicator.weigh(static_cast<float>(r + 1) / static_cast<float>(round + 1));
        work(stream, communicator, there.data(), floats);
        communicator.await(stream);
      }
      stream.copy_out(numbers.data(), there.data(), 4 * floats);
      stream.synchronize();
      found[static_cast<std::size_t>(r)] = numbers;
    });
  for (std::thread& thread : threads) thread.join();
  return found;
}

/// The sum over GPUs of (r + 1) / 2.
float half_weights() {
  const int count = gpu::device_count();
  return 0.25f * static_cast<float>(count * (count + 1));
}

/// Of each GPU: all numbers, when the owners of parts have added these up and all have been brought together.
template <class Place>
void check_owners(long floats) {
  const auto found = numbers_after(
      [&](int) {
        std::vector<float> numbers(static_cast<std::size_t>(floats));
        for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
        return numbers;
      },
      [](gpu::Stream& stream, auto& communicator, float* numbers, long count) {
        communicator.reduce_to_owners(stream, numbers, count, {"numbers", 0, -1}, Place());
        communicator.gather_from_owners(stream, numbers, count, {"numbers", 1, -1}, Place());
      });
  long differing = 0;
  for (const std::vector<float>& numbers : found)
    for (std::size_t i = 0; i < numbers.size(); ++i) differing += numbers[i] != static_cast<float>(i) * half_weights();
  CHECK(differing == 0);
}

}  // namespace

TEST_CASE("GPUs add up their numbers by their weights, and send those of one of them", "[cuda][nccl]") {
  constexpr long floats = 1000;
  const int count = gpu::device_count();
  const auto found = numbers_after([&](int r) { return std::vector<float>(2 * floats, r == count - 1 ? 3.0f : 1.0f); },
                                   [&](gpu::Stream& stream, auto& communicator, float* numbers, long) {
                                     communicator.broadcast(stream, count - 1, numbers, 2 * floats, {"numbers", 1, -1});
                                     communicator.add_up_weighted(stream, numbers, floats, {"numbers", 0, -1});
                                   });
  for (const std::vector<float>& numbers : found) {
    CHECK(numbers[0] == 3 * half_weights());
    CHECK(numbers[999] == numbers[0]);
    CHECK(numbers[1000] == 3);
    CHECK(numbers[1999] == 3);
  }
}

TEST_CASE("GPUs add up their numbers by a ring, where these are not so many for each", "[cuda][nccl]") {
  for (const long floats : {1L, 960L, 1001L}) {
    const auto found =
        numbers_after([&](int) { return std::vector<float>(static_cast<std::size_t>(floats), 3.0f); },
                      [](gpu::Stream& stream, auto& communicator, float* numbers, long count) {
                        communicator.template add_up_weighted<Ring>(stream, numbers, count, {"numbers", 0, -1});
                      });
    for (const std::vector<float>& numbers : found)
      CHECK(numbers == std::vector<float>(static_cast<std::size_t>(floats), 3 * half_weights()));
  }
}

TEST_CASE("GPUs of two machines add up parts of their numbers on each, then between them", "[cuda][nccl]") {
  for (const long floats : {1L, 1001L}) {
    const auto found = numbers_after<OnTwo, DeviceLevels<gpu::Stream, OnTwo>>(
        [&](int) { return std::vector<float>(static_cast<std::size_t>(floats), 3.0f); },
        [](gpu::Stream& stream, auto& communicator, float* numbers, long count) {
          communicator.template add_up_weighted<Hierarchical<AllReduce, Ring>>(stream, numbers, count,
                                                                               {"numbers", 0, -1});
        });
    for (const std::vector<float>& numbers : found)
      CHECK(numbers == std::vector<float>(static_cast<std::size_t>(floats), 3 * half_weights()));
  }
}

TEST_CASE("parts of a sum come to the GPUs that own them, and from them to all", "[cuda][nccl]") {
  for (const long floats : {960L, 1000L, 3L}) {  // in equal parts for most numbers of GPUs, and not
    check_owners<Sharded>(floats);
    check_owners<OnRank<0>>(floats);
  }
}
