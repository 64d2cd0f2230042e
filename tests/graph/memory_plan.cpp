#include "tenet/graph/memory_plan.hpp"

#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"
#include "../support/networks.hpp"
#include "../support/plan_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
using LeNetStep = traced::Training<LeNet, Image<1, 28, 28>, CrossEntropy>;
using ResNetStep = traced::Training<ResNet18<>, Image<1, 28, 28>, CrossEntropy>;
using TransformerStep = traced::Training<networks::Transformer, Tokens<12>, CrossEntropy, AdamW>;
template <class Net, class Input, class Loss = CrossEntropy, class Optimizer = Sgd>
using InBackward = Program<TrainingProgram<Net, Loss, Optimizer, Input, traced::Kernels, UpdateInBackward>>;

static_assert(ResNetStep::plan.per_sample_floats <= 0.4 * ResNetStep::plan.unplanned_per_sample_floats);
static_assert(ResNetStep::plan.reused_in_place > 0);
static_assert(ResNetStep::per_sample_floats == ResNetStep::plan.per_sample_floats);

// Inference keeps two values at a time, and a chain of element-wise operations one.
using Chain =
    traced::Inference<Sequential<Linear<64, 64>, ReLU, Linear<64, 64>, ReLU, Linear<64, 64>, ReLU, Linear<64, 64>>,
                      Features<64>>;
static_assert(Chain::per_sample_floats == 128);

// Updated in the backward pass, a network's gradients share the memory of the largest ones.
static_assert(InBackward<LeNet, Image<1, 28, 28>>::fixed_floats < 2 * 400 * 120);
static_assert(slot_table<LeNet>.parameter_floats + LeNetStep::fixed_floats >
              InBackward<LeNet, Image<1, 28, 28>>::fixed_floats);
}  // namespace

TEST_CASE("no value is overwritten while it is needed") {
  law::check_plan<LeNetStep>();
  law::check_plan<traced::Inference<LeNet, Image<1, 28, 28>>>();
  CHECK(law::check_plan<ResNetStep>() > 0);
  law::check_plan<TransformerStep>();
  law::check_plan<traced::Inference<networks::Transformer, Tokens<12>>>();
}

TEST_CASE("old values are read before new ones are written over them") {
  using Step = InBackward<networks::Transformer, Tokens<12>, CrossEntropy, AdamW>;
  law::ShadowRun<Step> shadow;
  shadow.run();
  CHECK(shadow.errors == 0);
  CHECK(shadow.old_values_read > 3 * slot_table<networks::Transformer>.count / 2);  // parameters and two moments
  law::check_plan<InBackward<LeNet, Image<1, 28, 28>>>();
  law::check_plan<InBackward<networks::Residual, Image<2, 6, 5>>>();
  law::check_plan<InBackward<networks::Drawn<3>, Batched<3, 4>, MeanSquaredError, Adam>>();
  law::check_plan<InBackward<networks::Drawn<4>, Batched<3, 4>, MeanSquaredError>>();
}

TEST_CASE("free ranges are joined, and the best fitting one is taken") {
  detail::FreeRanges ranges;
  const long a = ranges.take(16), b = ranges.take(32), c = ranges.take(16), d = ranges.take(64);
  CHECK(ranges.top() == 128);
  ranges.give_back(b, 32);
  ranges.give_back(a, 16);  // joins b
  CHECK(ranges.take(48) == a);
  ranges.give_back(a, 48);
  ranges.give_back(d, 64);
  CHECK(ranges.take(32) == a);  // the smaller of the two that fit
  CHECK(ranges.take(64) == d);
  CHECK(ranges.top() == 128);
  ranges.give_back(d, 64);
  CHECK(ranges.take(80) == d);  // the range at the end grows
  CHECK(ranges.top() == 144);
  CHECK(c == 48);
}
