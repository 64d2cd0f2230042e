#include "tenet/ops/two_devices.hpp"

#include <catch2/catch.hpp>
#include <tenet/tenet.hpp>

#include "../support/traced.hpp"

using namespace tenet;

// What a compiler says of two devices is held by tests/compile_fail; here: that every function of several operands has
// it said. What it returns does not compile, but has a name.
namespace {

template <class Device, class Type>
using On = Symbol<Eager<Device>, Type>;
using Here = Cpu<0, 1>;
using There = Cpu<1, 1>;

template <class Result, class Instead, class... Devices>
constexpr bool explains = std::is_same_v<Result, mistake::DevicesDiffer<On<Here, Instead>, Devices...>>;

using Row = Batched<4>;
constexpr On<Here, Row> a;
constexpr On<There, Row> b;
static_assert(explains<decltype(a + b), Row, Here, There>);
static_assert(explains<decltype(a - b), Row, Here, There>);
static_assert(explains<decltype(a * b), Row, Here, There>);
static_assert(explains<decltype(a / b), Row, Here, There>);
static_assert(explains<decltype(maximum(a, b)), Row, Here, There>);
static_assert(explains<decltype(minimum(a, b)), Row, Here, There>);
static_assert(explains<decltype(apply<ops::Maximum>(a, b)), Row, Here, There>);
static_assert(explains<decltype(normalize(a, a, a, b)), Row, Here, Here, Here, There>);

constexpr On<There, BatchedInt<>> labels;
static_assert(explains<decltype(cross_entropy(a, labels)), Scalar, Here, There>);
static_assert(explains<decltype(accuracy(a, labels)), Scalar, Here, There>);

constexpr On<Here, Fixed<4>> weight;
constexpr On<There, Fixed<4>> bias;
static_assert(explains<decltype(layer_norm(a, weight, bias)), Row, Here, Here, There>);

constexpr On<There, Fixed<4, 4>> matrix;
static_assert(explains<decltype(matmul(a, matrix)), Row, Here, There>);
static_assert(explains<decltype(matmul<false, true>(a, matrix)), Row, Here, There>);
static_assert(explains<decltype(embedding(On<Here, Tokens<3>>{}, matrix)), Tokens<3>, Here, There>);

using Picture = Image<1, 4, 4>;
constexpr On<Here, Picture> image;
constexpr On<There, Picture> other_image;
static_assert(explains<decltype(conv2d(image, On<There, Fixed<1, 1, 3, 3>>{})), Picture, Here, There>);
static_assert(explains<decltype(conv2d<1, 1>(image, On<There, Fixed<1, 1, 3, 3>>{})), Picture, Here, There>);
static_assert(explains<decltype(concatenate<1>(image, image, other_image)), Picture, Here, Here, There>);
static_assert(explains<decltype(scaled_dot_product_attention(image, image, other_image)), Picture, Here, Here, There>);
static_assert(
    explains<decltype(scaled_dot_product_attention<true>(image, other_image, image)), Picture, Here, There, Here>);

// Threads are part of a device, and the reference is another one.
static_assert(mistake::OfTwoDevices<On<Cpu<0, 1>, Row>, On<Cpu<0, 2>, Row>>);
static_assert(mistake::OfTwoDevices<On<Reference, Row>, On<Cpu<>, Row>>);
// One device, also where gradients are computed, and traces are no mistake.
static_assert(!mistake::OfTwoDevices<On<Here, Row>, On<Here, Scalar>>);
static_assert(!mistake::OfTwoDevices<On<Here, Row>>);
static_assert(!mistake::OfTwoDevices<On<Here, Row>, Symbol<Eager<Here>::WithoutGradient, Row>>);
static_assert(!mistake::OfTwoDevices<Symbol<traced::Context, Row>, Symbol<traced::Context, Row>>);

}  // namespace

TEST_CASE("tensors of one device meet as if there were no other", "[two_devices]") {
  const auto executor = make_executor<Here>();
  Eager<Here> tape(*executor);
  const float numbers[] = {1, 2, 3, 4};
  const auto x = tape.tensor<Row>(numbers);
  CHECK((x + x).values()[3] == 8);
  CHECK(apply<ops::Maximum>(x, -x).values()[1] == 2);
}
