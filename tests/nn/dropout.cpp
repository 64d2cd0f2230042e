#include "tenet/nn/dropout.hpp"

#include <tenet/nn/linear.hpp>
#include <tenet/nn/loss.hpp>
#include <tenet/nn/sequential.hpp>
#include <tenet/optim/sgd.hpp>
#include <tenet/train/trainer.hpp>

#include "../support/network.hpp"

using namespace tenet;

namespace {
static_assert(std::is_same_v<network::Output<Dropout<20>, Image<2, 3, 4>>, Image<2, 3, 4>>);
static_assert(slot_count<Dropout<>> == 0);

// The mask of a step is seen in the gradient of the parameter behind the layer: d mean(y²)/dp = 2·mask·y / count.
constexpr int count = 2000;
struct Offset {
  Parameter<Fixed<count>, Constant<1>> offset;
  constexpr auto operator()(AnySymbol auto x) const { return x + offset.in(x); }
};
template <int Percent>
using Masked = Sequential<Offset, Dropout<Percent>>;
template <int Percent>
using Training = Trainer<Masked<Percent>, MeanSquaredError, Sgd, Features<count>, Reference>;

struct Mask {
  int zeros = 0;
  float kept = 0;
};
Mask mask_of(auto& trainer) {
  const network::Floats zeros(count, 0.0f);
  trainer.step(zeros.data(), zeros.data(), 1);
  Mask result;
  for (int i = 0; i < count; ++i)
    if (trainer.gradients()[i] == 0)
      ++result.zeros;
    else
      result.kept = std::sqrt(trainer.gradients()[i] * count / 2);  // mask², for y = mask
  return result;
}
}  // namespace

TEST_CASE("dropout drops the given share and scales the rest") {
  Training<25> quarter{{.learning_rate = 0}};
  const Mask mask = mask_of(quarter);
  CHECK(std::fabs(mask.zeros - 0.25 * count) < 5 * std::sqrt(0.25 * 0.75 * count));
  CHECK(mask.kept == Approx(1 / 0.75));
  Training<0> none{{.learning_rate = 0}};
  CHECK(mask_of(none).zeros == 0);
  CHECK(mask_of(none).kept == Approx(1));
}

TEST_CASE("dropout does nothing in evaluation mode") {
  Training<25> trainer;
  const network::Floats x = network::numbers(count);
  const auto y = trainer.predict(x.data(), 1);
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(y[i] == x[i] + 1);
}
