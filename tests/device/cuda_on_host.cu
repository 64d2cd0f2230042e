#include <catch2/catch.hpp>
#include <string_view>
#include <tuple>
#include <utility>

#include "../../examples/models/lenet.hpp"
#include "../support/narrow_device.hpp"
#include "../support/networks.hpp"
#include "../support/same_training.hpp"
#include "random_numbers.hpp"
#include "tenet/cuda.hpp"
#include "tenet/data/resident.hpp"
#include "tenet/device/cuda_on_host.hpp"
#include "tenet/tenet.hpp"

using namespace tenet;

namespace {

/// What trains a network, and a few batches for it.
template <class Net_, class Input_, class Loss_, class Optimizer_, class... Policies>
struct Case {
  using Input = Input_;
  /// By definition; in mixed precision a GPU multiplies bfloat16.
  using Expected = std::conditional_t<(std::is_same_v<Policies, BFloat16> || ...), narrow::Device, Reference>;
  template <class Device>
  using TrainerOn = Trainer<Net_, Loss_, Optimizer_, Input_, Device, Policies...>;
  using Element = typename Input::Element;
  using Target = typename TrainerOn<Expected>::Target;
  static constexpr int largest_batch = 7;

  std::vector<Element> inputs;
  std::vector<typename Target::Element> targets;

  Case() {
    if constexpr (std::is_same_v<Element, float>)
      inputs = random_floats(largest_batch * Input::size, 1);
    else
      inputs = random_integers(largest_batch * Input::size, 0, 17, 1);
    if constexpr (std::is_same_v<typename Target::Element, float>)
      targets = random_floats(largest_batch * Target::size, 2);
    else
      targets = random_integers(largest_batch * Target::size, 0, 3, 2);
  }
};

/// Losses, parameters, gradients and predictions of a few steps agree with the reference device's, within rounding.
template <class Device, class Case>
void check_training(float tolerance) {
  const Case with;
  typename Case::template TrainerOn<typename Case::Expected> expected{{.learning_rate = 0.05f}, 3};
  typename Case::template TrainerOn<Device> found{{.learning_rate = 0.05f}, 3};
  check_same_training(expected, found, with.inputs.data(), with.targets.data(), {4, 4, 7, 4, 1, 4}, tolerance);
}

template <class Case>
void check_everywhere(float tolerance) {
  check_training<CudaOnHost<gpu::ParallelHost>, Case>(tolerance);
  if (gpu::device_count() > 0) check_training<Cuda<0>, Case>(tolerance);
}

/// Products of a program that add a bias, and those that take the positive part besides, as they write.
template <class Program>
std::pair<int, int> products_with_bias() {
  std::pair<int, int> found{};
  for (int s = 0; s < Program::lowered.used.steps; ++s) {
    const auto& step = Program::lowered.steps[s];
    if (step.kind != Kind::kernel || std::string_view(step.name) != "matmul" || step.pointwise.bias() < 0) continue;
    ++(step.pointwise.ends_with_relu() ? found.second : found.first);
  }
  return found;
}

/// Losses of some epochs, recorded steps among them, and of an evaluation.
template <class Device, class Data>
std::vector<double> losses_of(const Data& data) {
  using Lenet = Case<LeNet, Image<1, 28, 28>, CrossEntropy, Sgd>;
  typename Lenet::template TrainerOn<Device> trainer{{.learning_rate = 0.05f}, 3};
  DataLoader loader{data, {.batch_size = 4, .shuffle = true, .seed = 5}};
  std::vector<double> losses;
  FitOptions options{.epochs = 3, .progress = nullptr};
  options.on_step = [&](long, const StepResult& result) { losses.push_back(result.loss); };
  trainer.fit(loader, options);
  losses.push_back(trainer.evaluate(loader).loss);
  return losses;
}

template <class Device>
void check_resident_data() {
  const Map images(GeneratedImages::train(11), RandomCrop{2});
  const std::vector<double> expected = losses_of<Device>(images), found = losses_of<Device>(Resident{images});
  CHECK(found.size() == 10);
  CHECK(found == expected);
}

}  // namespace

TEST_CASE("data that stays on a GPU gives the losses of a loader on the host, bit for bit", "[cuda]") {
  check_resident_data<CudaOnHost<gpu::ParallelHost>>();
  if (gpu::device_count() > 0) check_resident_data<Cuda<0>>();
}

TEST_CASE("the programs of a GPU train a perceptron as the reference device does", "[cuda]") {
  check_everywhere<Case<networks::Towers, Features<16>, CrossEntropy, Adam>>(1e-4f);
}

TEST_CASE("the programs of a GPU train LeNet as the reference device does", "[cuda]") {
  using Lenet = Case<LeNet, Image<1, 28, 28>, CrossEntropy, Sgd>;
  check_everywhere<Lenet>(1e-4f);
  using Trainer = Lenet::TrainerOn<CudaOnHost<gpu::ParallelHost>>;
  CHECK(products_with_bias<Trainer::Training>() == std::pair{1, 2});  // three linear layers
}

TEST_CASE("the programs of a GPU train batch norm, dropout and branches as the reference device does", "[cuda]") {
  check_everywhere<Case<networks::ConvTowers, Image<2, 6, 5>, CrossEntropy, Sgd>>(1e-4f);
}

TEST_CASE("the programs of a GPU train batch norm of features as the reference device does", "[cuda]") {
  struct Net : Sequential<Linear<16, 12>, BatchNorm1d<12>, ReLU, Linear<12, 3>> {};
  check_everywhere<Case<Net, Features<16>, CrossEntropy, Sgd>>(1e-4f);
}

TEST_CASE("the programs of a GPU train a residual network of narrow activations as the reference device does",
          "[cuda]") {
  check_everywhere<Case<networks::Residual, Image<2, 6, 5>, CrossEntropy, Sgd, UpdateInBackward, BFloat16>>(1e-2f);
}

TEST_CASE("the programs of a GPU train a transformer as the reference device does", "[cuda]") {
  // Not by Adam: the gradient of the keys' bias is zero but for rounding, which Adam would make steps of.
  check_everywhere<Case<networks::Transformer, Tokens<12>, CrossEntropy, Sgd>>(1e-4f);
}
