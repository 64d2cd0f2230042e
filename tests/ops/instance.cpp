#include "tenet/ops/instance.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <tenet/ops/arithmetic.hpp>
#include <tenet/ops/matmul.hpp>

#include "../support/traced.hpp"

using namespace tenet;

namespace {
using Sum = Instance<ops::Add, Batched<2, 3>, Fixed<3>>;
static_assert(std::is_same_v<Sum::Result, Batched<2, 3>>);
static_assert(Sum::operand_count == 2);
static_assert(Sum::flops().at(10) == 60);
static_assert(Instance<ops::Add, Fixed<5>, Fixed<5>>::flops().at(10) == 5);
static_assert(Instance<ops::Matmul<false, false>, Batched<3>, Fixed<3, 4>>::flops().at(10) == 240);

constexpr auto& add = Sum::info<traced::Context>;
constexpr auto& product = Instance<ops::Matmul<false, false>, Batched<3>, Fixed<3, 4>>::info<traced::Context>;
static_assert(add.kind == Kind::element && product.kind == Kind::kernel);
static_assert(product.element == nullptr && add.kernel == nullptr);
// Inside a gradient nothing is differentiated once more: not even the functions are compiled.
static_assert(Sum::info<traced::Context::WithoutGradient>.gradient == nullptr);

struct Plain {
  bool ran_by_it = false;
};
struct WithRow : Plain {
  using WithoutRow = Plain;
};
/// An operation whose kernel a device has for its executor, and another one for all others.
struct Operation {
  static Batched<2> result(Batched<2>) { return {}; }
  static void run(Plain& executor, int, Batched<2>) { executor.ran_by_it = true; }
  template <class Other>
  static void run(Other&, int, Batched<2>) {}
};
template <class Executor_>
struct Device {
  using Executor = Executor_;
  using Arguments = int;
};
}  // namespace

TEST_CASE("an executor with a row for the timeline runs the kernels of the one without") {
  Plain plain;
  Instance<Operation, Batched<2>>::run<Device<Plain>>(plain, 0);
  CHECK(plain.ran_by_it);
  WithRow recorded;
  Instance<Operation, Batched<2>>::run<Device<WithRow>>(recorded, 0);
  CHECK(recorded.ran_by_it);
}

TEST_CASE("one operation on the same types has one identity") {
  CHECK(add.identity == Sum::info<traced::Context::WithoutGradient>.identity);
  CHECK(add.identity != Instance<ops::Add, Batched<2, 3>, Fixed<2, 3>>::info<traced::Context>.identity);
  CHECK(add.identity != Instance<ops::Subtract, Batched<2, 3>, Fixed<3>>::info<traced::Context>.identity);
  CHECK(std::string(add.name) == "add");
}
