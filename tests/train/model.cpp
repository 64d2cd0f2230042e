#include "tenet/train/model.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "../support/hybrid.hpp"
#include "../temporary_folder.hpp"
#include "tenet/tenet.hpp"

namespace {

using namespace tenet;

using Net = Sequential<Conv2d<1, 3, 3, Padding<1>>, BatchNorm2d<3>, ReLU, MaxPool2d<2>, Flatten, Dropout<20>,
                       Linear<3 * 3 * 2, 4>>;
using Input = Image<1, 6, 5>;
const std::vector<float> inputs = hybrid::random_numbers(7 * Input::size, 1);

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace

TEST_CASE("a model loads what a trainer has saved, and predicts the same", "[model]") {
  TemporaryFolder folder;
  Trainer<Net, CrossEntropy, Sgd, Input, Reference> trainer({.learning_rate = 0.1f}, 5);
  const std::vector<std::int32_t> labels{0, 1, 2, 3, 0, 1, 2};
  for (int i = 0; i < 3; ++i) trainer.step(inputs.data(), labels.data(), 7);
  trainer.save(folder / "net.safetensors");
  const auto expected = copy(trainer.predict(inputs.data(), 7));

  Model<Net, Input, Reference> model(folder / "net.safetensors");
  CHECK(copy(model(inputs.data(), 7)) == expected);
  CHECK(model.weights().steps() == 3);
  Model<Net, Input, Reference> untrained(5);
  CHECK(copy(untrained(inputs.data(), 7)) != expected);

  // On another device the same file gives the same scores within the roundings of sums of eighteen products.
  Model<Net, Input, Cpu<0, 2>> elsewhere(folder / "net.safetensors");
  const auto scores = copy(elsewhere(inputs.data(), 7));
  for (std::size_t i = 0; i < scores.size(); ++i) CHECK(scores[i] == Approx(expected[i]).margin(1e-5));
}

TEST_CASE("a model takes batches of any size in any order", "[model]") {
  Model<Net, Input, Reference> model(2);
  const auto all = copy(model(inputs.data(), 7));
  REQUIRE(all.size() == 7 * 4);
  for (int first : {0, 3, 6}) {
    const auto one = copy(model(inputs.data() + first * Input::size));  // batch 1 by default
    CHECK(one == std::vector<float>(all.begin() + first * 4, all.begin() + first * 4 + 4));
  }
  CHECK(copy(model(inputs.data(), 7)) == all);
}

TEST_CASE("a model sees changes of its weights", "[model]") {
  Model<Net, Input, Reference> model(2);
  const auto before = copy(model(inputs.data(), 1));
  for (float& bias : model.weights()["6.bias"]) bias += 2;
  const auto after = copy(model(inputs.data(), 1));
  for (std::size_t i = 0; i < 4; ++i) CHECK(after[i] == Approx(before[i] + 2));
}

TEST_CASE("a model refuses files that are not its network's", "[model]") {
  TemporaryFolder folder;
  using Refused = Model<Net, Input, Reference>;
  CHECK_THROWS_AS(Refused(folder / "missing.safetensors"), Error);
  Weights<Sequential<Linear<2, 3>>>().save(folder / "other.safetensors");
  CHECK_THROWS_AS(Refused(folder / "other.safetensors"), Error);
}

TEST_CASE("a model compiles no backward pass", "[model]") {
  using Inference = Model<Net, Input, Reference>::Inference;
  for (const auto& node : Inference::graph.nodes) {
    if (!node.is_computed()) continue;
    CHECK(node.operation->gradient == nullptr);
    CHECK(std::string_view(node.operation->name).find("gradient") == std::string_view::npos);
    CHECK(std::string_view(node.operation->name).find("dropout") == std::string_view::npos);
  }
}

namespace {

/// A network whose weights are prepared in several ways: for patches, for products of one row, scales of batch norm.
template <class Device>
void follows_its_weights() {
  using Wide = Sequential<Conv2d<1, 16, 3, Padding<1>>, BatchNorm2d<16>, ReLU, Conv2d<16, 40, 3, Stride<2>>, Flatten,
                          Linear<40 * 2 * 2, 4>>;
  const auto wide_inputs = hybrid::random_numbers(3 * 36, 4);
  TemporaryFolder folder;
  Model<Wide, Image<1, 6, 6>, Device> model(1), other(2);
  Model<Wide, Image<1, 6, 6>, Reference> reference(1), other_reference(2);
  const auto agree = [&](auto& a, auto& b) {
    for (const int batch : {1, 3}) {
      const auto found = copy(a(wide_inputs.data(), batch)), expected = copy(b(wide_inputs.data(), batch));
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(1e-4));
    }
  };
  agree(model, reference);
  agree(model, reference);
  const auto change = [](auto& weights) {  // through spans
    for (float& weight : weights["3.weight"]) weight *= 2;
    for (float& variance : weights["1.running_var"]) variance += 1;
  };
  change(model.weights());
  change(reference.weights());
  agree(model, reference);
  other.weights().save(folder / "other.safetensors");  // from a file
  model.weights().load(folder / "other.safetensors");
  agree(model, other_reference);
  float* const parameters = model.weights().parameters();  // through a pointer that is kept
  agree(model, other_reference);
  std::fill(parameters, parameters + model.weights().table.parameter_floats, 0.0f);
  model.weights().changed();
  for (const float score : model(wide_inputs.data(), 3)) CHECK(score == 0);
}

}  // namespace

TEST_CASE("a model follows its weights when they change", "[model]") {
  follows_its_weights<Reference>();
  follows_its_weights<Cpu<0, 2>>();
}

TEST_CASE("a trainer predicts and evaluates with the weights of the last step", "[model]") {
  Trainer<Net, CrossEntropy, Sgd, Input, Cpu<0, 2>> trainer{{.learning_rate = 0.1f}, 5};
  Trainer<Net, CrossEntropy, Sgd, Input, Reference> reference{{.learning_rate = 0.1f}, 5};
  const std::vector<std::int32_t> labels{0, 1, 2, 3, 0, 1, 2};
  for (int i = 0; i < 3; ++i) {
    trainer.step(inputs.data(), labels.data(), 7);
    reference.step(inputs.data(), labels.data(), 7);
    const auto found = copy(trainer.predict(inputs.data(), 7)), expected = copy(reference.predict(inputs.data(), 7));
    for (std::size_t j = 0; j < found.size(); ++j) CHECK(found[j] == Approx(expected[j]).margin(1e-4));
  }
}
