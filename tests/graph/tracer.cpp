#include "tenet/graph/tracer.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
// Four hundred operations that differ: more than the first attempt has room for, so the trace is repeated.
struct Long {
  constexpr auto forward(auto x) const {
    auto y = x;
    for (int i = 1; i <= 200; ++i) y = y * (1.0f + static_cast<float>(i) * 0x1p-10f) + x;
    return y;
  }
};
static_assert(traced::operations<traced::Inference<Long, Features<3>>>() == 400);
static_assert(!traced::Inference<Long, Features<3>>::trace.overflow);
static_assert(traced::Inference<Long, Features<3>>::trace.count > 400);

// What is found equal or simplified is counted.
using Merging =
    traced::Inference<traced::Function<[](auto x) { return tanh(x) + tanh(x) * 1 + -(-tanh(x)); }>, Features<3>>;
static_assert(traced::operations<Merging>() == 3);
static_assert(Merging::trace.merged >= 2 && Merging::trace.simplified >= 2);

// One constant for equal numbers, another for others; reads of one parameter are one leaf.
struct Leaves {
  Parameter<Fixed<3>, Constant<1>> a, b;
  constexpr auto forward(auto x) const { return (x + 2) * a.in(x) - (x * 2 + a.in(x)) / (b.in(x) + 3); }
};
template <class Program>
constexpr int leaves(Source source) {
  int count = 0;
  for (const auto& node : Program::graph.nodes) count += node.source == source;
  return count;
}
using LeavesProgram = traced::Inference<Leaves, Features<3>>;
static_assert(leaves<LeavesProgram>(Source::constant) == 2);
static_assert(leaves<LeavesProgram>(Source::parameter) == 2);
static_assert(leaves<LeavesProgram>(Source::input) == 1);

// A buffer that is read after an assignment gives what was assigned.
struct Counting {
  StateBuffer<Fixed<2>, Constant<0>> count;
  constexpr auto forward(auto x) const {
    const auto before = count.in(x);
    if (x.context->training()) count.assign(before + 1);
    return x * 0 + count.in(x)*10 + before;
  }
};
struct SumLoss : law::WeightedSum {};
}  // namespace

TEST_CASE("operations behind each other are all kept") {
  Model<Long, Features<3>, Reference> model;
  const float x[] = {0, 1, -1};
  const auto y = model(x);
  CHECK(y[0] == 0.0f);
  CHECK(y[1] == -y[2]);
  CHECK(y[1] > 200.0f);
}

TEST_CASE("buffers: what was read before an assignment stays, what is read behind it is new") {
  Trainer<Counting, SumLoss, law::Nothing, Features<2>, Reference> trainer;
  const float x[] = {5, 5}, ones[] = {1, 1};
  CHECK(trainer.step(x, ones, 1).loss == 10.0f);
  CHECK(trainer.step(x, ones, 1).loss == 21.0f);
  CHECK(trainer.weights()["count"][0] == 2.0f);
  CHECK(trainer.predict(x, 1)[0] == 22.0f);
  CHECK(trainer.weights()["count"][1] == 2.0f);  // prediction changes nothing
}
