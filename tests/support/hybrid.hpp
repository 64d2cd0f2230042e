#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <string_view>
#include <tenet/tenet.hpp>
#include <vector>

/// The law of hybrid mode: one network, run line by line and as a compiled step, gives the same numbers; checked on
/// networks that are drawn at random. Networks are types, so they are drawn at compile time, one for every seed.
namespace hybrid {

using namespace tenet;

/// The I-th layer of a network that a seed draws, on images of channels x height x width, and all after it. Layers do
/// not change the class of images; the last ones turn them into scores of five classes.
template <std::uint64_t seed, int I, int C, int H, int W, class... Layers>
constexpr auto draw() {
  constexpr auto words = philox(I, seed, 77);
  constexpr int kind = static_cast<int>(words[0] % 11), option = static_cast<int>(words[1] % 3);
  constexpr int layers = 3 + static_cast<int>(philox(1000, seed, 77)[0] % 3);
  constexpr auto next = []<class... More, int c, int h, int w>(std::type_identity<Sequential<More...>>,
                                                               std::integer_sequence<int, c, h, w>) {
    return draw<seed, I + 1, c, h, w, Layers..., More...>();
  };
  constexpr std::integer_sequence<int, C, H, W> same{};
  if constexpr (I == layers) {
    if constexpr (option == 0)
      return std::type_identity<Sequential<Layers..., GlobalAvgPool2d, Linear<C, 5>>>{};
    else if constexpr (option == 1)
      return std::type_identity<Sequential<Layers..., Flatten, Linear<C * H * W, 5, Bias<false>>>>{};
    else
      return std::type_identity<
          Sequential<Layers..., Flatten, Linear<C * H * W, 9>, LayerNorm<9>, Tanh, Linear<9, 5>>>{};
  } else if constexpr (kind <= 1) {  // at most 4 more channels
    constexpr int out = 2 + static_cast<int>(words[2] % 5), stride = 1 + static_cast<int>(words[3] % 2);
    using Convolution = Conv2d<C, out, 3, Padding<1>, Stride<stride>, Bias<option != 0>>;
    return next(std::type_identity<Sequential<Convolution>>{},
                std::integer_sequence<int, out, (H - 1) / stride + 1, (W - 1) / stride + 1>{});
  } else if constexpr (kind == 2 && H >= 2 && W >= 2) {
    return next(std::type_identity<Sequential<MaxPool2d<2>>>{}, std::integer_sequence<int, C, H / 2, W / 2>{});
  } else if constexpr (kind == 3) {
    return next(std::type_identity<Sequential<AvgPool2d<3, Stride<2>, Padding<1>>>>{},
                std::integer_sequence<int, C, (H - 1) / 2 + 1, (W - 1) / 2 + 1>{});
  } else if constexpr (kind <= 5) {
    return next(std::type_identity<Sequential<BatchNorm2d<C>>>{}, same);
  } else if constexpr (kind == 6) {
    return next(std::type_identity<Sequential<Residual<Sequential<ReLU, Conv2d<C, C, 3, Padding<1>>, Tanh>>>>{}, same);
  } else if constexpr (kind == 7) {
    return next(
        std::type_identity<Sequential<Concat<1, Conv2d<C, 2, 1>, Sequential<Conv2d<C, 3, 3, Padding<1>>, ReLU>>>>{},
        std::integer_sequence<int, 5, H, W>{});
  } else if constexpr (kind == 8) {
    return next(std::type_identity<Sequential<Dropout<30>>>{}, same);
  } else if constexpr (option == 0) {
    return next(std::type_identity<Sequential<GELU>>{}, same);
  } else if constexpr (option == 1) {
    return next(std::type_identity<Sequential<Sigmoid>>{}, same);
  } else {
    return next(std::type_identity<Sequential<ReLU>>{}, same);
  }
}

/// Input and network that belong to a seed.
template <std::uint64_t seed>
struct Drawn {
  static constexpr auto words = philox(2000, seed, 77);
  using Input =
      Image<1 + static_cast<int>(words[0] % 3), 5 + static_cast<int>(words[1] % 4), 5 + static_cast<int>(words[2] % 4)>;
  using Net =
      typename decltype(draw<seed, 0, Input::info.extents[0], Input::info.extents[1], Input::info.extents[2]>())::type;
};

/// A type as text, with what the compiler prints around it.
template <class T>
constexpr std::string_view type_name() {
  return __PRETTY_FUNCTION__;
}

/// How far two runs are apart: the largest difference of two numbers, relative to the largest number beside them or to
/// `scale`, whichever is larger.
struct Distance {
  bool same_numbers = true;
  double relative = 0;

  Distance& add(const float* a, const float* b, std::size_t count, double scale = 1) {
    double largest = scale, difference = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) relative = INFINITY;
      largest = std::fmax(largest, std::fabs(a[i]));
      difference = std::fmax(difference, std::fabs(double{a[i]} - b[i]));
    }
    // Zeros of different sign are the same number here: the graph leaves out x + 0.
    same_numbers = same_numbers && difference == 0;
    relative = std::fmax(relative, difference / largest);
    return *this;
  }
};

inline std::vector<float> random_numbers(long count, std::uint64_t stream) {
  Random random(11, stream);
  std::vector<float> result(static_cast<std::size_t>(count));
  for (float& value : result) value = random.uniform(-1, 1);
  return result;
}

/// Runs some steps of a network in both modes on batches of different sizes, from the same seed; compares scores,
/// losses, gradients, parameters and running statistics.
template <class Net, class Input, class Device, class Optimizer>
Distance compare(const Optimizer& optimizer, std::uint64_t seed) {
  Trainer<Net, CrossEntropy, Optimizer, Input, Device> trainer(optimizer, seed);
  Imperative<Net, Device> net(seed);
  Distance distance;
  for (const int batch : {3, 5, 1}) {
    const auto inputs = random_numbers(Input::size * batch, static_cast<std::uint64_t>(batch));
    std::vector<std::int32_t> labels;
    for (int i = 0; i < batch; ++i) labels.push_back(i * 3 % 5);

    net.eval();
    const auto scores = net(net.template tensor<Input>(inputs.data(), batch));
    const auto predicted = trainer.predict(inputs.data(), batch);
    REQUIRE(predicted.size() == scores.values().size());
    if (batch == 1) {  // kernels of its own, which add in another order; and there is no variance to normalise by
      const Distance one = Distance{}.add(predicted.data(), scores.values().data(), predicted.size());
      distance.relative = std::fmax(distance.relative, one.relative);
      continue;
    }
    distance.add(predicted.data(), scores.values().data(), predicted.size());
    net.clear();
    net.train();

    const auto x = net.template tensor<Input>(inputs.data(), batch);
    const auto loss = cross_entropy(net(x), net.template tensor<BatchedInt<>>(labels.data(), batch));
    const float imperative_loss = loss.item();
    net.backward(loss);
    const std::vector<float> gradients(net.gradients(), net.gradients() + net.table.parameter_floats);
    net.step(optimizer);

    const float compiled_loss = trainer.step(inputs.data(), labels.data(), batch).loss;
    distance.add(&compiled_loss, &imperative_loss, 1);
    distance.add(trainer.weights().parameters(), net.weights().parameters(), gradients.size());
    distance.add(trainer.weights().buffers(), net.weights().buffers(),
                 static_cast<std::size_t>(net.table.buffer_floats));
    // Some gradients are zero but for rounding (that of a bias in front of batch norm): all are measured by the
    // largest.
    double largest_gradient = 0;
    for (const float gradient : gradients) largest_gradient = std::fmax(largest_gradient, std::fabs(gradient));
    CHECK(largest_gradient > 1e-3);  // a test of zeros tests nothing
    distance.add(trainer.gradients(), gradients.data(), gradients.size(), largest_gradient);
    CHECK(trainer.weights().steps() == net.weights().steps());
  }
  return distance;
}

/// Where a target has an instruction for a * b + c with one rounding, compilers use it inside a fused loop and cannot
/// use it across two loops.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
inline constexpr bool contracts = true;
#else
inline constexpr bool contracts = false;
#endif

/// The largest relative difference where bits differ; with contraction 6e-6 is found.
inline constexpr double bound = 2e-5;

/// A device that keeps the order of types in its programs, as line by line all devices do.
template <class Device>
struct InOrder : Device {
  struct Kernels : Device::Kernels {
    static constexpr bool turns_images = false;
    using Arguments = InOrderOfTypes<typename Device::Kernels::Arguments>;
    using Kernel = void (*)(typename Device::Kernels::Executor&, const Arguments&);
  };
};

/// Fusion only changes which loop computes an element, and the graph's identities (x + 0, x * 1, equal values computed
/// once) leave numbers as they are: so the two modes agree to the last bit, but for contraction. Where samples lie in
/// lanes sums over the batch are added up in another order; then this holds of a program that keeps the order of types.
template <class Device, std::uint64_t seed>
void check_drawn() {
  using Net = typename Drawn<seed>::Net;
  using Input = typename Drawn<seed>::Input;
  INFO("seed " << seed << ", input " << to_string(Input::info) << ": " << type_name<Net>());
  const Sgd optimizer{.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f};
  const Distance distance = compare<Net, Input, Device>(optimizer, seed);
  CHECK(distance.relative <= bound);
  if constexpr (!contracts && Trainer<Net, CrossEntropy, Sgd, Input, Device>::Training::lowered.in_groups)
    CHECK(compare<Net, Input, InOrder<Device>>(optimizer, seed).same_numbers);
  else if constexpr (!contracts)
    CHECK(distance.same_numbers);
}

/// How many of the networks of seeds 0 … seeds - 1 hold a layer.
template <std::uint64_t seeds>
int networks_with(std::string_view layer) {
  return [&]<std::uint64_t... seed>(std::integer_sequence<std::uint64_t, seed...>) {
    return (0 + ... + (type_name<typename Drawn<seed>::Net>().find(layer) != std::string_view::npos));
  }(std::make_integer_sequence<std::uint64_t, seeds>{});
}

/// Checks the networks of seeds 0 … seeds - 1 on a device.
template <class Device, std::uint64_t seeds>
void check_all_drawn() {
  [&]<std::uint64_t... seed>(std::integer_sequence<std::uint64_t, seed...>) {
    (check_drawn<Device, seed>(), ...);
  }(std::make_integer_sequence<std::uint64_t, seeds>{});
}

}  // namespace hybrid
