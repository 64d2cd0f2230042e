#include "tenet/train/step_policies.hpp"

#include <catch2/catch.hpp>
#include <tenet/device/reference.hpp>
#include <tenet/optim/sgd.hpp>
#include <tenet/train/model.hpp>
#include <tenet/train/trainer.hpp>

#include "../support/network.hpp"
#include "../support/networks.hpp"

using namespace tenet;

namespace {
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
  static_assert(std::is_same_v<Policies<Input, FusedConvolution, CudnnBenchmark>::Kernels, CpuKernels>);
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
