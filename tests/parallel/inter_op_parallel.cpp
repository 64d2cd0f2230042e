#include "tenet/parallel/inter_op_parallel.hpp"

#include <tenet/tenet.hpp>

#include "../support/late_step.hpp"
#include "../support/lending_device.hpp"
#include "../support/message.hpp"
#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/variable.hpp"

using namespace tenet;

namespace {

template <class A, class B>
bool same_bits(const A& a, const B& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0);
}

/// Trains and predicts on one device and on several: loss, parameters, running statistics and outputs have the same
/// bits after each step.
template <class OneDevice, class Device, class Net, class Input, class Loss, class Optimizer, int devices,
          class... Policies>
void check_same_bits_on() {
  using One = Trainer<Net, Loss, Optimizer, Input, OneDevice, Policies...>;
  using Many = Trainer<Net, Loss, Optimizer, Input, Device, Policies..., InterOpParallel<devices>>;
  One one{{.learning_rate = 0.05f}, 3};
  Many many{{.learning_rate = 0.05f}, 3};
  const network::Samples<One> samples(9);
  const auto parameters = [](auto& trainer) {
    return std::span<const float>(trainer.weights().parameters(),
                                  static_cast<std::size_t>(Weights<Net>::table.parameter_floats));
  };
  const auto buffers = [](auto& trainer) {
    return std::span<const float>(trainer.weights().buffers(),
                                  static_cast<std::size_t>(Weights<Net>::table.buffer_floats));
  };
  for (const int batch : {5, 9, 1, 3, 9, 8}) {
    CAPTURE(batch);
    const StepResult a = one.step(samples.inputs.data(), samples.targets.data(), batch);
    const StepResult b = many.step(samples.inputs.data(), samples.targets.data(), batch);
    CHECK(std::memcmp(&a.loss, &b.loss, sizeof a.loss) == 0);
    CHECK(a.accuracy == b.accuracy);
    CHECK(same_bits(parameters(one), parameters(many)));
    CHECK(same_bits(buffers(one), buffers(many)));
    if constexpr (One::keeps_gradients)
      CHECK(same_bits(std::span(one.gradients(), parameters(one).size()),
                      std::span(many.gradients(), parameters(one).size())));
    if (batch > 1)  // a batch of one may have a program of its own on one device
      CHECK(same_bits(one.predict(samples.inputs.data(), batch), many.predict(samples.inputs.data(), batch)));
  }
}
template <class Net, class Input, class Loss, class Optimizer, int devices, class... Policies>
void check_same_bits() {
  check_same_bits_on<Cpu<0, 1>, Cpu<0, 1>, Net, Input, Loss, Optimizer, devices, Policies...>();
}

}  // namespace

TEST_CASE("parts of a network on several devices train as on one, to the bit", "[inter_op]") {
  check_same_bits<networks::Towers, Features<16>, CrossEntropy, Sgd, 2, OneSampleNever>();
  check_same_bits<networks::ConvTowers, Image<2, 6, 5>, CrossEntropy, Adam, 2, OneSampleNever>();
  check_same_bits<networks::ConvTowers, Image<2, 6, 5>, CrossEntropy, Sgd, 3, OneSampleNever>();
  check_same_bits<networks::Residual, Image<2, 6, 5>, CrossEntropy, Sgd, 2, OneSampleNever>();
  check_same_bits<networks::Transformer, Tokens<12>, CrossEntropy, AdamW, 2, OneSampleNever>();
}

TEST_CASE("each device's workspaces lie where nothing is needed", "[inter_op]") {
  check_same_bits_on<Reference, lending::Device, networks::Towers, Features<16>, CrossEntropy, Sgd, 2>();
  check_same_bits_on<Reference, lending::Device, networks::ConvTowers, Image<2, 6, 5>, CrossEntropy, Adam, 3,
                     UpdateInBackward>();
  check_same_bits_on<Reference, lending::Device, networks::Transformer, Tokens<12>, CrossEntropy, AdamW, 2>();
  CHECK(lending::Executor::lent > 0);
  CHECK(lending::Executor::reserved > 0);  // what does not fit: behind a device's memory that of another one may lie
}

TEST_CASE("drawn networks on several devices train as on one, to the bit", "[inter_op]") {
  check_same_bits<networks::Drawn<1>, Batched<3, 4>, MeanSquaredError, Sgd, 2, OneSampleNever>();
  check_same_bits<networks::Drawn<2>, Batched<3, 4>, MeanSquaredError, Adam, 4, OneSampleNever>();
  check_same_bits<networks::Drawn<5>, Batched<3, 4>, MeanSquaredError, Adam, 2, OneSampleNever, UpdateInBackward>();
}

TEST_CASE("every policy of what is computed goes with several devices", "[inter_op]") {
  check_same_bits<networks::ConvTowers, Image<2, 6, 5>, CrossEntropy, Adam, 2, OneSampleNever, UpdateInBackward>();
  check_same_bits<networks::ConvTowers, Image<2, 6, 5>, CrossEntropy, Sgd, 2, OneSampleNever, BFloat16>();
  check_same_bits<networks::ConvTowers, Image<2, 6, 5>, CrossEntropy, Sgd, 2, OneSampleNever, DirectConvolution>();
  check_same_bits<networks::Transformer, Tokens<12>, CrossEntropy, AdamW, 2, OneSampleNever, UpdateInBackward>();
}

TEST_CASE("several devices evaluate as one does", "[inter_op]") {
  using One = Trainer<networks::ConvTowers, CrossEntropy, Sgd, Image<2, 6, 5>, Cpu<0, 1>, OneSampleNever>;
  using Many = Trainer<networks::ConvTowers, CrossEntropy, Sgd, Image<2, 6, 5>, Cpu<0, 1>, InterOpParallel<2>>;
  const network::Samples<One> samples(10);
  DataLoader loader{TensorDataset<float, std::int32_t>{samples.inputs, {2, 6, 5}, samples.targets, {}},
                    {.batch_size = 4}};
  One one;
  Many many;
  for (int round = 0; round < 2; ++round) {
    const Evaluation expected = one.evaluate(loader), found = many.evaluate(loader);
    CHECK(found.loss == expected.loss);
    CHECK(found.accuracy == expected.accuracy);
    CHECK(found.samples == 10);
    one.step(samples.inputs.data(), samples.targets.data(), 10);
    many.step(samples.inputs.data(), samples.targets.data(), 10);
  }
}

TEST_CASE("queued steps run on several devices", "[inter_op]") {
  using Many = Trainer<networks::Towers, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, InterOpParallel<2>>;
  Many direct{{.learning_rate = 0.05f}}, queued{{.learning_rate = 0.05f}};
  const network::Samples<Many> samples(6);
  for (int step = 0; step < 20; ++step) {
    direct.step(samples.inputs.data(), samples.targets.data(), 6);
    queued.step_async(samples.inputs.data(), samples.targets.data(), 6);
  }
  queued.synchronize();
  const auto count = static_cast<std::size_t>(Weights<networks::Towers>::table.parameter_floats);
  CHECK(std::memcmp(direct.weights().parameters(), queued.weights().parameters(), 4 * count) == 0);
}

namespace {

/// Fails when it is told to.
struct Failing : KernelOperation {
  static constexpr const char* name = "failing";
  static inline std::atomic<bool> fails{false};
  template <class X>
  static constexpr X result(X) {
    return {};
  }
  template <class X>
  static void run(auto& /*executor*/, const auto& arguments, X) {
    if (fails) fail("failing", "an operation", "nothing", "that it fails");
    std::memcpy(arguments.template result<float>(), arguments.template operand<float>(0),
                sizeof(float) * static_cast<std::size_t>(X::size * arguments.batch));
  }
  static constexpr auto gradient(auto, auto upstream, auto) {
    return gradients([=] { return upstream; });
  }
};

/// One of two towers may fail.
template <bool left>
struct FailingTowers {
  Linear<16, 64> left1, right1;
  Linear<64, 3> left2, right2;
  constexpr auto forward(auto x) const {
    const auto a = relu(left1(x)), b = tanh(right1(x));
    if constexpr (left)
      return left2(apply<Failing>(a)) + right2(b);
    else
      return left2(a) + right2(apply<Failing>(b));
  }
};

template <bool left>
void check_failure() {
  using Net = FailingTowers<left>;
  Model<Net, Features<16>, Cpu<0, 1>, OneSampleNever> one;
  Model<Net, Features<16>, Cpu<0, 1>, InterOpParallel<2>> many;
  const auto inputs = network::numbers(4 * 16);
  for (int round = 0; round < 3; ++round) {
    Failing::fails = true;
    std::string message;
    try {
      many(inputs.data(), 4);
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(message.find("failing") == 0);
    Failing::fails = false;
    CHECK(same_bits(one(inputs.data(), 4), many(inputs.data(), 4)));
  }
}

}  // namespace

TEST_CASE("what a step throws on one device ends the others, and is thrown to the caller", "[inter_op]") {
  check_failure<true>();
  check_failure<false>();
}

namespace {

/// Two operations that meet: each waits until the other one runs.
template <int which>
struct Meeting : KernelOperation {
  static constexpr const char* name = "meeting";
  static inline std::atomic<bool> here{false};
  template <class X>
  static constexpr X result(X) {
    return {};
  }
  template <class X>
  static void run(auto& /*executor*/, const auto& arguments, X) {
    here = true;
    if (!wait_until([] { return Meeting<1 - which>::here.load(); }, std::chrono::seconds(60)))
      fail("meeting", "the other tower", "at the same time", "that it has not come");
    std::memcpy(arguments.template result<float>(), arguments.template operand<float>(0),
                sizeof(float) * static_cast<std::size_t>(X::size * arguments.batch));
  }
  template <class Result, class X>
  static constexpr Cost flops(Result, X) {
    return {1'000'000, 0};
  }
  static constexpr auto gradient(auto, auto upstream, auto) {
    return gradients([=] { return upstream; });
  }
};
struct MeetingTowers {
  Linear<16, 8> left, right;
  constexpr auto forward(auto x) const { return apply<Meeting<0>>(left(x)) + apply<Meeting<1>>(right(x)); }
};

}  // namespace

TEST_CASE("towers run at the same time", "[inter_op]") {
  Model<MeetingTowers, Features<16>, Cpu<0, 1>, InterOpParallel<2>> model;
  const auto inputs = network::numbers(4 * 16);
  for (int round = 0; round < 20; ++round) {
    Meeting<0>::here = Meeting<1>::here = false;
    CHECK(model(inputs.data(), 4).size() == 32);
  }
}

TEST_CASE("a device that is late is named, with the layer and the training step", "[inter_op]") {
  const Variable limit("TENET_TIMEOUT", "0.4");
  using Many = Trainer<late_step::Towers, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, InterOpParallel<2>>;
  const network::Samples<Many> samples(4);
  Many trainer{{.learning_rate = 0.05f}};
  const auto step = [&] { trainer.step(samples.inputs.data(), samples.targets.data(), 4); };
  step();
  step();
  late_step::milliseconds = 700;
  const std::string message = message_of(step);
  late_step::milliseconds = 0;
  // Which steps these are, the plan says: one of the two devices has the late one.
  const bool is_first = message.find("InterOpParallel: device 1, ") == 0;
  CAPTURE(message);
  CHECK((is_first || message.find("InterOpParallel: device 0, ") == 0));
  CHECK(message.find(" of step 3: waits for device " + std::string(is_first ? "0" : "1") +
                     "; expected within 0.4 s, found nothing") != std::string::npos);
  step();
}
