#include "tenet/nn/options.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

namespace {
// Defaults, options of other kinds, and any order.
static_assert(int_option<Stride, 1> == 1);
static_assert(int_option<Stride, 1, Padding<5>, Bias<false>> == 1);
static_assert(int_option<Stride, 1, Padding<5>, Stride<2>, Bias<false>> == 2);
static_assert(int_option<Padding, 0, Padding<5>, Stride<2>> == 5);
static_assert(int_option<Padding, 0, Stride<2>, Padding<5>> == 5);
static_assert(bool_option<Bias, true> && !bool_option<Bias, false>);
static_assert(bool_option<Bias, true, Causal<false>>);
static_assert(!bool_option<Bias, true, Stride<2>, Bias<false>>);
static_assert(bool_option<Causal, false, Bias<false>, Causal<true>>);
}  // namespace

TEST_CASE("an option that is given twice has the value given last") {
  CHECK(int_option<Stride, 1, Stride<2>, Stride<3>> == 3);
  CHECK(bool_option<Bias, true, Bias<false>, Bias<true>>);
}
