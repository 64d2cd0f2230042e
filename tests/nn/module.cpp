#include "tenet/nn/module.hpp"

#include <array>
#include <tenet/nn/activation.hpp>
#include <tenet/nn/batch_norm.hpp>
#include <tenet/nn/conv2d.hpp>
#include <tenet/nn/linear.hpp>
#include <tenet/nn/loss.hpp>
#include <tenet/nn/pool2d.hpp>
#include <tenet/nn/sequential.hpp>
#include <tenet/optim/sgd.hpp>
#include <tenet/train/trainer.hpp>

#include "../support/network.hpp"

using namespace tenet;

namespace {
// Members in the order of their declaration, whatever the order of their use.
struct Block {
  Conv2d<2, 2, 3, Padding<1>, Bias<false>> conv1;
  BatchNorm2d<2> bn1;
  Identity downsample;
  constexpr auto forward(auto x) const { return relu(bn1(conv1(x)) + downsample(x)); }
};
struct Net {
  Linear<8, 3> head;
  Conv2d<1, 2, 3, Padding<1>> stem;
  Sequential<Block, Block> layer1;
  MaxPool2d<2> pool;
  constexpr auto forward(auto x) const { return call(head, flatten(pool(call(layer1, stem(x))))); }
};
static_assert(std::is_same_v<network::Output<Net, Image<1, 4, 4>>, Batched<3>>);
static_assert(slot_count<Net> == 17);
static_assert(layer_path<Net>(0).view() == "head" && layer_path<Net>(3).view() == "stem");
static_assert(layer_path<Net>(4).view() == "layer1.0.conv1" && layer_path<Net>(15).view() == "layer1.1.bn1");
static_assert(layer_path<Net>(16).view() == "pool");
static_assert(layer_path<Linear<2, 2>>(0).view() == "forward");  // the network itself
static_assert(numbered<Net>().head.bias.slot == 1 && numbered<Net>().pool.layer.slot == 16);

// One member used twice shares its parameters; two members of one type do not.
struct Shared {
  Linear<3, 3> map;
  constexpr auto forward(auto x) const { return map(tanh(map(x))); }
};
struct Separate {
  Linear<3, 3> first, second;
  constexpr auto forward(auto x) const { return second(tanh(first(x))); }
};
static_assert(slot_table<Shared>.parameter_count == 12 && slot_table<Separate>.parameter_count == 24);

struct Tower {
  std::array<Linear<3, 3>, 4> layers;
  Linear<3, 2> last;
  constexpr auto forward(auto x) const {
    for (const auto& layer : layers) x = tanh(layer(x));
    return last(x);
  }
};

// A module with parameters of its own beside its layers.
struct Scaled {
  Parameter<Fixed<3>, Constant<2>> scale;
  Linear<3, 3> map;
  constexpr auto forward(auto x) const { return map(x) * scale.in(x); }
};
}  // namespace

TEST_CASE("a network's names and their order are those of PyTorch's state_dict") {
  CHECK(network::names<Net>() ==
        network::Strings{"head.weight", "head.bias", "stem.weight", "stem.bias", "layer1.0.conv1.weight",
                         "layer1.0.bn1.weight", "layer1.0.bn1.bias", "layer1.0.bn1.running_mean",
                         "layer1.0.bn1.running_var", "layer1.0.bn1.num_batches_tracked", "layer1.1.conv1.weight",
                         "layer1.1.bn1.weight", "layer1.1.bn1.bias", "layer1.1.bn1.running_mean",
                         "layer1.1.bn1.running_var", "layer1.1.bn1.num_batches_tracked"});
  CHECK(network::names<Scaled>() == network::Strings{"scale", "map.weight", "map.bias"});
  CHECK(network::names<Tower>() == network::Strings{"layers.0.weight", "layers.0.bias", "layers.1.weight",
                                                    "layers.1.bias", "layers.2.weight", "layers.2.bias",
                                                    "layers.3.weight", "layers.3.bias", "last.weight", "last.bias"});
}

TEST_CASE("both walks meet the slots in one order") {
  Net net{};
  int next = 0;
  for_each_slot(net, [&](auto& member) { member.slot = next++; });
  CHECK(next == slot_count<Net>);
  int seen = 0;
  for_each_slot(net, Text{}, [&](const Text&, auto& member) { CHECK(member.slot == seen++); });
  CHECK(seen == slot_count<Net>);
}

TEST_CASE("a member that is used twice is one set of parameters, whose gradients add up") {
  using Input = Features<3>;
  network::Evaluated<Shared, Input> shared;
  network::Evaluated<Separate, Input> separate;
  for (const char* of : {"first.", "second."}) {
    separate.set(of + std::string("weight"), shared["map.weight"]);
    separate.set(of + std::string("bias"), shared["map.bias"]);
  }
  const network::Floats x = network::numbers(6), y = network::numbers(6, 1);
  CHECK(shared(x, 2) == separate(x, 2));

  Trainer<Shared, MeanSquaredError, Sgd, Input, Reference> one{{.learning_rate = 0}};
  Trainer<Separate, MeanSquaredError, Sgd, Input, Reference> two{{.learning_rate = 0}};
  std::copy_n(one.weights().parameters(), 32, two.weights().parameters());
  std::copy_n(one.weights().parameters(), 32, two.weights().parameters() + 32);
  one.step(x.data(), y.data(), 2);
  two.step(x.data(), y.data(), 2);
  for (int i = 0; i < 32; ++i) CHECK(one.gradients()[i] == Approx(two.gradients()[i] + two.gradients()[32 + i]));
  CHECK(one.gradients()[0] != 0);
}

TEST_CASE("an array of modules is its elements one by one") {
  network::Evaluated<Tower, Features<3>> net;
  const network::Floats x = network::numbers(3);
  std::vector<double> values(x.begin(), x.end());
  for (const char* layer : {"layers.0.", "layers.1.", "layers.2.", "layers.3.", "last."}) {
    const network::Floats weight = net[layer + std::string("weight")], bias = net[layer + std::string("bias")];
    std::vector<double> next(bias.begin(), bias.end());
    for (std::size_t i = 0; i < weight.size(); ++i) next[i / 3] += weight[i] * values[i % 3];
    if (next.size() == 3)
      for (double& value : next) value = std::tanh(value);
    values = next;
  }
  network::check_close(net(x, 1), values);
}
