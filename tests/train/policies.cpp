#include "tenet/train/policies.hpp"

#include <catch2/catch.hpp>
#include <tenet/device/reference.hpp>
#include <tenet/nn/linear.hpp>
#include <tenet/optim/sgd.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/train/model.hpp>
#include <tenet/train/trainer.hpp>

#include "../support/network.hpp"
#include "../support/networks.hpp"

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
static_assert(std::is_void_v<Wrong<BatchNormOfWorker, Two, Reproducible>> && std::is_void_v<Wrong<BatchNormOfWorker>>);
static_assert(std::is_same_v<Wrong<SyncBatchNorm>, mistake::SynchronisationOfOne<SyncBatchNorm>>);
static_assert(std::is_same_v<Wrong<Parts, SyncBatchNorm>, mistake::SynchronisationOfParts<SyncBatchNorm, Parts>>);
static_assert(std::is_same_v<Wrong<SyncBatchNorm, Two, Reproducible>, mistake::ShardsOfSyncBatchNorm<Reproducible>>);
static_assert(std::is_same_v<Wrong<SyncBatchNorm, MicroBatches<2>>, mistake::ShardsOfSyncBatchNorm<MicroBatches<2>>>);

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

/// A weight that is read by the gradient of its input after its own gradient is known, and one that two layers share.
struct ReadLate {
  Parameter<Fixed<4>, KaimingUniform<1>> scale;
  Linear<4, 4> shared;
  constexpr auto forward(auto x) const { return shared(scale.in(x)*tanh(shared(scale.in(x)*x))); }
};

/// Trains with both policies; after each step the parameters are the same.
template <class Net, class Loss, class Optimizer, class Input, class Device>
void update_alike(Optimizer optimizer) {
  using After = Trainer<Net, Loss, Optimizer, Input, Device, UpdateAfterBackward>;
  using In = Trainer<Net, Loss, Optimizer, UpdateInBackward, Input, Device>;
  static_assert(!std::is_same_v<typename After::Training, typename In::Training>);
  After after{optimizer, 3};
  In in{optimizer, 3};
  const network::Samples<After> samples(3);
  const auto count = static_cast<std::size_t>(Weights<Net>::table.parameter_floats);
  const std::vector<float> before(in.weights().parameters(), in.weights().parameters() + count);
  for (const int batch : {3, 1, 2, 1}) {
    CAPTURE(batch);
    const float expected = after.step(samples.inputs.data(), samples.targets.data(), batch).loss;
    CHECK(in.step(samples.inputs.data(), samples.targets.data(), batch).loss == Approx(expected).epsilon(1e-5));
    const float *const found = in.weights().parameters(), *const wanted = after.weights().parameters();
    float worst = 0, moved = 0;
    for (std::size_t i = 0; i < count; ++i) {
      worst = std::fmax(worst, std::fabs(found[i] - wanted[i]));
      moved = std::fmax(moved, std::fabs(wanted[i] - before[i]));
    }
    CHECK(moved > 1e-3f);
    CHECK(worst <= 1e-4f * moved);
  }
}
template <class Device>
void update_alike_on() {
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};
  update_alike<ReadLate, MeanSquaredError, Sgd, Features<4>, Device>(sgd);
  update_alike<ReadLate, MeanSquaredError, PlainSgd, Features<4>, Device>({.learning_rate = 0.05f});
  update_alike<networks::WholeRows, CrossEntropy, PlainSgd, Features<16>, Device>(
      {.learning_rate = 0.05f, .weight_decay = 0.01f});
  update_alike<networks::Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Device>(sgd);
  update_alike<networks::Drawn<3>, MeanSquaredError, Sgd, Batched<3, 4>, Device>(sgd);
  update_alike<networks::Drawn<4>, MeanSquaredError, Adam, Batched<3, 4>, Device>({});
  update_alike<networks::Transformer, CrossEntropy, AdamW, Tokens<4>, Device>({});
}
}  // namespace

TEST_CASE("updates in the backward pass and behind it are the same") {
  update_alike_on<Reference>();
  update_alike_on<Cpu<0, 2>>();
}

TEST_CASE("training by Winograd's algorithm follows training without it") {
  using Deep = Sequential<Conv2d<2, 16, 3, Padding<1>>, ReLU, Conv2d<16, 16, 3, Padding<1>>, BatchNorm2d<16>, ReLU,
                          Conv2d<16, 16, 3, Padding<1>>, ReLU, Flatten, Linear<1024, 3>>;
  using Input = Image<2, 8, 8>;
  using Fast = Trainer<Deep, CrossEntropy, Sgd, Input, Cpu<0, 2>>;
  using Direct = Trainer<Deep, CrossEntropy, Sgd, Input, Cpu<0, 2>, DirectConvolution>;
  static_assert(std::is_same_v<Direct::Kernels, CpuDirect> && std::is_same_v<Fast::Kernels, CpuKernels>);
  static_assert(std::is_same_v<Policies<Input, Reference, DirectConvolution>::Kernels, ReferenceKernels>);
  static_assert(std::is_same_v<Policies<Input, FusedConvolution>::Kernels, CpuKernels>);
  Fast fast{{.learning_rate = 0.05f, .momentum = 0.9f}, 3};
  Direct direct{{.learning_rate = 0.05f, .momentum = 0.9f}, 3};
  const auto inputs = network::numbers(16 * Input::size, 1);
  const std::int32_t labels[]{0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 1, 1, 2, 0};
  int different = 0;
  float first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    const float expected = direct.step(inputs.data(), labels, 16).loss;
    last = fast.step(inputs.data(), labels, 16).loss;
    CHECK(last == Approx(expected).epsilon(1e-3).margin(1e-5));
    different += last != expected;
    if (step == 0) first = last;
  }
  CHECK(last < 0.5f * first);
  CHECK(different > 0);  // they are two ways
  // Inference, whose weights are prepared, as well.
  Model<Deep, Input, Cpu<0, 2>> quick(5);
  Model<Deep, Input, Cpu<0, 2>, DirectConvolution> plain(5);
  const auto a = quick(inputs.data(), 16), b = plain(inputs.data(), 16);
  different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i] == Approx(b[i]).epsilon(1e-4).margin(1e-5));
    different += a[i] != b[i];
  }
  CHECK(different > 0);
}

TEST_CASE("policies in any order train alike") {
  One one{{.learning_rate = 0.1f}, 3};
  Other other{{.learning_rate = 0.1f}, 3};
  const float x[] = {1, 2, 3, 4}, y[] = {0.5f, -1};
  for (int step = 0; step < 3; ++step) CHECK(one.step(x, y, 1).loss == other.step(x, y, 1).loss);
}
