#include "tenet/graph/memory_plan.hpp"

#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"
#include "../support/lending_device.hpp"
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
template <class Net, class Input, class Loss = CrossEntropy, class Optimizer = Sgd>
using Lent = Program<TrainingProgram<Net, Loss, Optimizer, Input, lending::Kernels, UpdateInBackward>>;

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

TEST_CASE("what a workspace may take is needed by nobody") {
  const auto rooms = []<class Program>(std::type_identity<Program>) {
    law::ShadowRun<Program> shadow;
    shadow.run();
    CHECK(shadow.errors == 0);
    return shadow.rooms;
  };
  CHECK(rooms(std::type_identity<Lent<LeNet, Image<1, 28, 28>>>{}) > 20);
  CHECK(rooms(std::type_identity<Lent<networks::ConvTowers, Image<2, 6, 5>>>{}) > 20);
  CHECK(rooms(std::type_identity<Lent<networks::Transformer, Tokens<12>, CrossEntropy, AdamW>>{}) > 20);
  CHECK(rooms(std::type_identity<Program<InferenceProgram<LeNet, Image<1, 28, 28>, lending::Kernels>>>{}) > 5);
  CHECK(rooms(std::type_identity<LeNetStep>{}) == 0);  // a device that is lent nothing
}

TEST_CASE("a step in which little is alive has room up to the end of the memory") {
  using Step = Program<InferenceProgram<networks::Residual, Image<2, 6, 5>, lending::Kernels>>;
  constexpr const FreeRoom& first = Step::plan.room[Step::order.prepared];  // the stem's convolution
  CHECK(first.end == 16 * 8);
  CHECK(first.largest[0].floats == Step::per_sample_floats - first.end);
  CHECK(first.largest[0].place == Place{Arena::per_sample, first.end});
}
