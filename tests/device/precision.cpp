#include "tenet/device/precision.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <tenet/device/reference.hpp>
#include <tenet/optim/sgd.hpp>
#include <tenet/train/trainer.hpp>

#include "../support/narrow_device.hpp"
#include "../support/network.hpp"
#include "../support/networks.hpp"

using namespace tenet;

/// The processor's device with its products of bfloat16, whether it has instructions for them or not.
namespace paired {
struct Executor : cpu::Workers {
  using Workers::Workers;
};
void run_matmul(Executor& workers, const MatmulGeometry& g, const bfloat16* lhs, const bfloat16* rhs, float* result,
                Epilogue epilogue = {}) {
  cpu::run_bfloat16_matmul(workers, g, lhs, rhs, result, epilogue);
}
template <Conv2dGeometry g>
constexpr long prepared_conv2d_weight(const Executor*, Known<g>, bfloat16) {
  return g.taps() < 64 ? 0 : cpu::detail::forward_weights(cpu::detail::of_pairs(g));
}
template <Conv2dGeometry g>
void run_prepared_conv2d(Executor& workers, ImagesChannelsLast, Known<g>, bfloat16, int batch,
                         const cpu::PreparedImage<Executor, g, bfloat16>* input, const float* prepared, float* result,
                         Epilogue epilogue = {}) {
  cpu::detail::prepared_channels_last<Executor, g, bfloat16>(workers, batch, input, prepared, result, epilogue);
}
template <class OfAnyBatch>
struct OneSample : CpuOneSample<OfAnyBatch> {
  template <DType dtype>
  using WithFactors = CpuOneSample<OfAnyBatch, dtype>;
};
struct Kernels : CpuKernels {
  using Executor = paired::Executor;
  using Kernel = void (*)(Executor&, const Arguments&);
  using OneSample = paired::OneSample<Kernels>;
};
struct Device : Cpu<0, 2> {
  using Kernels = paired::Kernels;
};
/// The same, of images in the order of their types.
struct InOrder : Cpu<0, 2> {
  struct Kernels : paired::Kernels {
    static constexpr bool turns_images = false;
    using Arguments = InOrderOfTypes<KernelArguments>;
    using Kernel = void (*)(Executor&, const Arguments&);
  };
};
}  // namespace paired

namespace {

/// |a - b| / |b|
double distance(std::span<const float> a, std::span<const float> b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    size += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(difference / size);
}

/// Values that are copied because they are needed in another number format.
template <class Program>
constexpr int rounded() {
  int count = 0;
  for (int k = 0; k < Program::plan.conversion_count; ++k) {
    const Conversion& c = Program::plan.conversions[k];
    count += c.place.dtype != Program::storage.dtype[c.value];
  }
  return count;
}

/// Of each convolution's prepared weights.
template <class Program>
std::vector<long> prepared_floats() {
  std::vector<long> found;
  for (int i = 0; i < Program::graph.count; ++i) {
    const auto& node = Program::graph.nodes[i];
    if (node.is_computed() && node.operation->name == std::string("prepare_conv2d_weight"))
      found.push_back(node.type->size());
  }
  return found;
}

/// Gradients and loss in mixed precision are those in single precision, rounded: neither equal nor far from them.
template <class Net, class Loss, class Input, class Device>
void check_rounding(int batch = 5) {
  using Single = Trainer<Net, Loss, Sgd, Input, Device>;
  using Mixed = Trainer<Net, Loss, Sgd, Input, Device, BFloat16>;
  static_assert(rounded<typename Mixed::Training>() > 0 && rounded<typename Single::Training>() == 0);
  Single single{{.learning_rate = 0}, 3};
  Mixed mixed{{.learning_rate = 0}, 3};
  const network::Samples<Single> samples(batch);
  const float expected = single.step(samples.inputs.data(), samples.targets.data(), batch).loss;
  const float found = mixed.step(samples.inputs.data(), samples.targets.data(), batch).loss;
  CHECK(found != expected);
  CHECK(found == Approx(expected).epsilon(0.01));
  const auto count = static_cast<std::size_t>(Weights<Net>::table.parameter_floats);
  const double apart = distance({mixed.gradients(), count}, {single.gradients(), count});
  CHECK(apart > 1e-5);
  CHECK(apart < 0.02);
}

}  // namespace

TEST_CASE("gradients in mixed precision are those in single precision, rounded", "[precision]") {
  check_rounding<networks::Residual, CrossEntropy, Image<2, 6, 5>, Reference>();
  check_rounding<networks::Residual, CrossEntropy, Image<2, 6, 5>, Cpu<0, 2>>();
  check_rounding<networks::Transformer, CrossEntropy, Tokens<12>, Cpu<0, 2>>();
  check_rounding<networks::Drawn<3>, MeanSquaredError, Batched<3, 4>, Reference>();
  check_rounding<networks::Drawn<5>, MeanSquaredError, Batched<3, 4>, Cpu<0, 2>>();
  check_rounding<networks::Residual, CrossEntropy, Image<2, 6, 5>, narrow::Device>();
  check_rounding<networks::Transformer, CrossEntropy, Tokens<12>, narrow::Device>();
  check_rounding<networks::Drawn<3>, MeanSquaredError, Batched<3, 4>, narrow::Device>();
}

TEST_CASE("products of bfloat16 serve programs in mixed precision, and no others", "[precision]") {
  using Net = Sequential<Conv2d<1, 2, 3>, Flatten, Linear<8, 3>>;
  const auto asked_for = []<class... Policies>() {
    const long products = narrow::Executor::products, convolutions = narrow::Executor::convolutions;
    Trainer<Net, CrossEntropy, Sgd, Image<1, 4, 4>, narrow::Device, Policies...> trainer;
    const network::Samples<decltype(trainer)> samples(4);
    trainer.step(samples.inputs.data(), samples.targets.data(), 4);
    return std::array{narrow::Executor::products - products, narrow::Executor::convolutions - convolutions};
  };
  CHECK(asked_for.template operator()<BFloat16>() == std::array{3L, 1L});  // forward, and both gradients
  CHECK(asked_for.template operator()<>() == std::array{0L, 0L});
}

TEST_CASE("what the processor multiplies as bfloat16 agrees with the definition", "[precision]") {
  using Mixed = Trainer<networks::Transformer, CrossEntropy, Sgd, Tokens<12>, paired::Device, BFloat16>;
  using Expected = Trainer<networks::Transformer, CrossEntropy, Sgd, Tokens<12>, narrow::Device, BFloat16>;
  static_assert([] {  // weights become bfloat16 for them
    for (int k = 0; k < Mixed::Training::plan.conversion_count; ++k)
      if (Mixed::Training::plan.conversions[k].place.dtype == DType::bfloat16) return true;
    return false;
  }());
  Mixed mixed{{.learning_rate = 0}, 3};
  Expected expected{{.learning_rate = 0}, 3};
  const network::Samples<Mixed> samples(5);
  const float found = mixed.step(samples.inputs.data(), samples.targets.data(), 5).loss;
  CHECK(found == Approx(expected.step(samples.inputs.data(), samples.targets.data(), 5).loss).epsilon(1e-3));
  const auto count = static_cast<std::size_t>(Weights<networks::Transformer>::table.parameter_floats);
  CHECK(distance({mixed.gradients(), count}, {expected.gradients(), count}) < 5e-3);
}

TEST_CASE("both devices round the same values", "[precision]") {
  // Sums of a few small numbers are exact in any order, so that both devices store the same bits.
  using Net =
      Sequential<Conv2d<2, 4, 3, Padding<1>>, ReLU, MaxPool2d<2>, Conv2d<4, 5, 3>, Tanh, Flatten, Linear<20, 3>>;
  using Input = Image<2, 8, 8>;
  Model<Net, Input, Reference, BFloat16> reference(1);
  Model<Net, Input, Cpu<0, 2>, BFloat16> cpu(1);
  Model<Net, Input, Reference> single(1);
  for (const std::string& name : reference.weights().names())
    for (std::size_t i = 0; i < reference.weights()[name].size(); ++i) {
      const float value = static_cast<float>(static_cast<int>(i * 7 % 5) - 2) / 4;
      reference.weights()[name][i] = cpu.weights()[name][i] = single.weights()[name][i] = value;
    }
  network::Floats inputs(128 * 3);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(static_cast<int>(i * 5 % 11) - 5) / 16;
  const auto a = reference(inputs.data(), 3), b = cpu(inputs.data(), 3), c = single(inputs.data(), 3);
  CHECK(distance(a, b) < 1e-3);
  CHECK(distance(a, c) > 1e-5);
  CHECK(distance(a, c) < 0.02);
}

TEST_CASE("one sample of a small network is computed in single precision but for prepared matrices", "[precision]") {
  using Net = Sequential<Linear<6, 16>, Tanh, Linear<16, 3>>;
  Model<Net, Features<6>, Cpu<0, 1>> single(2);
  const auto x = network::numbers(12);
  const auto check = [&]<class Device>(bool rounds) {
    Model<Net, Features<6>, Device, BFloat16> mixed(2);
    const auto one = mixed(x.data(), 1), expected = single(x.data(), 1);
    CHECK((distance(one, expected) > 1e-5) == rounds);
    CHECK(distance(one, expected) < 0.01);
    for (std::size_t i = 0; i < 3 && !rounds; ++i) CHECK(one[i] == expected[i]);
    CHECK(distance(mixed(x.data(), 2), single(x.data(), 2)) > 1e-5);
  };
  check.template operator()<Cpu<0, 1>>(multiplies_bfloat16);
  check.template operator()<paired::Device>(true);
}

TEST_CASE("convolutions for inference in mixed precision have weights of half the size", "[precision]") {
  struct Net : Sequential<Conv2d<3, 48, 3, Padding<1>>, ReLU, Conv2d<48, 64, 3, Padding<1>, Stride<2>>, ReLU,
                          Conv2d<64, 64, 3, Padding<1>>, ReLU, Conv2d<64, 48, 1>, GlobalAvgPool2d, Linear<48, 5>> {};
  using Input = Image<3, 12, 12>;
  using Single = Model<Net, Input, Cpu<0, 2>>;
  using Mixed = Model<Net, Input, paired::Device, BFloat16>;
  Single single(2);
  Mixed mixed(2);
  const auto x = network::numbers(9 * 3 * 12 * 12);
  for (const int batch : {1, 2, 9, 1}) {  // patches, Winograd's algorithm, rows where they lie
    CAPTURE(batch);
    const auto found = mixed(x.data(), batch), expected = single(x.data(), batch);
    CHECK(distance(found, expected) > 1e-5);
    CHECK(distance(found, expected) < 0.02);
  }
  const std::vector<long> half = prepared_floats<typename Mixed::Inference>(),
                          whole = prepared_floats<typename Single::Inference>();
  REQUIRE(half.size() == 3);  // not the stem, which has few terms
  REQUIRE(whole.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(2 * half[i] == whole[i]);

  using InOrder = Model<Net, Input, paired::InOrder, BFloat16>;  // whose kernels take floats
  InOrder in_order(2);
  CHECK(prepared_floats<typename InOrder::Inference>() == whole);
  CHECK(distance(in_order(x.data(), 2), single(x.data(), 2)) < 0.02);
}
