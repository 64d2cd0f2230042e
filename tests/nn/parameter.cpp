#include "tenet/nn/parameter.hpp"

#include "../support/network.hpp"

using namespace tenet;

namespace {
using Vector20 = Fixed<20>;
static_assert(Parameter<Vector20, Constant<1>>::info().kind == SlotKind::parameter);
static_assert(StateBuffer<Vector20, Constant<1>>::info().kind == SlotKind::buffer);
static_assert(StepCounter::info().kind == SlotKind::counter && Marker::info().kind == SlotKind::marker);
static_assert(Parameter<Vector20, Constant<1>>::info().type == &Vector20::info);
static_assert(std::is_same_v<OptionalParameter<true, Vector20, Normal<>>, Parameter<Vector20, Normal<>>>);
static_assert(std::is_same_v<OptionalParameter<false, Vector20, Normal<>>, Absent>);

struct AllKinds {
  Parameter<Fixed<100, 100>, KaimingUniform<25>> uniform;
  Parameter<Fixed<100, 100>, Normal<20>> normal;
  Absent absent;
  Parameter<Fixed<3>, Constant<-3, 4>> constant;
  StateBuffer<Fixed<2>, Constant<2>> buffer;
  Parameter<Scalar, Constant<5>> number;
  Marker marker;
  StepCounter counter;
  constexpr auto forward(AnySymbol auto x) const { return x; }
};
constexpr auto& table = slot_table<AllKinds>;
static_assert(table.count == 7 && table.parameter_count == 20004);
// Every tensor begins on a line of 64 bytes; buffers have an arena of their own.
static_assert(table.slots[0].offset == 0 && table.slots[1].offset == 10000 && table.slots[2].offset == 20000);
static_assert(table.slots[3].offset == 0 && table.slots[4].offset == 20016 && table.parameter_floats == 20032);
static_assert(table.buffer_floats == 16);
}  // namespace

TEST_CASE("initialisers give the distributions that they name") {
  Weights<AllKinds> weights(1);
  network::check_uniform(weights["uniform"], 0.2);
  const network::Statistics normal = network::statistics(weights["normal"]);
  CHECK(std::fabs(normal.mean) < 5 * 0.02 / 100);
  CHECK(std::fabs(normal.deviation / 0.02 - 1) < 0.05);
  CHECK(normal.greatest > 0.06);
  network::check_all(weights["constant"], -0.75f);
  network::check_all(weights["buffer"], 2);
  network::check_all(weights["number"], 5);
}

TEST_CASE("a seed fixes the initial values, and every slot has its own") {
  Weights<AllKinds> one(1), again(1), other(2);
  const auto copy = [](std::span<const float> values) { return network::Floats(values.begin(), values.end()); };
  CHECK(copy(one["uniform"]) == copy(again["uniform"]));
  CHECK(copy(one["normal"]) == copy(again["normal"]));
  CHECK(copy(one["uniform"]) != copy(other["uniform"]));
  CHECK(copy(one["normal"]) != copy(other["normal"]));

  struct Twins {
    Parameter<Fixed<50>, Normal<>> first, second;
  };
  Weights<Twins> twins;
  CHECK(copy(twins["first"]) != copy(twins["second"]));
}

TEST_CASE("what has no numbers has no name") {
  CHECK(network::names<AllKinds>() == network::Strings{"uniform", "normal", "constant", "buffer", "number", "counter"});
}
