#include "tenet/ops/mistake.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "../support/traced.hpp"

using namespace tenet;

// The sentences that a compiler prints are held by tests/compile_fail; here: what is recorded while a network is
// traced.
namespace {
template <class Net, class Input>
constexpr MistakeRecord mistake_of() {
  return InferenceProgram<Net, Input, traced::Kernels>::template trace<256>().mistake;
}

struct TwoLayers {
  Linear<4, 3> first;
  Linear<5, 2> second;  // 3 features arrive
  Linear<9, 2> third;   // a consequence of it
  constexpr auto forward(auto x) const { return third(second(first(x))); }
};
struct Sum {
  Linear<4, 3> first;
  constexpr auto forward(auto x) const { return first(x) + x; }
};
struct Sound {
  Linear<4, 3> first;
  constexpr auto forward(auto x) const { return first(x); }
};

constexpr MistakeRecord features = mistake_of<TwoLayers, Features<4>>();
static_assert(features.kind == Mistake::features);
static_assert(features.expected == Features<5>::info && features.found == Features<3>::info);
static_assert(mistake_of<Sum, Features<4>>().kind == Mistake::broadcast);
static_assert(mistake_of<Sound, Features<4>>().kind == Mistake::none);
static_assert(mistake_of<Sequential<Conv2d<3, 4, 3>>, Image<1, 8, 8>>().kind == Mistake::channels);
static_assert(mistake_of<Sequential<Conv2d<1, 4, 9>>, Image<1, 8, 8>>().kind == Mistake::kernel);
static_assert(mistake_of<Sequential<Conv2d<1, 4, 3>>, Features<8>>().kind == Mistake::rank);
static_assert(mistake_of<traced::Function<[](auto x) { return reshape<5>(x); }>, Features<8>>().kind ==
              Mistake::reshape);
}  // namespace

TEST_CASE("the first mistake is recorded, with its layer and its line") {
  CHECK(std::string(layer_path<TwoLayers>(features.slot).view()) == "second");
  CHECK(features.line > 0);
}
