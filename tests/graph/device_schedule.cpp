#include "tenet/graph/device_schedule.hpp"

#include "../../examples/models/resnet18.hpp"
#include "../support/networks.hpp"
#include "../support/plan_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {

template <class Net, class Input, int devices>
using Inference = Program<OnDevices<InferenceProgram<Net, Input, traced::Kernels>, devices>>;
template <class Net, class Input, int devices, class Loss = CrossEntropy, class Optimizer = Sgd>
using Training = Program<OnDevices<TrainingProgram<Net, Loss, Optimizer, Input, traced::Kernels>, devices>>;

/// Two towers that are worth two devices.
template <int width>
struct Wide {
  Linear<width, width> left1, left2, right1, right2;
  constexpr auto forward(auto x) const { return left2(relu(left1(x))) + right2(relu(right1(x))); }
};
struct Chain : Sequential<Linear<512, 512>, ReLU, Linear<512, 512>, ReLU, Linear<512, 512>> {};

// On one device nothing has changed.
using OneDeviceStep = Program<OnDevices<InferenceProgram<networks::Towers, Features<16>, traced::Kernels>, 1>>;
using PlainStep = traced::Inference<networks::Towers, Features<16>>;
static_assert(OneDeviceStep::lowered.used.steps == PlainStep::lowered.used.steps);
static_assert(std::is_same_v<decltype(OneDeviceStep::order), decltype(PlainStep::order)>);

// Each tower is a device's. The sum of both and of their biases stands alone: behind one kernel it would wait for the
// other.
using WideInference = Inference<Wide<512>, Features<512>, 2>;
static_assert(WideInference::order.count == 5);
static_assert(traced::Inference<Wide<512>, Features<512>>::order.count == 4);
static_assert(WideInference::order.flops[0] - WideInference::order.flops[1] <= 3 * 32 * 512);
static_assert(WideInference::order.longest < 0.52 * WideInference::order.sum);
static_assert(WideInference::order.end < 0.53 * WideInference::order.sum);
// The longest chain bounds any schedule, and a chain gains nothing.
static_assert(Inference<Wide<512>, Features<512>, 4>::order.end >= WideInference::order.longest);
static_assert(Inference<Chain, Features<512>, 2>::order.longest == Inference<Chain, Features<512>, 2>::order.sum);
static_assert(Inference<Chain, Features<512>, 2>::order.end == Inference<Chain, Features<512>, 2>::order.sum);
static_assert(Inference<Chain, Features<512>, 2>::order.flops[1] == 0);
// But its backward pass does: weights' gradients are needed by nobody but the update.
static_assert(Training<Chain, Features<512>, 2>::order.end < 0.8 * Training<Chain, Features<512>, 2>::order.sum);
// What is small stays on one device: to wait for another one takes longer.
static_assert(Inference<Wide<8>, Features<8>, 2>::order.flops[1] == 0);
static_assert(Inference<Wide<8>, Features<8>, 2>::order.end == Inference<Wide<8>, Features<8>, 2>::order.sum);

/// The same, with a layer behind both.
struct WideWithHead {
  Linear<512, 512> left1, left2, right1, right2;
  Linear<512, 10> head;
  constexpr auto forward(auto x) const { return head(left2(relu(left1(x))) + right2(relu(right1(x)))); }
};

/// Whether each of two towers has a device, which runs its products in both passes. Layers of the left one have the
/// slots 0 to 3.
template <class P>
constexpr bool towers_keep_their_devices() {
  int device[2] = {-1, -1};
  for (int s = 0; s < P::order.count; ++s) {
    const auto& node = P::graph.nodes[P::order.head[s]];
    const std::string_view name = node.is_computed() ? node.operation->name : "";
    if ((name != "matmul" && name != "outer_sum") || node.layer >= 8) continue;
    int& of = device[node.layer < 4 ? 0 : 1];
    if (of >= 0 && of != P::order.device[s]) return false;
    of = P::order.device[s];
  }
  return device[0] != device[1];
}

/// No step comes before what it reads, `before` says so, and all steps are there.
template <class P>
void check_order() {
  const auto& order = P::order;
  using Plain = decltype(schedule(P::graph, P::fusion));
  const Plain plain = schedule(P::graph, P::fusion);
  REQUIRE(order.count == plain.count);
  REQUIRE(order.prepared == plain.prepared);
  std::vector<int> heads(order.head, order.head + order.count), expected(plain.head, plain.head + plain.count);
  std::sort(heads.begin(), heads.end());
  std::sort(expected.begin(), expected.end());
  CHECK(heads == expected);
  for (int s = 0; s < order.count; ++s) {
    CHECK((order.device[s] >= 0 && order.device[s] < order.devices));
    if (s < order.prepared) CHECK(order.device[s] == 0);
    for_each_read(P::graph, P::fusion, order.head[s], [&](int value, bool) {
      if (!P::graph.nodes[value].is_computed()) return;
      const int from = order.step[value];
      CHECK(from <= s);
      if (from < s && order.device[from] != order.device[s]) CHECK(order.before[s][order.device[from]] > from);
      // It keeps its place until a step of its own device behind this one.
      if (order.last_use[value] < Plain::forever && from >= order.prepared) {
        const int until = order.last_use[value];
        CHECK(until >= s);
        CHECK(order.device[until] == order.device[from]);
        if (until > s && order.device[until] != order.device[s]) CHECK(order.before[until][order.device[s]] > s);
      }
    });
  }
  law::check_plan<P>();
}

static_assert(towers_keep_their_devices<WideInference>());
static_assert(towers_keep_their_devices<Training<WideWithHead, Features<512>, 2>>());

}  // namespace

TEST_CASE("steps on several devices come behind what they read", "[device_schedule]") {
  check_order<WideInference>();
  check_order<Training<Wide<512>, Features<512>, 3, MeanSquaredError>>();
  check_order<Training<networks::Towers, Features<16>, 2>>();
  check_order<Training<networks::ConvTowers, Image<2, 6, 5>, 2>>();
  check_order<Training<networks::Residual, Image<2, 6, 5>, 4>>();
  check_order<Training<networks::Drawn<3>, Batched<3, 4>, 2, MeanSquaredError>>();
  check_order<Inference<networks::Residual, Image<2, 6, 5>, 2>>();
  check_order<Training<ResNet18<>, Image<1, 28, 28>, 2>>();
}
