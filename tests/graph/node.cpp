#include "tenet/graph/node.hpp"

#include <catch2/catch.hpp>

#include "../support/networks.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
using Traced = traced::Training<networks::Residual, Image<2, 6, 5>, CrossEntropy>;
}

TEST_CASE("a node is an operation with its operands, or a leaf with its source") {
  for (int i = 0; i < Traced::graph.count; ++i) {
    const auto& node = Traced::graph.nodes[i];
    CHECK((node.operation != nullptr) == node.is_computed());
    REQUIRE(node.type != nullptr);
    CHECK(node.operand_count == (node.is_computed() ? node.operation->operand_count : 0));
    if (node.is_computed()) CHECK(*node.type == *node.operation->result);
    CHECK(node.type->size() > 0);
  }
}

TEST_CASE("a parameter stands behind a node that needs a gradient, and only then") {
  for (int i = 0; i < Traced::graph.forward_count; ++i) {
    const auto& node = Traced::graph.nodes[i];
    bool any = node.source == Source::parameter;
    for (int j = 0; j < node.operand_count; ++j) any = any || Traced::graph.nodes[node.operands[j]].needs_gradient;
    CHECK(node.needs_gradient == any);
  }
}
