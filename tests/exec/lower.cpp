#include "tenet/exec/lower.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "../support/networks.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
// Three parameters with one gradient: it is computed once and copied twice, before the update reads it.
struct Sums {
  Linear<4, 4> linear;
  Parameter<Fixed<4>, Constant<0>> a, b;
  constexpr auto forward(auto x) const { return linear(x) + a.in(x) + b.in(x); }
};
using SumsStep = traced::Training<Sums, Features<4>>;

// Equal regions are compiled once, wherever they stand.
using Deep =
    traced::Inference<Sequential<Linear<8, 8>, Tanh, Linear<8, 8>, Tanh, Linear<8, 8>, Tanh, Linear<8, 8>, Tanh>,
                      Features<8>>;
static_assert(Deep::order.count == 4);
static_assert(Deep::lowered.used.steps == 4 && Deep::lowered.used.calls == 4 && Deep::lowered.used.programs == 1);
static_assert(Deep::lowered.steps[2].kind == Kind::kernel && Deep::lowered.steps[2].epilogue == 2);

// A region is vectorised within a block: whole where nothing is broadcast or rows are, a row where columns are.
template <auto function>
using OfMatrix = traced::Inference<traced::Function<function>, Batched<6, 4>>;
static_assert(OfMatrix<[](auto x) { return x * x + 1; }>::lowered.used.steps == 1);
static_assert(OfMatrix<[](auto x) { return sum<1, 2>(x * x); }>::lowered.steps[0].role == Role::sum);
static_assert(OfMatrix<[](auto x) { return sum<0>(x * x); }>::lowered.steps[0].role == Role::sum_rows);
static_assert(OfMatrix<[](auto x) { return sum<0, 2>(x); }>::lowered.steps[0].sum.inner == 4);

/// The reference device, whose products may add a bias as they write.
struct Biased : ReferenceKernels {
  static constexpr bool kernels_add_bias = true;
};
/// Of each product, in their order: 'b' with a bias, 'r' with a ReLU, too, '.' with neither.
template <class Program>
constexpr auto biases() {
  std::array<char, 8> found{};
  std::size_t products = 0;
  for (int s = 0; s < Program::lowered.used.steps; ++s) {
    const auto& step = Program::lowered.steps[s];
    if (step.kind != Kind::kernel || std::string_view(step.name) != "matmul") continue;
    found[products++] = step.pointwise.bias() < 0 ? '.' : step.pointwise.ends_with_relu() ? 'r' : 'b';
  }
  return found;
}
template <class Net, class Kernels = Biased>
inline constexpr auto biases_of = biases<Program<InferenceProgram<Net, Features<4>, Kernels>>>();
template <class Net>
inline constexpr auto biases_of_training =
    biases<Program<TrainingProgram<Net, MeanSquaredError, Sgd, Features<4>, Biased>>>();
using Layers = Sequential<Linear<4, 6>, ReLU, Linear<6, 5>, Tanh, Linear<5, 4>>;
static_assert(biases_of<Layers> == std::array<char, 8>{'r', '.', 'b'});
static_assert(biases_of<Layers, ReferenceKernels> == std::array<char, 8>{'.', '.', '.'});
static_assert(biases_of_training<Sequential<Linear<4, 6>, ReLU, Linear<6, 4>>> ==
              std::array<char, 8>{'r', '.', '.'});  // the loss reads the second one; and a gradient by the input
/// In mixed precision the first layer's result is narrow.
static_assert(biases_of<Sequential<Linear<4, 6>, ReLU, Linear<6, 4>>, WithActivations<Biased, DType::bfloat16>> ==
              std::array<char, 8>{'.', 'b'});

/// Regions that add something else: more than a bias, other rows for each sample, one number to all.
struct NoBias {
  Linear<4, 4> a, b;
  Parameter<Fixed<4, 4>, Constant<1>> weight;
  constexpr auto forward(auto x) const {
    const auto y = a(x);
    const auto z = b(relu(y) + y) + x;
    return relu(matmul(relu(matmul(z, weight.in(x)) + z), weight.in(x)) + 2);
  }
};
/// A product that others read, too.
struct ReadTwice {
  Parameter<Fixed<4, 4>, Constant<1>> weight;
  Parameter<Fixed<4>, Constant<1>> bias;
  constexpr auto forward(auto x) const {
    const auto y = matmul(x, weight.in(x));
    return matmul(y, weight.in(x)) + relu(y + bias.in(x));
  }
};
static_assert(biases_of<ReadTwice> == std::array<char, 8>{'.', '.'});
static_assert(biases_of<NoBias> == std::array<char, 8>{'.', '.', '.', '.'});
}  // namespace

TEST_CASE("gradients that are copied are there before the update") {
  int copies = 0, last_copy = -1, update = -1;
  for (int s = 0; s < SumsStep::lowered.used.steps; ++s) {
    const auto& step = SumsStep::lowered.steps[s];
    if (std::string(step.name) == "copy") {
      ++copies;
      last_copy = s;
    } else if (step.kind == Kind::element) {
      update = s;
    }
  }
  CHECK(copies == 2);
  CHECK(last_copy < update);
  CHECK(update == SumsStep::lowered.used.steps - 1);
}

TEST_CASE("parameters with one gradient get the same update") {
  using SumsTrainer = Trainer<Sums, MeanSquaredError, Sgd, Features<4>, Reference>;
  const auto made = std::make_unique<SumsTrainer>(Sgd{.learning_rate = 0.1f});
  SumsTrainer& trainer = *made;
  const float x[] = {1, 2, 3, 4}, y[] = {0, 1, 0, 1};
  const float before = trainer.weights()["linear.bias"][0];
  for (int step = 0; step < 2; ++step) {
    trainer.step(x, y, 1);
    const float moved = trainer.weights()["linear.bias"][0] - before;
    CHECK(moved != 0);
    CHECK(trainer.weights()["a"][0] == Approx(moved));
    CHECK(trainer.weights()["b"][0] == Approx(moved));
  }
}
