#include "tenet/graph/storage.hpp"

#include <catch2/catch.hpp>
#include <string_view>

#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"
#include "../support/narrow_device.hpp"
#include "../support/networks.hpp"
#include "../support/plan_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {

using Mixed = BFloat16::KernelsOf<ReferenceKernels>;
template <class Net, class Input, class Loss = CrossEntropy, class Optimizer = Sgd, class Update = UpdateAfterBackward>
using Training = Program<TrainingProgram<Net, Loss, Optimizer, Input, Mixed, Update>>;
template <class Net, class Input>
using Inference = Program<InferenceProgram<Net, Input, Mixed>>;

static_assert(!keeps_narrow_values<ReferenceKernels> && keeps_narrow_values<Mixed>);
static_assert(std::is_same_v<Float32::KernelsOf<ReferenceKernels>, ReferenceKernels>);

/// Stored values of an operation that are narrow, and that are not.
struct Count {
  int narrow = 0, whole = 0;
  friend constexpr bool operator==(const Count&, const Count&) = default;
};
template <class Program, bool batched = true>
constexpr Count count(std::string_view name = {}) {
  Count result;
  for (int i = 0; i < Program::graph.count; ++i) {
    const auto& node = Program::graph.nodes[i];
    if (!node.is_computed() || !Program::fusion.stored[i] || node.type->batched != batched) continue;
    if (!name.empty() && name != node.operation->name) continue;
    (Program::storage.is_narrow(i) ? result.narrow : result.whole)++;
  }
  return result;
}

// The values of samples are narrow; what stands for the whole batch is not, nor what the caller reads.
using Residual = Training<networks::Residual, Image<2, 6, 5>>;
static_assert(count<Residual, true>().narrow > 8);
static_assert(count<Residual, false>().narrow == 0 && count<Residual, false>().whole > 8);
static_assert(count<Residual>("cross_entropy") == Count{0, 1} && count<Residual>("correct") == Count{0, 1});
static_assert(count<Residual>("cross_entropy_gradient") == Count{1, 0});
static_assert(count<Inference<Linear<4, 3>, Features<4>>>() == Count{0, 2});  // a product, and behind it the result
static_assert(count<Inference<Sequential<Linear<4, 3>, Tanh, Linear<3, 2>>, Features<4>>>().narrow == 1);
// A dropout's mask is one of two numbers, and 1 / (1 - p) is none that is short.
static_assert(count<Training<networks::Transformer, Tokens<12>>>("dropout_mask") == Count{0, 1});
// One number a sample is not worth it.
constexpr auto gated = [](auto x) { return softmax(x) * tanh(exp(sum_keep<-1>(x))); };
using Gated = Inference<traced::Function<[](auto x) { return softmax(gated(x)); }>, Features<4>>;
static_assert(count<Gated>("sum") == Count{0, 1});

// A narrow value of few numbers takes no less room than the result that is computed from it, element by element.
using Short = Inference<traced::Function<[](auto x) {
                          const auto y = softmax(x);
                          return tanh(y) + sum_keep<0>(y);
                        }>,
                        Features<10>>;
static_assert(count<Short>("softmax") == Count{1, 0} && count<Short>("add") == Count{0, 1});

// Kernels that read and write narrow numbers: what is stored so needs no other form, all else does.
template <class Net, class Input, class Loss = CrossEntropy, class Optimizer = Sgd, class Update = UpdateAfterBackward>
using NarrowTraining =
    Program<TrainingProgram<Net, Loss, Optimizer, Input, BFloat16::KernelsOf<narrow::Kernels>, Update>>;
template <class Program>
constexpr int conversions(std::string_view operation, DType to, bool of_operands) {
  int result = 0;
  for (int k = 0; k < Program::plan.conversion_count; ++k) {
    const Conversion& c = Program::plan.conversions[k];
    const int head = Program::order.head[c.step];
    result += operation == Program::graph.nodes[head].operation->name && c.place.dtype == to &&
              (c.value != head) == of_operands;
  }
  return result;
}
using NarrowStep = NarrowTraining<ResNet18<>, Image<1, 28, 28>>;
constexpr DType narrow_numbers = DType::bfloat16, floats = DType::float32;
static_assert(conversions<NarrowStep>("conv2d", narrow_numbers, true) == 21);  // twenty weights and the images
static_assert(conversions<NarrowStep>("conv2d_input_gradient", narrow_numbers, true) == 0);     // they are there still
static_assert(conversions<NarrowStep>("conv2d_weight_gradient", narrow_numbers, true) == 0);    // so are the images
static_assert(conversions<NarrowStep>("conv2d_weight_gradient", narrow_numbers, false) == 20);  // they are floats
static_assert(conversions<NarrowStep>("conv2d", narrow_numbers, false) == 0);
static_assert(conversions<NarrowStep>("conv2d", floats, true) == 0);
static_assert(conversions<NarrowStep>("conv2d", floats, false) == 0);

// Half the memory for what lasts, and room for one kernel's floats at a time.
using ResNetStep = Training<ResNet18<>, Image<1, 28, 28>>;
using Single = traced::Training<ResNet18<>, Image<1, 28, 28>, CrossEntropy>;
static_assert(ResNetStep::per_sample_floats < 0.6 * Single::per_sample_floats);
static_assert(ResNetStep::fixed_floats == Single::fixed_floats);
static_assert(Single::plan.conversion_count == 0);

}  // namespace

TEST_CASE("no narrow value is overwritten while it is needed") {
  law::ShadowRun<ResNetStep> shadow;
  shadow.run();
  CHECK(shadow.errors == 0);
  CHECK(shadow.written_in_place > 0);
  CHECK(shadow.conversions == 2 * ResNetStep::plan.conversion_count);  // it runs twice
  law::check_plan<Training<LeNet, Image<1, 28, 28>>>();
  law::check_plan<Training<networks::Transformer, Tokens<12>, CrossEntropy, AdamW, UpdateInBackward>>();
  law::check_plan<Training<networks::Drawn<3>, Batched<3, 4>, MeanSquaredError>>();
  law::check_plan<Training<networks::Drawn<4>, Batched<3, 4>, MeanSquaredError, Adam, UpdateInBackward>>();
  law::check_plan<Inference<networks::Residual, Image<2, 6, 5>>>();
  law::check_plan<Short>();
  law::check_plan<NarrowStep>();
  law::check_plan<NarrowTraining<LeNet, Image<1, 28, 28>>>();
  law::check_plan<NarrowTraining<networks::Residual, Image<2, 6, 5>, CrossEntropy, Sgd, UpdateInBackward>>();
  law::check_plan<NarrowTraining<networks::Transformer, Tokens<12>, CrossEntropy, AdamW, UpdateInBackward>>();
  law::check_plan<NarrowTraining<networks::Drawn<3>, Batched<3, 4>, MeanSquaredError>>();
}

TEST_CASE("pictures and summaries say which values are narrow") {
  using Net = Sequential<Linear<4, 3>, Tanh, Linear<3, 2>>;
  const auto holds = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(holds(summary<Net, Features<4>, Reference, BFloat16>(), "in place, 1 values as bfloat16\n"));
  CHECK_FALSE(holds(summary<Net, Features<4>, Reference>(), "bfloat16"));
  CHECK(holds(graph<Net, Features<4>, Reference, BFloat16>(), ", bfloat16\""));
  CHECK_FALSE(holds(graph<Net, Features<4>, Reference>(), "bfloat16"));
}
