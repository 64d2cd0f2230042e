#include "tenet/device/reference.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <type_traits>

#include "tenet/exec/execution.hpp"

namespace {

using namespace tenet;

static_assert(std::is_same_v<ReferenceKernels::Lane, float>);  // one element after the other
static_assert(Reference::threads() == 1 && Reference::index == 0);
static_assert(std::is_same_v<decltype(make_executor<Reference>()), std::unique_ptr<reference::Serial>>);

float twice(float x, float, float, float) { return 2 * x; }

constexpr Wiring one_operation = [] {
  Wiring made;
  made.operations = made.inputs = made.outputs = 1;
  return made;
}();

}  // namespace

TEST_CASE("the reference device runs regions on its executor", "[reference]") {
  const auto executor = make_executor<Reference>();
  const float x[] = {1, 2, 3};
  float y[3] = {};
  ElementArguments arguments{};
  arguments.inputs[0] = {x, 1, 0};
  arguments.outputs[0] = y;
  arguments.total = arguments.block = 3;
  run_element(*executor, ReferenceKernels::element_range<Role::store, one_operation, &twice>, arguments);
  CHECK(y[0] == 2);
  CHECK(y[2] == 6);
  CHECK(std::string(ReferenceKernels::name) == "reference");
}
