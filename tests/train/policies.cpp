#include "tenet/train/policies.hpp"

#include <catch2/catch.hpp>
#include <tenet/device/reference.hpp>
#include <tenet/nn/linear.hpp>
#include <tenet/optim/sgd.hpp>
#include <tenet/train/trainer.hpp>

using namespace tenet;

namespace {
// The list is unordered, and everything but the input's shape has a default.
static_assert(std::is_same_v<Policies<Features<4>>::Input, Features<4>>);
static_assert(std::is_same_v<Policies<Features<4>>::Device, Cpu<>>);
static_assert(std::is_same_v<Policies<Features<4>, Cpu<1, 2>>::Device, Cpu<1, 2>>);
static_assert(std::is_same_v<Policies<Cpu<1, 2>, Features<4>>::Device, Cpu<1, 2>>);
static_assert(std::is_same_v<Policies<Reference, Tokens<7>>::Device, Reference>);
static_assert(std::is_same_v<Policies<Reference, Tokens<7>>::Input, Tokens<7>>);

using Net = Linear<4, 2>;
using One = Trainer<Net, MeanSquaredError, Sgd, Features<4>, Reference>;
using Other = Trainer<Net, MeanSquaredError, Sgd, Reference, Features<4>>;
static_assert(std::is_same_v<One::Training, Other::Training>);
static_assert(std::is_same_v<One::Device, Reference> && std::is_same_v<Other::Input, Features<4>>);
// Logical devices and numbers of threads share the compiled program.
using First = Trainer<Net, MeanSquaredError, Sgd, Features<4>, Cpu<0, 1>>;
using Second = Trainer<Net, MeanSquaredError, Sgd, Cpu<1, 2>, Features<4>>;
static_assert(std::is_same_v<First::Training, Second::Training>);
}  // namespace

TEST_CASE("policies in any order train alike") {
  One one{{.learning_rate = 0.1f}, 3};
  Other other{{.learning_rate = 0.1f}, 3};
  const float x[] = {1, 2, 3, 4}, y[] = {0.5f, -1};
  for (int step = 0; step < 3; ++step) CHECK(one.step(x, y, 1).loss == other.step(x, y, 1).loss);
}
