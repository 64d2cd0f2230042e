#include "tenet/optim/sgd.hpp"

#include "../support/update_rule.hpp"

using namespace tenet;

namespace {
void check(const Sgd& sgd) {
  const double rate = sgd.learning_rate, momentum = sgd.momentum, decay = sgd.weight_decay;
  update_rule::check(sgd, [=](update_rule::Number& number, double gradient, int) {
    number.first = momentum * number.first + gradient + decay * number.parameter;
    number.parameter -= rate * number.first;
  });
}
}  // namespace

TEST_CASE("stochastic gradient descent follows its formula") {
  check({.learning_rate = 0.1f});
  check({.learning_rate = 0.1f, .momentum = 0.9f});
  check({.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.3f});
}

TEST_CASE("without momentum it keeps nothing") {
  static_assert(PlainSgd::state_count == 0);
  const PlainSgd sgd{.learning_rate = 0.1f, .weight_decay = 0.3f};
  update_rule::check(sgd, [](update_rule::Number& number, double gradient, int) {
    number.parameter -= double{0.1f} * (gradient + double{0.3f} * number.parameter);
  });
}

TEST_CASE("a rate of zero leaves the parameters") {
  update_rule::check(Sgd{.learning_rate = 0, .momentum = 0.5f, .weight_decay = 1},
                     [](update_rule::Number&, double, int) {});
}
