// Ten steps of SGD follow PyTorch's losses within 1e-4, on both devices.
#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"
#include "golden.hpp"

using namespace tenet;

namespace {
constexpr golden::Tolerance ten_steps{.losses = 1e-4, .weights = 1e-4, .outputs = 1e-3};
}

TEST_CASE("ten steps of LeNet follow PyTorch") {
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 5e-4f};
  golden::run<LeNet, CrossEntropy, Image<1, 28, 28>, Reference>("lenet", 16, 10, sgd, ten_steps, 0, 10);
  golden::run<LeNet, CrossEntropy, Image<1, 28, 28>, Cpu<>>("lenet", 16, 10, sgd, ten_steps, 0, 10);
}

TEST_CASE("ten steps of the ResNet-18 variant follow PyTorch") {
  const Sgd sgd{.learning_rate = 5e-5f, .momentum = 0.9f};
  golden::run<ResNet18<>, CrossEntropy, Image<1, 28, 28>, Cpu<>>("resnet18", 16, 10, sgd, ten_steps, 0, 10);
}
