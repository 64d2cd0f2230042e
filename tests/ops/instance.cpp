#include "tenet/ops/instance.hpp"

#include "../support/traced.hpp"

#include <catch2/catch.hpp>
#include <string>

#include <tenet/ops/arithmetic.hpp>
#include <tenet/ops/matmul.hpp>

using namespace tenet;

namespace {
using Sum = Instance<ops::Add, Batched<2, 3>, Fixed<3>>;
static_assert(std::is_same_v<Sum::Result, Batched<2, 3>>);
static_assert(Sum::operand_count == 2);
static_assert(Sum::flops() == Cost{6, 0});
static_assert(Instance<ops::Add, Fixed<5>, Fixed<5>>::flops() == Cost{0, 5});
static_assert(Instance<ops::Matmul<false, false>, Batched<3>, Fixed<3, 4>>::flops() == Cost{24, 0});

constexpr auto& add = Sum::info<traced::Context>;
constexpr auto& product = Instance<ops::Matmul<false, false>, Batched<3>, Fixed<3, 4>>::info<traced::Context>;
static_assert(add.kind == Kind::element && add.element != nullptr && add.fold != nullptr && add.kernel == nullptr);
static_assert(product.kind == Kind::kernel && product.element == nullptr && product.kernel != nullptr);
static_assert(add.gradient != nullptr && product.gradient != nullptr);
// Inside a gradient nothing is differentiated once more: not even the functions are compiled.
static_assert(Sum::info<traced::Context::WithoutGradient>.gradient == nullptr);
}  // namespace

TEST_CASE("one operation on the same types has one identity") {
  CHECK(add.identity == Sum::info<traced::Context::WithoutGradient>.identity);
  CHECK(add.identity != Instance<ops::Add, Batched<2, 3>, Fixed<2, 3>>::info<traced::Context>.identity);
  CHECK(add.identity != Instance<ops::Subtract, Batched<2, 3>, Fixed<3>>::info<traced::Context>.identity);
  CHECK(std::string(add.name) == "add");
}
