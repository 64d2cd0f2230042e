#include "tenet/ops/cross_entropy.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
constexpr auto loss = [](auto scores, auto labels) { return cross_entropy(scores, labels); };
static_assert(std::is_same_v<traced::ResultOf<decltype(loss), Batched<5>, BatchedInt<>>, Scalar>);
static_assert(std::is_same_v<traced::ResultOf<decltype(loss), Batched<7, 5>, BatchedInt<7>>, Scalar>);

struct Classifier {
  Parameter<Fixed<4>, Constant<1>> before;
  Linear<4, 5> scores;
  constexpr auto forward(auto x) const { return scores(tanh(x * before.in(x))); }
};

struct Same {
  constexpr auto forward(auto x) const { return x; }
};
}  // namespace

TEST_CASE("gradients of cross entropy, of one row a sample and of sequences") {
  law::check_gradients<Classifier, Features<4>, CrossEntropy>({.low = -2, .high = 2});
  law::check_gradients<Classifier, Sequence<3, 4>, CrossEntropy>({.low = -2, .high = 2});
}

TEST_CASE("cross entropy and accuracy of a small table") {
  Trainer<Same, CrossEntropy, Sgd, Features<3>, Reference> trainer;
  const TensorDataset<> data({0, 0, 0, /**/ 1000, 0, -1000, /**/ 0, 1, 2}, {3}, {1, 0, 1});
  const Evaluation found = trainer.evaluate(DataLoader{data, {.batch_size = 2}});
  CHECK(found.loss == Approx((std::log(3.0) + 0 + 1.40760596) / 3));
  CHECK(found.accuracy == Approx(1.0 / 3));  // three equal scores: the first counts as the largest
  CHECK(found.samples == 3);
}
