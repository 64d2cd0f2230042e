// Imperative mode by hand. That it gives the numbers of the compiled step for any network: hybrid_reference.cpp and
// hybrid_cpu.cpp.
#include "tenet/train/imperative.hpp"

#include "../support/hybrid.hpp"
#include "../support/message.hpp"

namespace {

using namespace tenet;

struct Net {
  Linear<4, 6> hidden;
  Dropout<25> dropout;
  Linear<6, 3> scores;
  constexpr auto forward(auto x) const { return scores(dropout(tanh(hidden(x)))); }
};
using Input = Features<4>;
const std::vector<float> inputs = hybrid::random_numbers(5 * 4, 1);
const std::vector<std::int32_t> labels{0, 2, 1, 1, 0};

/// One step of a network in imperative mode; the loss before it.
template <class Optimizer, class Device>
float step(Imperative<Net, Device>& net, const Optimizer& optimizer) {
  const auto x = net.template tensor<Input>(inputs.data(), 5);
  const auto loss = cross_entropy(net(x), net.template tensor<BatchedInt<>>(labels.data(), 5));
  const float value = loss.item();
  net.backward(loss);
  net.step(optimizer);
  return value;
}

/// Ten steps in both modes: losses and parameters equal within 1e-6 relative.
template <class Device, class Optimizer>
void check_steps(const Optimizer& optimizer) {
  Trainer<Net, CrossEntropy, Optimizer, Input, Device> trainer(optimizer, 3);
  Imperative<Net, Device> net(3);
  const std::vector<float> before(net.weights().parameters(), net.weights().parameters() + net.table.parameter_floats);
  for (int i = 0; i < 10; ++i) {
    CAPTURE(Optimizer::name, i);
    const float loss = step(net, optimizer);  // dropout draws the same masks, from the first step on
    CHECK(trainer.step(inputs.data(), labels.data(), 5).loss == Approx(loss).epsilon(1e-6));
  }
  CHECK(net.weights().steps() == 10);
  double moved = 0, difference = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double value = net.weights().parameters()[i];
    moved = std::fmax(moved, std::fabs(value - before[i]));
    difference = std::fmax(difference, std::fabs(value - trainer.weights().parameters()[i]));
  }
  CHECK(moved > 1e-3);
  CHECK(difference <= 1e-6);  // of numbers near 1
}

}  // namespace

TEST_CASE("imperative steps are the trainer's steps, with every optimizer", "[imperative]") {
  const Sgd sgd{.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f};
  check_steps<Reference>(sgd);
  check_steps<Reference>(Adam{.learning_rate = 0.01f, .weight_decay = 0.1f});
  check_steps<Cpu<0, 2>>(sgd);
  check_steps<Cpu<0, 2>>(AdamW{.learning_rate = 0.01f});
}

TEST_CASE("gradients lie where the parameters lie, and are zero where none arrives", "[imperative]") {
  Imperative<Net, Reference> net(1);
  net.eval();  // no dropout
  const auto x = net.tensor<Input>(inputs.data(), 5);
  const auto hidden = tanh(net.network().hidden(x));  // a part of the network on its own
  net.backward(mean(hidden));
  // d mean / d bias[j] = mean over the batch of 1 - hidden², divided by the 6 features.
  const SlotInfo& bias = net.table.slots[1];
  for (int j = 0; j < 6; ++j) {
    double expected = 0;
    for (int n = 0; n < 5; ++n) {
      const double y = hidden.values()[static_cast<std::size_t>(n * 6 + j)];
      expected += (1 - y * y) / 30;
    }
    CHECK(net.gradients()[bias.offset + j] == Approx(expected).epsilon(1e-5));
    CHECK(net.gradient("hidden.bias")[static_cast<std::size_t>(j)] == net.gradients()[bias.offset + j]);
  }
  CHECK_THROWS_AS(net.gradient("hidden.bia"), Error);
  const SlotInfo& unused = net.table.slots[net.table.count - 1];  // scores.bias
  for (long j = 0; j < unused.type->size(); ++j) CHECK(net.gradients()[unused.offset + j] == 0);
  net.backward(mean(square(net(x))));  // the next backward replaces them
  CHECK(net.gradients()[unused.offset] != 0);
}

namespace {
template <class... Options>
struct Words {
  Embedding<9, 3, Options...> words;
  Linear<3, 3> scores;
  constexpr auto forward(auto tokens) const { return scores(mean<1>(words(tokens))); }
};
}  // namespace

TEST_CASE("the gradient of a sparse table is that of a dense one", "[imperative]") {
  const std::int32_t tokens[]{3, 1, 3, 7, 3, 0, 0, 1};
  const auto check = [&](auto& net) {
    const auto x = net.template tensor<Tokens<4>>(tokens, 2);
    net.backward(cross_entropy(net(x), net.template tensor<BatchedInt<>>(labels.data(), 2)));
    return net.gradient("words.weight");
  };
  Imperative<Words<>> dense(1);
  Imperative<Words<Sparse>> sparse(1);
  const auto expected = check(dense), found = check(sparse);
  CHECK(expected[10] != 0);
  CHECK(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
}

TEST_CASE("dropout acts in training mode only", "[imperative]") {
  Imperative<Net, Reference> net(1);
  const auto run = [&] {
    const auto values = net(net.tensor<Input>(inputs.data(), 5)).values();
    const std::vector<float> copy(values.begin(), values.end());
    net.clear();
    return copy;
  };
  const auto trained = run();
  net.eval();
  const auto evaluated = run();
  CHECK(trained != evaluated);
  CHECK(run() == evaluated);
  net.train();
  CHECK(run() == trained);  // the same step, the same masks
  Model<Net, Input, Reference> model(1);
  const auto predicted = model(inputs.data(), 5);
  CHECK(hybrid::Distance().add(predicted.data(), evaluated.data(), evaluated.size()).relative <= hybrid::bound);
}

TEST_CASE("running statistics move in training mode only", "[imperative]") {
  Imperative<Sequential<BatchNorm2d<2>>, Reference> net;
  const auto x = [&] { return net.tensor<Image<2, 1, 2>>(inputs.data(), 2); };
  net.eval();
  net(x());
  CHECK(net.weights()["0.running_mean"][0] == 0);
  net.clear();
  net.train();
  net(x());
  const float mean = (inputs[0] + inputs[1] + inputs[4] + inputs[5]) / 4;
  CHECK(net.weights()["0.running_mean"][0] == Approx(0.1f * mean));
}

TEST_CASE("step and clear begin a tape anew, with any batch", "[imperative]") {
  Imperative<Net, Reference> net;
  net.tensor<Input>(inputs.data(), 5);
  CHECK_THROWS_AS(net.tensor<Input>(inputs.data(), 4), Error);
  net.clear();
  CHECK(net(net.tensor<Input>(inputs.data(), 4)).values().size() == 12);
  net.clear();
  step(net, Sgd{});
  CHECK(net(net.tensor<Input>(inputs.data(), 1)).values().size() == 3);
}

TEST_CASE("tensors of two devices have two types, and a copy makes one the other's", "[imperative]") {
  Imperative<Net, Cpu<0, 1>> net(1);
  Imperative<Net, Cpu<1, 1>> other(1);
  const std::vector<float> numbers{1, 2, 3, 4, 5, 6, 7, 8};
  const auto a = net.tensor<Input>(numbers.data(), 2, true);
  const auto b = square(other.tensor<Input>(numbers.data(), 2, true));
  static_assert(!std::is_same_v<decltype(a), decltype(b)>);
  const auto copied = net.tensor(b);
  static_assert(std::is_same_v<decltype(copied), decltype(a)>);
  CHECK((a + copied).values()[7] == 72);
  // Numbers that no gradient goes through, unless one of the copy itself is asked for.
  const auto wanted = net.tensor(b, true);
  net.context().backward(sum(a * copied * wanted));
  CHECK(net.context().gradient(copied).empty());
  CHECK(net.context().gradient(wanted)[2] == 27);
  CHECK(net.context().gradient(a)[1] == 16);
  // What has no batch, and numbers that are no floats.
  CHECK(net.tensor(sum(b)).item() == 204);
  CHECK(net.tensor(other.tensor<BatchedInt<>>(labels.data(), 2)).values()[1] == 2);
  // A tape may copy from itself: there the gradient ends.
  const auto within = square(a), detached = net.tensor(within);
  net.context().backward(sum(a * detached));
  CHECK(net.context().gradient(a)[2] == 9);
  // Batches are equal here, too.
  other.clear();
  const auto larger = other.tensor<Input>(inputs.data(), 5);
  CHECK_THROWS_AS(net.tensor(larger), Error);
}

TEST_CASE("tensors of two tapes of one device do not meet", "[imperative]") {
  Imperative<Net, Reference> net(1), other(2);
  const auto a = net.tensor<Input>(inputs.data(), 2, true), b = other.tensor<Input>(inputs.data(), 2);
  const auto message = [](const std::string& where) {
    return where +
           ": tensors of two tapes; expected tensors of one Imperative (copy one to it by its tensor(x)), found one "
           "that "
           "another Imperative made";
  };
  CHECK(message_of([&] { a + b; }) == message("add"));
  CHECK(message_of([&] { matmul(a, other.tensor<Fixed<4, 2>>(inputs.data())); }) == message("matmul"));
  CHECK(message_of([&] { cross_entropy(a, other.tensor<BatchedInt<>>(labels.data(), 2)); }) ==
        message("cross_entropy"));
  CHECK(message_of([&] { net(b); }) == message("Imperative"));
  CHECK(message_of([&] { net.backward(sum(b)); }) == message("backward"));
  net.backward(sum(a));
  CHECK(message_of([&] { net.context().gradient(b); }) == message("gradient"));
  CHECK((a + net.tensor(b)).values()[3] == 2 * inputs[3]);
}

namespace {
struct Body {
  Linear<4, 6> hidden;
  constexpr auto forward(auto x) const { return tanh(hidden(x)); }
};
struct Head {
  Linear<6, 3> scores;
  constexpr auto forward(auto x) const { return scores(x); }
};
}  // namespace

TEST_CASE("the gradient of a copy may be handed on to the device it came from", "[imperative]") {
  Imperative<Net, Reference> whole(1);
  Imperative<Body, Cpu<0, 1>> body(2);
  Imperative<Head, Cpu<1, 1>> head(3);
  whole.eval();  // no dropout
  for (const char* name : {"hidden.weight", "hidden.bias"})
    std::ranges::copy(whole.weights()[name], body.weights()[name].begin());
  for (const char* name : {"scores.weight", "scores.bias"})
    std::ranges::copy(whole.weights()[name], head.weights()[name].begin());
  const auto loss = [](auto& net, auto scores) {
    return cross_entropy(scores, net.template tensor<BatchedInt<>>(labels.data(), 5));
  };
  whole.backward(loss(whole, whole(whole.tensor<Input>(inputs.data(), 5))));

  const auto features = body(body.tensor<Input>(inputs.data(), 5));
  const auto copied = head.tensor(features, true);
  head.backward(loss(head, head(copied)));
  const auto upstream = body.tensor<Features<6>>(head.context().gradient(copied).data(), 5);
  body.backward(sum(features * upstream));
  const auto compare = [&](std::span<const float> found, const char* name) {
    const auto expected = whole.gradient(name);
    CHECK(hybrid::Distance().add(found.data(), expected.data(), expected.size()).relative <= hybrid::bound);
  };
  for (const char* name : {"hidden.weight", "hidden.bias"}) compare(body.gradient(name), name);
  for (const char* name : {"scores.weight", "scores.bias"}) compare(head.gradient(name), name);
}
