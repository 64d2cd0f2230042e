#include "tenet/nn/loss.hpp"

#include <tenet/nn/activation.hpp>
#include <tenet/nn/embedding.hpp>
#include <tenet/optim/sgd.hpp>
#include <tenet/train/trainer.hpp>

#include "../support/network.hpp"

using namespace tenet;

namespace {
static_assert(CrossEntropy::fits<Batched<10>> && CrossEntropy::fits<Batched<7, 10>>);
static_assert(!CrossEntropy::fits<Batched<>> && !CrossEntropy::fits<Fixed<10>> && !CrossEntropy::fits<BatchedInt<10>>);
static_assert(std::is_same_v<CrossEntropy::Target<Batched<10>>, BatchedInt<>>);
static_assert(std::is_same_v<CrossEntropy::Target<Batched<7, 10>>, BatchedInt<7>>);
static_assert(CrossEntropy::has_accuracy);
static_assert(MeanSquaredError::fits<Batched<2, 3>> && !MeanSquaredError::fits<BatchedInt<2>>);
static_assert(std::is_same_v<MeanSquaredError::Target<Batched<2, 3>>, Batched<2, 3>>);
static_assert(!MeanSquaredError::has_accuracy);

template <class Loss, class Input>
using Evaluating = Trainer<Identity, Loss, Sgd, Input, Reference>;

template <class Trainer, class Targets>
Evaluation evaluate(const network::Floats& x, std::vector<int> extents, const Targets& targets,
                    std::vector<int> target_extents) {
  Trainer trainer;
  using Element = typename Targets::value_type;
  return trainer.evaluate(
      DataLoader{TensorDataset<float, Element>{x, extents, targets, target_extents}, {.batch_size = 2}});
}
}  // namespace

TEST_CASE("cross entropy is the mean of -log softmax at the label, accuracy the share of labels on top") {
  constexpr std::size_t classes = 5;
  network::Floats x = network::numbers(2 * 3 * classes);
  for (float& value : x) value *= 3;
  x[0] = 95;  // the exponential of a score may overflow
  const std::vector<std::int32_t> labels{0, 1, 2, 4, 0, 3};
  double loss = 0, right = 0;
  for (std::size_t row = 0; row < 6; ++row) {
    double total = 0;
    std::size_t top = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      total += std::exp(static_cast<double>(x[row * classes + c]));
      if (x[row * classes + c] > x[row * classes + top]) top = c;
    }
    const auto label = static_cast<std::size_t>(labels[row]);
    loss += (std::log(total) - x[row * classes + label]) / 6;
    right += (top == label) / 6.0;
  }
  const Evaluation rows = evaluate<Evaluating<CrossEntropy, Features<5>>>(x, {5}, labels, {});
  CHECK(rows.loss == Approx(loss).epsilon(1e-5));
  CHECK(rows.accuracy == Approx(right));
  CHECK(right > 0);
  CHECK(right < 1);
  const Evaluation sequences = evaluate<Evaluating<CrossEntropy, Sequence<3, 5>>>(x, {3, 5}, labels, {3});
  CHECK(sequences.loss == Approx(loss).epsilon(1e-5));
  CHECK(sequences.accuracy == Approx(right));
}

TEST_CASE("mean squared error is the mean over all elements, without an accuracy") {
  const network::Floats x = network::numbers(24, 1), target = network::numbers(24, 2);
  double loss = 0;
  for (std::size_t i = 0; i < 24; ++i) loss += (x[i] - target[i]) * (x[i] - target[i]) / 24.0;
  const Evaluation found = evaluate<Evaluating<MeanSquaredError, Sequence<2, 3>>>(x, {2, 3}, target, {2, 3});
  CHECK(found.loss == Approx(loss).epsilon(1e-5));
  CHECK(found.accuracy == -1);
}
