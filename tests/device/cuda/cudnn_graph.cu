#include <catch2/catch.hpp>

#include "tenet/device/cuda/cudnn_graph.hpp"

namespace gpu = tenet::gpu;

TEST_CASE("a graph's operands know how they are aligned, and whether one is overwritten", "[cuda][conv2d]") {
  alignas(64) const char memory[64]{};
  gpu::GraphOperands operands;
  operands.add(gpu::GraphTensor::result, memory + 32);
  CHECK(operands.are_aligned());
  operands.add(gpu::GraphTensor::input, memory + 16);
  CHECK(operands.are_aligned());
  operands.add(gpu::GraphTensor::weight, memory + 8);
  CHECK(!operands.are_aligned());
  CHECK(!operands.overwrites_input());
  operands.add(gpu::GraphTensor::region, memory + 32, 1);
  CHECK(operands.overwrites_input());
}
