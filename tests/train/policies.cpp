#include "tenet/train/policies.hpp"

#include <catch2/catch.hpp>
#include <tenet/device/reference.hpp>
#include <tenet/nn/linear.hpp>
#include <tenet/nn/sequential.hpp>
#include <tenet/optim/sgd.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/train/model.hpp>
#include <tenet/train/trainer.hpp>

using namespace tenet;

namespace {
// The list is unordered, and everything but the input's shape has a default.
static_assert(std::is_same_v<Policies<Features<4>>::Input, Features<4>>);
static_assert(std::is_same_v<Policies<Features<4>>::Device, Cpu<>>);
static_assert(std::is_same_v<Policies<Features<4>, Cpu<1, 2>>::Device, Cpu<1, 2>>);
static_assert(std::is_same_v<Policies<Cpu<1, 2>, Features<4>>::Device, Cpu<1, 2>>);
static_assert(std::is_same_v<Policies<Reference, Tokens<7>>::Device, Reference>);
static_assert(std::is_same_v<Policies<Reference, Tokens<7>>::Input, Tokens<7>>);
static_assert(std::is_same_v<Policies<Reference, Tokens<7>>::Update, UpdateAfterBackward>);
static_assert(std::is_same_v<Policies<UpdateInBackward, Tokens<7>>::Update, UpdateInBackward>);
static_assert(std::is_same_v<Policies<Reference, Tokens<7>>::OneSample, OneSampleIfSmall>);
static_assert(std::is_same_v<Policies<OneSampleAlways, Tokens<7>>::OneSample, OneSampleAlways>);

static_assert(std::is_same_v<Policies<Reference, Tokens<7>>::Kernels, ReferenceKernels>);
static_assert(Policies<Reference, Tokens<7>>::Memory::memory_bound == 0);
static_assert(Policies<MemoryBound<4096>, Tokens<7>, Reference>::Memory::memory_bound == 4096);
static_assert(Policies<BFloat16, Tokens<7>, Reference>::Kernels::activations == DType::bfloat16);

// Devices that run parts of one network compute each gradient once.
using Parts = InterOpParallel<2>;
template <class... Tags>
using Wrong = typename decltype(Policies<Features<4>, Tags...>::template explanation<mistake::Nothing>())::type;
static_assert(std::is_void_v<Wrong<Parts>> && std::is_void_v<Wrong<Parts, UpdateInBackward, BFloat16>>);
static_assert(std::is_same_v<Wrong<Parts, Ring>, mistake::SynchronisationOfParts<Ring, Parts>>);
static_assert(std::is_same_v<Wrong<BucketBytes<64>, Parts>, mistake::SynchronisationOfParts<BucketBytes<64>, Parts>>);
static_assert(std::is_same_v<Wrong<Parts, Reproducible>, mistake::ShardsOfParts<Reproducible, Parts>>);
static_assert(std::is_same_v<Wrong<Parts, DataParallel<2>>, mistake::ArgumentGivenTwice<Parts>>);

// Batch norm of the whole batch is for workers that share it and take each step together.
using Two = DataParallel<2>;
static_assert(std::is_void_v<Wrong<SyncBatchNorm, Two>> && std::is_void_v<Wrong<SyncBatchNorm, Two, Ring>>);
static_assert(std::is_void_v<Wrong<SyncBatchNorm, Two, ParameterServer<Sharded>>>);
static_assert(std::is_void_v<Wrong<SyncBatchNorm, Two, ParameterServer<OnCpu>>>);
static_assert(std::is_void_v<Wrong<BatchNormOfWorker, Two, Reproducible>> && std::is_void_v<Wrong<BatchNormOfWorker>>);
static_assert(std::is_same_v<Wrong<SyncBatchNorm>, mistake::SynchronisationOfOne<SyncBatchNorm>>);
static_assert(std::is_same_v<Wrong<Parts, SyncBatchNorm>, mistake::SynchronisationOfParts<SyncBatchNorm, Parts>>);
static_assert(std::is_same_v<Wrong<SyncBatchNorm, Two, Reproducible>, mistake::ShardsOfSyncBatchNorm<Reproducible>>);
static_assert(std::is_same_v<Wrong<SyncBatchNorm, MicroBatches<2>>, mistake::ShardsOfSyncBatchNorm<MicroBatches<2>>>);

// What cuts batches is no strategy; servers of replicas add up in its order.
static_assert(std::is_void_v<Wrong<MicroBatches<2>>> && std::is_void_v<Wrong<Reproducible>>);
static_assert(std::is_same_v<Wrong<MicroBatches<2>, Ring>, mistake::SynchronisationOfOne<Ring>>);
static_assert(std::is_same_v<Wrong<Reproducible, BucketBytes<64>>, mistake::SynchronisationOfOne<BucketBytes<64>>>);
static_assert(std::is_void_v<Wrong<Reproducible, Two, ParameterServer<Sharded>>>);

// Replicas share the host's memory, and ask nobody for what is there.
static_assert(!Policies<Features<4>, Two, ParameterServer<OnCpu>>::asks_servers);
static_assert(Policies<Features<4>, Two, ParameterServer<OnCpu>>::has_states);
static_assert(!Policies<Features<4>, Two, ParameterServer<OnCpu>>::has_late_parameters());

using Net = Linear<4, 2>;
using One = Trainer<Net, MeanSquaredError, Sgd, Features<4>, Reference>;
using Other = Trainer<Net, MeanSquaredError, Sgd, Reference, Features<4>>;
static_assert(std::is_same_v<One::Training, Other::Training>);
static_assert(std::is_same_v<One::Device, Reference> && std::is_same_v<Other::Input, Features<4>>);
// Logical devices and numbers of threads share the compiled program.
using First = Trainer<Net, MeanSquaredError, Sgd, Features<4>, Cpu<0, 1>>;
using Second = Trainer<Net, MeanSquaredError, Sgd, Cpu<1, 2>, Features<4>>;
static_assert(std::is_same_v<First::Training, Second::Training>);
// A model takes the same policies.
using Large = Sequential<Linear<1000, 1001>>;
static_assert(!ModelOf<Large, Features<1000>>::Running::has_one_sample());
static_assert(ModelOf<Large, Features<1000>, OneSampleAlways>::Running::has_one_sample());
}  // namespace

TEST_CASE("policies in any order train alike") {
  One one{{.learning_rate = 0.1f}, 3};
  Other other{{.learning_rate = 0.1f}, 3};
  const float x[] = {1, 2, 3, 4}, y[] = {0.5f, -1};
  for (int step = 0; step < 3; ++step) CHECK(one.step(x, y, 1).loss == other.step(x, y, 1).loss);
}
