#include "tenet/exec/lower.hpp"

#include <catch2/catch.hpp>
#include <string>

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
