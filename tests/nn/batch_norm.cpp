#include "tenet/nn/batch_norm.hpp"

#include <tenet/nn/loss.hpp>
#include <tenet/optim/sgd.hpp>
#include <tenet/train/trainer.hpp>

#include "../support/network.hpp"

using namespace tenet;

namespace {
using Norm = BatchNorm2d<3>;
using Input = Image<3, 4, 5>;
static_assert(std::is_same_v<network::Output<Norm, Input>, Input>);
static_assert(slot_table<Norm>.parameter_count == 6);
static_assert(std::is_same_v<network::Output<BatchNorm1d<3>, Features<3>>, Features<3>>);
static_assert(std::is_same_v<network::Output<BatchNorm1d<3>, Sequence<3, 20>>, Sequence<3, 20>>);

constexpr std::size_t plane = 20, batch = 4, count = batch * plane;  // numbers of a channel

struct ChannelMoments {
  double mean[3]{}, variance[3]{};  // biased
};
ChannelMoments moments_of(const network::Floats& x) {
  ChannelMoments result;
  const auto channel = [](std::size_t i) { return i / plane % 3; };
  for (std::size_t i = 0; i < x.size(); ++i) result.mean[channel(i)] += x[i] / static_cast<double>(count);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double from_mean = x[i] - result.mean[channel(i)];
    result.variance[channel(i)] += from_mean * from_mean / static_cast<double>(count);
  }
  return result;
}

// Channels of different mean and spread.
network::Floats images(std::uint64_t stream) {
  network::Floats x = network::numbers(static_cast<long>(3 * count), stream);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto channel = static_cast<float>(i / plane % 3);
    x[i] = x[i] * (0.5f + channel) + 2 * channel - 1;
  }
  return x;
}

// Σ output·target: its value for a target that is 1 at one element alone is the output there.
struct Probe {
  template <class Output>
  static constexpr bool fits = true;
  template <class Output>
  using Target = Output;
  static constexpr bool has_accuracy = false;
  static constexpr auto loss(AnySymbol auto output, AnySymbol auto target) { return sum(output * target); }
};
using Training = Trainer<Norm, Probe, Sgd, Input, Reference>;
}  // namespace

TEST_CASE("batch norm's names and initial values are PyTorch's") {
  CHECK(network::names<Norm>() ==
        network::Strings{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"});
  Weights<Norm> weights(9);
  network::check_all(weights["weight"], 1);
  network::check_all(weights["bias"], 0);
  network::check_all(weights["running_mean"], 0);
  network::check_all(weights["running_var"], 1);
  CHECK(weights.steps() == 0);
}

TEST_CASE("in training mode the batch's moments normalise and move the running statistics") {
  Training trainer{{.learning_rate = 0}};
  const network::Floats weight = network::numbers(3, 1), bias = network::numbers(3, 2);
  std::copy(weight.begin(), weight.end(), trainer.weights()["weight"].begin());
  std::copy(bias.begin(), bias.end(), trainer.weights()["bias"].begin());
  double mean[3] = {0, 0, 0}, variance[3] = {1, 1, 1};
  for (std::uint64_t step = 0; step < 3; ++step) {
    const network::Floats x = images(10 + step);
    const ChannelMoments now = moments_of(x);
    const std::size_t place = 7 + 65 * step, channel = place / plane % 3;
    network::Floats target(x.size(), 0.0f);
    target[place] = 1;
    const double expected =
        (x[place] - now.mean[channel]) / std::sqrt(now.variance[channel] + 1e-5) * weight[channel] + bias[channel];
    CHECK(trainer.step(x.data(), target.data(), batch).loss == Approx(expected).epsilon(1e-4));
    for (int c = 0; c < 3; ++c) {
      mean[c] += 0.1 * (now.mean[c] - mean[c]);
      variance[c] += 0.1 * (now.variance[c] * count / (count - 1.0) - variance[c]);
      CHECK(trainer.weights()["running_mean"][static_cast<std::size_t>(c)] == Approx(mean[c]).epsilon(1e-5));
      CHECK(trainer.weights()["running_var"][static_cast<std::size_t>(c)] == Approx(variance[c]).epsilon(1e-5));
    }
  }
  CHECK(trainer.weights().steps() == 3);
}

TEST_CASE("in evaluation mode the running statistics normalise and stay") {
  network::Evaluated<Norm, Input> net;
  network::Floats variance = network::numbers(3, 5);
  for (float& value : variance) value = 0.5f + value * value;
  variance[1] = 1e-6f;  // epsilon counts
  net.set("running_var", variance);
  const network::Floats weight = net["weight"], bias = net["bias"], mean = net["running_mean"], x = images(3);
  std::vector<double> expected;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i / plane % 3;
    expected.push_back((x[i] - mean[c]) / std::sqrt(variance[c] + 1e-5) * weight[c] + bias[c]);
  }
  network::check_close(net(x, batch), expected);
  CHECK(net["running_mean"] == mean);
  CHECK(net["running_var"] == variance);
}

TEST_CASE("evaluation between training steps leaves the running statistics") {
  Training trainer;
  const network::Floats x = images(1);
  trainer.step(x.data(), x.data(), batch);
  const network::Floats before(trainer.weights().buffers(), trainer.weights().buffers() + 3);
  trainer.predict(x.data(), batch);
  CHECK(network::Floats(trainer.weights().buffers(), trainer.weights().buffers() + 3) == before);
}

namespace {

/// What a layer makes of the numbers of images whose channels are the same, in evaluation and then in training mode;
/// and what it keeps.
template <class Layer, class Input>
std::vector<float> outputs_of(const network::Floats& x, int samples) {
  Trainer<Layer, Probe, Sgd, Input, Reference> trainer{{.learning_rate = 0}};
  const network::Floats weight = network::numbers(3, 1), bias = network::numbers(3, 2);
  std::copy(weight.begin(), weight.end(), trainer.weights()["weight"].begin());
  std::copy(bias.begin(), bias.end(), trainer.weights()["bias"].begin());
  std::vector<float> result;
  for (int step = 0; step < 2; ++step) {
    const auto found = trainer.predict(x.data(), samples);
    result.insert(result.end(), found.begin(), found.end());
    result.push_back(trainer.step(x.data(), x.data(), samples).loss);
  }
  const float* const buffers = trainer.weights().buffers();
  result.insert(result.end(), buffers, buffers + 6);
  return result;
}

}  // namespace

TEST_CASE("of a batch of one number a channel the variance is 0") {
  Trainer<BatchNorm1d<3>, Probe, Sgd, Features<3>, Reference> trainer{{.learning_rate = 0}};
  const network::Floats x = network::numbers(3, 1), ones(3, 1.0f), bias = network::numbers(3, 2);
  std::copy(bias.begin(), bias.end(), trainer.weights()["bias"].begin());
  CHECK(trainer.step(x.data(), ones.data(), 1).loss == Approx(bias[0] + bias[1] + bias[2]));
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(trainer.weights()["running_mean"][i] == Approx(0.1f * x[i]));
    CHECK(trainer.weights()["running_var"][i] == Approx(0.9f));
  }
}

TEST_CASE("BatchNorm1d normalises features and sequences as BatchNorm2d does images of that shape") {
  CHECK(network::names<BatchNorm1d<3>>() == network::names<Norm>());
  const network::Floats sequences = images(4);
  CHECK(outputs_of<BatchNorm1d<3>, Sequence<3, 20>>(sequences, batch) ==
        outputs_of<Norm, Image<3, 20, 1>>(sequences, batch));
  const network::Floats features = network::numbers(3 * 16, 6);
  const auto expected = outputs_of<Norm, Image<3, 1, 1>>(features, 16),
             found = outputs_of<BatchNorm1d<3>, Features<3>>(features, 16);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(1e-6));
}
