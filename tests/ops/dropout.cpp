#include "tenet/ops/dropout.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
constexpr int count = 4000;

// y = dropout(a·x): for a = x = 1 the output is the mask, and so is the gradient of Σ y.
struct Dropped {
  Parameter<Fixed<count>, Constant<1>> a;
  constexpr auto forward(auto x) const { return dropout(x * a.in(x), 0.3f); }
};
struct DroppedTwice {
  Parameter<Fixed<count>, Constant<1>> a, b;
  constexpr auto forward(auto x) const { return dropout(x * a.in(x), 0.3f) - 2 * dropout(x * b.in(x), 0.3f); }
};

// In inference and evaluation there is nothing left of it.
static_assert(traced::operations<traced::Inference<Dropped, Features<count>>>("dropout_mask") == 0);
static_assert(traced::operations<traced::Inference<Dropped, Features<count>>>() == 1);
static_assert(traced::operations<traced::Training<Dropped, Features<count>>>("dropout_mask") == 1);
static_assert(traced::operations<traced::Training<DroppedTwice, Features<count>>>("dropout_mask") == 2);

using Trained = Trainer<Dropped, law::WeightedSum, law::Nothing, Features<count>, Reference>;

// The mask of a trainer's next step as its gradient shows it: one sample of ones, targets of ones.
template <class Trainer>
std::vector<float> next_mask(Trainer& trainer, float* loss = nullptr) {
  const std::vector<float> ones(count, 1.0f);
  const StepResult result = trainer.step(ones.data(), ones.data(), 1);
  if (loss != nullptr) *loss = result.loss;
  std::vector<float> mask(trainer.gradients(), trainer.gradients() + count);
  for (float& value : mask) value *= count;
  return mask;
}
}  // namespace

TEST_CASE("a mask has zeros with the given probability and keeps the mean") {
  Trained trainer({}, 1);
  float loss = 0;
  const std::vector<float> mask = next_mask(trainer, &loss);
  int zeros = 0;
  double sum = 0;
  for (const float value : mask) {
    CHECK((value == 0.0f || value == Approx(1 / 0.7f)));
    zeros += value == 0.0f;
    sum += value;
  }
  CHECK(std::abs(zeros - 0.3 * count) < 4 * std::sqrt(0.3 * 0.7 * count));
  CHECK(loss == Approx(sum / count).epsilon(1e-4));  // forward and backward used one mask
}

TEST_CASE("steps, seeds and places have masks of their own, a seed gives its masks again") {
  Trained first({}, 1), again({}, 1), other({}, 2);
  const std::vector<float> one = next_mask(first), two = next_mask(first);
  CHECK(one != two);
  CHECK(next_mask(again) == one);
  CHECK(next_mask(again) == two);
  CHECK(next_mask(other) != one);

  Trainer<DroppedTwice, law::WeightedSum, law::Nothing, Features<count>, Reference> twice;
  next_mask(twice);
  int equal = 0;
  for (int i = 0; i < count; ++i)
    equal += (twice.gradients()[i] == 0) == (twice.gradients()[slot_table<DroppedTwice>.slots[1].offset + i] == 0);
  CHECK(equal < 0.65 * count);  // 0.58 where the masks are independent
}

TEST_CASE("devices draw the same mask") {
  Trained reference({}, 3);
  Trainer<Dropped, law::WeightedSum, law::Nothing, Features<count>, Cpu<0, 2>> cpu({}, 3);
  CHECK(next_mask(reference) == next_mask(cpu));
}

TEST_CASE("a prediction is not dropped") {
  Trained trainer;
  const std::vector<float> x = law::sample<float>(count, 1, {});
  const auto y = trainer.predict(x.data(), 1);
  CHECK(std::vector<float>(y.begin(), y.end()) == x);
}
