#pragma once

#include <array>

#include "tenet/graph/layout.hpp"

namespace layout {

/// Stored images, and those of them that lie in a layout.
template <class Program>
constexpr std::array<int, 2> images(tenet::Layout layout = tenet::Layout::channels_last) {
  using tenet::planes_of;
  std::array<int, 2> count{};
  for (int i = 0; i < Program::graph.count; ++i) {
    const auto& node = Program::graph.nodes[i];
    if (!node.is_computed() || !Program::fusion.stored[i] || !node.type->batched) continue;
    if (!planes_of(*node.type).have_order()) continue;
    ++count[0];
    count[1] += Program::storage.layout[i] == layout;
  }
  return count;
}

}  // namespace layout
