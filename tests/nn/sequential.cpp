#include "tenet/nn/sequential.hpp"

#include <tenet/nn/activation.hpp>
#include <tenet/nn/conv2d.hpp>
#include <tenet/nn/linear.hpp>
#include <tenet/nn/pool2d.hpp>

#include "../support/network.hpp"

using namespace tenet;

namespace {
using Map = Linear<4, 4>;
using Input = Features<4>;

using Chain = Sequential<Map, Tanh, Linear<4, 2>>;
struct ChainByHand {
  Map first;
  Linear<4, 2> second;
  constexpr auto forward(auto x) const { return second(tanh(first(x))); }
};
static_assert(std::is_same_v<network::Output<Chain, Input>, Batched<2>>);
static_assert(std::is_same_v<network::Output<Sequential<>, Input>, Input>);

// Named, a container within a container, and a type derived from one.
struct Stem : Sequential<Named<"map", Map>, Tanh> {};
using Nested = Sequential<Stem, Named<"body", Sequential<Map, Tanh>>, Named<"head", Linear<4, 2>>>;
struct NestedByHand {
  Map first, second;
  Linear<4, 2> third;
  constexpr auto forward(auto x) const { return third(tanh(second(tanh(first(x))))); }
};
static_assert(std::is_same_v<network::Output<Nested, Input>, Batched<2>>);

using Repeated = Repeat<3, Sequential<Map, Tanh>>;
struct RepeatedByHand {
  Map first, second, third;
  constexpr auto forward(auto x) const { return tanh(third(tanh(second(tanh(first(x)))))); }
};
static_assert(std::is_same_v<network::Output<Repeated, Input>, Input>);
static_assert(std::is_same_v<network::Output<Repeat<1, Linear<4, 2>>, Input>, Batched<2>>);  // once: any shape
static_assert(slot_table<Repeated>.parameter_count == 3 * 20);

using Plain = Residual<Sequential<Map, Tanh>>;
struct PlainByHand {
  Map map;
  constexpr auto forward(auto x) const { return tanh(map(x)) + x; }
};
using Projected = Residual<Linear<4, 2>, Linear<4, 2, Bias<false>>>;
struct ProjectedByHand {
  Linear<4, 2> body;
  Linear<4, 2, Bias<false>> shortcut;
  constexpr auto forward(auto x) const { return body(x) + shortcut(x); }
};
static_assert(std::is_same_v<network::Output<Plain, Input>, Input>);
static_assert(std::is_same_v<network::Output<Projected, Input>, Batched<2>>);

// Branches of different numbers of channels.
using Inception = Concat<1, Conv2d<2, 3, 1>, Sequential<Conv2d<2, 1, 3, Padding<1>>, ReLU>, Identity>;
struct InceptionByHand {
  Conv2d<2, 3, 1> first;
  Conv2d<2, 1, 3, Padding<1>> second;
  constexpr auto forward(auto x) const { return concatenate<1>(first(x), relu(second(x)), x); }
};
static_assert(std::is_same_v<network::Output<Inception, Image<2, 3, 4>>, Batched<6, 3, 4>>);
static_assert(std::is_same_v<network::Output<Concat<2, Identity, Identity>, Image<2, 3, 4>>, Batched<2, 6, 4>>);

// Networks with the same parameters in the same order give the same bits.
template <class Container, class ByHand, class Input>
void compare() {
  network::Evaluated<Container, Input> container;
  network::Evaluated<ByHand, Input> by_hand;
  const network::Floats x = network::numbers(3 * Input::size);
  const network::Floats found = container(x, 3);
  CHECK(found == by_hand(x, 3));
  CHECK(network::statistics(found).deviation > 0.01);
}
}  // namespace

TEST_CASE("children are numbered, or named") {
  CHECK(network::names<Chain>() == network::Strings{"0.weight", "0.bias", "2.weight", "2.bias"});
  CHECK(network::names<Nested>() ==
        network::Strings{"0.map.weight", "0.map.bias", "body.0.weight", "body.0.bias", "head.weight", "head.bias"});
  CHECK(network::names<Repeat<2, Map>>() == network::Strings{"0.weight", "0.bias", "1.weight", "1.bias"});
  CHECK(network::names<Plain>() == network::Strings{"body.0.weight", "body.0.bias"});
  CHECK(network::names<Projected>() == network::Strings{"body.weight", "body.bias", "shortcut.weight"});
  CHECK(network::names<Inception>() == network::Strings{"0.weight", "0.bias", "1.0.weight", "1.0.bias"});
  CHECK(network::names<Named<"only", Map>>() == network::Strings{"only.weight", "only.bias"});
}

TEST_CASE("a sequence is its modules one after the other") {
  compare<Chain, ChainByHand, Input>();
  compare<Nested, NestedByHand, Input>();
}

TEST_CASE("a repetition is a sequence of modules with parameters of their own") {
  compare<Repeated, RepeatedByHand, Input>();
}

TEST_CASE("a residual is the sum of body and shortcut") {
  compare<Plain, PlainByHand, Input>();
  compare<Projected, ProjectedByHand, Input>();
}

TEST_CASE("branches lie side by side") { compare<Inception, InceptionByHand, Image<2, 3, 4>>(); }
