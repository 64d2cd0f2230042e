#include "tenet/optim/adam.hpp"

#include "../support/update_rule.hpp"

using namespace tenet;

namespace {
template <class Optimizer>
void check(const Optimizer& adam, bool decoupled) {
  const double rate = adam.learning_rate, beta1 = adam.beta1, beta2 = adam.beta2, epsilon = adam.epsilon;
  const double decay = adam.weight_decay;
  update_rule::check(adam, [=](update_rule::Number& number, double gradient, int step) {
    if (decoupled)
      number.parameter -= rate * decay * number.parameter;
    else
      gradient += decay * number.parameter;
    number.first = beta1 * number.first + (1 - beta1) * gradient;
    number.second = beta2 * number.second + (1 - beta2) * gradient * gradient;
    const double mean = number.first / (1 - std::pow(beta1, step));
    const double square = number.second / (1 - std::pow(beta2, step));
    number.parameter -= rate * mean / (std::sqrt(square) + epsilon);
  });
}
}  // namespace

TEST_CASE("Adam follows its formula, decay in the gradient") {
  check(Adam{.learning_rate = 0.01f}, false);
  check(Adam{.learning_rate = 0.01f, .beta1 = 0.5f, .beta2 = 0.9f, .epsilon = 0.1f, .weight_decay = 0.3f}, false);
}

TEST_CASE("AdamW follows its formula, decay of the parameters") {
  check(AdamW{.learning_rate = 0.01f}, true);
  check(AdamW{.learning_rate = 0.01f, .beta1 = 0.5f, .beta2 = 0.9f, .epsilon = 0.1f, .weight_decay = 0.3f}, true);
}

TEST_CASE("defaults are PyTorch's") {
  CHECK(Adam{}.learning_rate == 1e-3f);
  CHECK(Adam{}.beta1 == 0.9f);
  CHECK(Adam{}.beta2 == 0.999f);
  CHECK(Adam{}.epsilon == 1e-8f);
  CHECK(Adam{}.weight_decay == 0.0f);
  CHECK(AdamW{}.weight_decay == 0.01f);
}
