#include "tenet/device/arguments.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <type_traits>

using tenet::KernelArguments;

TEST_CASE("kernel arguments give operands and result with their element types", "[arguments]") {
  const float floats[] = {1.5f, 2.5f};
  const std::int32_t labels[] = {7, 8};
  float result[2] = {};
  KernelArguments arguments;
  arguments.operands[0] = floats;
  arguments.operands[3] = labels;
  arguments.written = result;
  CHECK(arguments.operand<float>(0)[1] == 2.5f);
  CHECK(arguments.operand<std::int32_t>(3) == labels);
  arguments.result<float>()[1] = 4;
  CHECK(result[1] == 4);
  static_assert(std::is_same_v<decltype(arguments.operand<float>(0)), const float*>);  // operands are read only
}

TEST_CASE("kernel arguments that nobody has set are harmless", "[arguments]") {
  const KernelArguments arguments;
  for (int i = 0; i < 4; ++i) CHECK(arguments.operand<float>(i) == nullptr);
  CHECK(arguments.result<float>() == nullptr);
  CHECK(arguments.batch == 1);
  CHECK(arguments.attribute == 0);
  CHECK_FALSE(arguments.epilogue);
}
